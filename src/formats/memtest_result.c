/* memtest_result.c - decides what a file of a memory test must hold to be believed. */
#include "formats/memtest_result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/memtest_keys.h"

#define CAP_BYTES   ((size_t)1 << 20)
#define MOST_BYTES  (INT64_C(1) << 50)
#define MOST_TOKENS (INT64_C(1) << 24)
#define MOST_REAL   1e15

const char *const plim_memtest_kernels[PLIM_MEMTEST_KERNELS] = {"cpu", "cudnn", "own"};

const char *const plim_memtest_stops[PLIM_MEMTEST_STOPS] = {
#define TEXT(name, text) text,
    PLIM_MEMTEST_STOP_MAP(TEXT)
#undef TEXT
};

void plim_memtest_result_clear(plim_memtest_result *r)
{
    *r = (plim_memtest_result){.parameters = 0,
                               .available_bytes = PLIM_MEMTEST_UNKNOWN,
                               .gemm_tflop_per_s = PLIM_MEMTEST_UNKNOWN,
                               .memory_gb_per_s = PLIM_MEMTEST_UNKNOWN,
                               .normals_per_s = PLIM_MEMTEST_UNKNOWN,
                               .usd_per_h = PLIM_MEMTEST_UNKNOWN,
                               .max_usd = PLIM_MEMTEST_UNKNOWN,
                               .expected_s = PLIM_MEMTEST_UNKNOWN,
                               .usd = PLIM_MEMTEST_UNKNOWN};
}

void plim_memtest_result_judge(plim_memtest_result *r)
{
    r->limit_tokens = r->first_failing_tokens = 0;
    for (int64_t i = 0; i < r->length_count; i++) {
        const plim_memtest_length *l = &r->length[i];
        if (l->verdict == PLIM_FITS) r->limit_tokens = l->seq_tokens;
        if (l->verdict == PLIM_NO && !r->first_failing_tokens) r->first_failing_tokens = l->seq_tokens;
    }
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Every key of obj must be among keys (separated by blanks). */
static plim_status only_keys(const plim_json *j, const json_t *obj, const char *path, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value)
    {
        size_t n = strlen(key);
        bool known = false;
        for (const char *at = strstr(keys, key); n && at && !known; at = strstr(at + 1, key))
            known = (at == keys || at[-1] == ' ') && (at[n] == ' ' || !at[n]) && !memchr(key, ' ', n);
        if (known) continue;
        char at[192];
        snprintf(at, sizeof at, "%s%s%.60s", path, *path ? "." : "", key);
        return plim_json_fail(j, at, PLIM_E_FORMAT, "the key \"%.60s\" is unknown; this plimsoll reads: %s",
                              key, keys);
    }
    return PLIM_OK;
}

/* A key that may be null must still be there: the file's writer never leaves one out. */
static plim_status need(const plim_json *j, const json_t *obj, const char *path, const char *key)
{
    if (json_object_get(obj, key)) return PLIM_OK;
    char at[192];
    snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", key);
    return plim_json_fail(j, at, PLIM_E_FORMAT, "is missing");
}

static plim_status i64_or_null(const plim_json *j, const json_t *obj, const char *path, const char *key,
                               int64_t min, int64_t max, int64_t *out)
{
    TRY(need(j, obj, path, key));
    return plim_json_i64_opt(j, obj, path, key, min, max, out);
}

static plim_status real_or_null(const plim_json *j, const json_t *obj, const char *path, const char *key,
                                double min, double *out)
{
    TRY(need(j, obj, path, key));
    return plim_json_double_opt(j, obj, path, key, min, MOST_REAL, out);
}

/* Text of at most cap - 1 bytes; null leaves it "" where that is allowed. */
static plim_status text(const plim_json *j, const json_t *obj, const char *path, const char *key,
                        bool nullable, char *out, size_t cap)
{
    const char *s = "";
    char at[192];
    TRY(need(j, obj, path, key));
    if (nullable) TRY(plim_json_string_opt(j, obj, path, key, &s));
    else TRY(plim_json_string(j, obj, path, key, &s));
    snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", key);
    if (strlen(s) >= cap)
        return plim_json_fail(j, at, PLIM_E_RANGE, "has %zu bytes; at most %zu are accepted", strlen(s),
                              cap - 1);
    memcpy(out, s, strlen(s) + 1);
    return PLIM_OK;
}

/* Text that is one of count words; *out its index. */
static plim_status word(const plim_json *j, const json_t *obj, const char *path, const char *key,
                        const char *(*name_of)(int i), int count, int *out)
{
    const char *s;
    char at[192];
    TRY(plim_json_string(j, obj, path, key, &s));
    for (int i = 0; i < count; i++) {
        if (strcmp(s, name_of(i)) != 0) continue;
        *out = i;
        return PLIM_OK;
    }
    snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", key);
    return plim_json_fail(j, at, PLIM_E_RANGE, "\"%.60s\" is none of the words it can be; \"%s\" is one", s,
                          name_of(0));
}

/* stem_bytes and stem_gib, which must be the same amount. */
static plim_status amount(const plim_json *j, const json_t *obj, const char *path, const char *stem,
                          bool nullable, int64_t *out)
{
    char bytes_key[64], gib_key[64], at[192];
    double gib = -1;
    int64_t bytes = PLIM_MEMTEST_UNKNOWN;
    snprintf(bytes_key, sizeof bytes_key, "%s_bytes", stem);
    snprintf(gib_key, sizeof gib_key, "%s_gib", stem);
    if (nullable) TRY(i64_or_null(j, obj, path, bytes_key, 0, MOST_BYTES, &bytes));
    else TRY(plim_json_i64(j, obj, path, bytes_key, 0, MOST_BYTES, &bytes));
    TRY(real_or_null(j, obj, path, gib_key, 0, &gib));
    snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", gib_key);
    bool same = bytes < 0 ? gib < 0 : gib >= 0 && fabs(gib * PLIM_MEMTEST_GIB - (double)bytes) < 0.5;
    if (!same)
        return plim_json_fail(j, at, PLIM_E_RANGE, "is not what \"%s\" says; one of the two was changed",
                              bytes_key);
    *out = bytes;
    return PLIM_OK;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

static const char *kernel_word(int i)
{
    return plim_memtest_kernels[i];
}

static const char *verdict_word(int i)
{
    return plim_verdict_name((plim_verdict)i);
}

static const char *component_word(int i)
{
    return plim_component_key((plim_component)i);
}

static const char *target_word(int i)
{
    return plim_target_name((plim_target)i);
}

static const char *status_word(int i)
{
    return plim_status_name((plim_status)(i + 1)); /* all but OK */
}

static const char *stop_word(int i)
{
    return plim_memtest_stops[i + 1];
}

static const char *dtype_word(int i)
{
    static const plim_dtype dtypes[] = {PLIM_BF16, PLIM_F32, PLIM_F64};
    return plim_dtype_name(dtypes[i]);
}

static plim_status read_targets(const plim_json *j, const json_t *obj, uint32_t *out)
{
    const json_t *targets;
    uint32_t bits = 0;
    TRY(plim_json_array(j, obj, "options", "lora_targets", &targets));
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *s;
        char at[64];
        int t = 0;
        TRY(plim_json_at_string(j, targets, "options.lora_targets", i, &s));
        while (t < PLIM_TARGET_COUNT && strcmp(s, target_word(t)) != 0) t++;
        snprintf(at, sizeof at, "options.lora_targets[%zu]", i);
        if (t == PLIM_TARGET_COUNT || bits & PLIM_TARGET_BIT(t))
            return plim_json_fail(j, at, PLIM_E_RANGE, "\"%.60s\" is no projection, or named twice", s);
        bits |= PLIM_TARGET_BIT(t);
    }
    *out = bits;
    return PLIM_OK;
}

static plim_status read_shared_options(const plim_json *j, plim_memtest_result *r)
{
    static const plim_dtype dtypes[] = {PLIM_BF16, PLIM_F32, PLIM_F64};
    const json_t *obj;
    plim_options *o = &r->options;
    int64_t bits;
    int dtype;
    TRY(plim_json_object(j, j->root, "", "options", &obj));
    TRY(only_keys(j, obj, "options",
                  "dtype steps seed labelled_share documents lora_rank lora_targets lora_dropout adam_bits"));
    TRY(word(j, obj, "options", "dtype", dtype_word, 3, &dtype));
    o->act = dtypes[dtype];
    TRY(plim_json_i64(j, obj, "options", "steps", 1, PLIM_MEMTEST_MAX_STEPS, &r->steps_wanted));
    TRY(plim_json_i64(j, obj, "options", "seed", 0, INT64_MAX, &r->seed));
    TRY(plim_json_double(j, obj, "options", "labelled_share", 0, 1, &o->labelled_share));
    TRY(plim_json_i64(j, obj, "options", "documents", 1, MOST_TOKENS, &o->documents));
    TRY(plim_json_i64(j, obj, "options", "lora_rank", 1, PLIM_MAX_RANK, &o->lora_rank));
    TRY(read_targets(j, obj, &o->lora_targets));
    TRY(plim_json_double(j, obj, "options", "lora_dropout", 0, 1, &o->lora_dropout));
    TRY(plim_json_i64(j, obj, "options", "adam_bits", 8, 32, &bits));
    o->adam_bits = (int)bits;
    return PLIM_OK;
}

static plim_status read_options(const plim_json *j, const json_t *length, const char *path,
                                const plim_memtest_result *r, plim_memtest_length *l)
{
    const json_t *obj;
    char at[64];
    int kernel;
    plim_options *o = &l->options;
    *o = r->options;
    o->seq_tokens = l->seq_tokens;
    o->loss_rows = PLIM_FULL_LOGITS;
    snprintf(at, sizeof at, "%s.options", path);
    TRY(plim_json_object(j, length, path, "options", &obj));
    TRY(only_keys(
        j, obj, at,
        "host_checkpoints kept_layers keep_attention_output tile_tokens loss_rows embedding_on_host "
        "attention"));
    TRY(plim_json_i64(j, obj, at, "host_checkpoints", 0, PLIM_MAX_LAYERS, &o->host_checkpoints));
    TRY(plim_json_i64(j, obj, at, "kept_layers", 0, PLIM_MAX_LAYERS, &o->kept_layers));
    TRY(plim_json_bool(j, obj, at, "keep_attention_output", &o->keep_attention_output));
    TRY(plim_json_i64(j, obj, at, "tile_tokens", 1, MOST_TOKENS, &o->tile_tokens));
    TRY(i64_or_null(j, obj, at, "loss_rows", 1, MOST_TOKENS, &o->loss_rows));
    TRY(plim_json_bool(j, obj, at, "embedding_on_host", &o->embedding_on_host));
    TRY(word(j, obj, at, "attention", kernel_word, PLIM_MEMTEST_KERNELS, &kernel));
    o->attention = (plim_attention_kernel)kernel;
    return PLIM_OK;
}

static plim_status read_components(const plim_json *j, const json_t *length, const char *path,
                                   plim_memtest_length *l)
{
    const json_t *parts;
    const char *key;
    json_t *value;
    char at[64];
    int64_t sum = 0;
    snprintf(at, sizeof at, "%s.components_bytes", path);
    TRY(plim_json_object(j, length, path, "components_bytes", &parts));
    json_object_foreach((json_t *)(uintptr_t)parts, key, value)
    {
        int m = 0;
        while (m < PLIM_COMPONENT_COUNT && strcmp(key, component_word(m)) != 0) m++;
        if (m == PLIM_COMPONENT_COUNT)
            return plim_json_fail(j, at, PLIM_E_FORMAT, "\"%.60s\" is no component", key);
        TRY(plim_json_i64(j, parts, at, key, 1, MOST_BYTES, &l->component_bytes[m]));
        sum += l->component_bytes[m];
    }
    if (sum != l->planned_peak_bytes)
        return plim_json_fail(j, at, PLIM_E_RANGE, "add up to %lld bytes, but \"planned_peak_bytes\" is %lld",
                              (long long)sum, (long long)l->planned_peak_bytes);
    return PLIM_OK;
}

static plim_status read_steps(const plim_json *j, const json_t *length, const char *path,
                              const plim_memtest_result *r, plim_memtest_length *l)
{
    const json_t *steps;
    char at[64];
    snprintf(at, sizeof at, "%s.step_seconds", path);
    TRY(plim_json_array(j, length, path, "step_seconds", &steps));
    if ((int64_t)json_array_size(steps) > r->steps_wanted)
        return plim_json_fail(j, at, PLIM_E_RANGE, "has %zu steps; %lld were wanted", json_array_size(steps),
                              (long long)r->steps_wanted);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *v = json_array_get(steps, i);
        if (!json_is_number(v) || !(json_number_value(v) >= 0 && json_number_value(v) <= MOST_REAL))
            return plim_json_fail(j, at, PLIM_E_RANGE, "step %zu is no number of seconds", i + 1);
        l->step_s[l->steps++] = json_number_value(v);
    }
    return PLIM_OK;
}

/* A length that is said to fit must have been run in full. */
static plim_status check_length(const plim_json *j, const char *path, const plim_memtest_result *r,
                                const plim_memtest_length *l)
{
    bool whole =
        l->steps == r->steps_wanted && l->measured_peak_bytes >= 0 && isfinite(l->loss) && !l->error[0];
    if (l->verdict != PLIM_NO && !whole)
        return plim_json_fail(j, path, PLIM_E_RANGE,
                              "says \"%s\" although not all of its %lld steps were run and measured",
                              plim_verdict_name(l->verdict), (long long)r->steps_wanted);
    return PLIM_OK;
}

static plim_status read_length(const plim_json *j, const json_t *obj, const char *path,
                               const plim_memtest_result *r, plim_memtest_length *l)
{
    int verdict;
    *l = (plim_memtest_length){.loss = NAN, .evaluation_loss = NAN};
    l->expected_step_s = l->setup_s = l->evaluation_s = l->tokens_per_s = PLIM_MEMTEST_UNKNOWN;
    TRY(only_keys(j, obj, path,
                  "seq_tokens verdict options planned_peak_bytes planned_peak_gib measured_peak_bytes "
                  "measured_peak_gib arena_peak_bytes arena_peak_gib process_peak_bytes process_peak_gib "
                  "process_before_bytes "
                  "process_before_gib process_peak_reset host_peak_bytes host_peak_gib components_bytes "
                  "expected_step_seconds setup_seconds step_seconds evaluation_seconds tokens_per_s loss "
                  "evaluation_loss error"));
    TRY(plim_json_i64(j, obj, path, "seq_tokens", 1, MOST_TOKENS, &l->seq_tokens));
    TRY(word(j, obj, path, "verdict", verdict_word, PLIM_NO + 1, &verdict));
    l->verdict = (plim_verdict)verdict;
    TRY(read_options(j, obj, path, r, l));
    TRY(amount(j, obj, path, "planned_peak", false, &l->planned_peak_bytes));
    TRY(amount(j, obj, path, "measured_peak", true, &l->measured_peak_bytes));
    TRY(amount(j, obj, path, "arena_peak", true, &l->arena_peak_bytes));
    TRY(amount(j, obj, path, "process_peak", true, &l->process_peak_bytes));
    TRY(amount(j, obj, path, "process_before", true, &l->process_before_bytes));
    TRY(plim_json_bool(j, obj, path, "process_peak_reset", &l->process_peak_reset));
    TRY(amount(j, obj, path, "host_peak", false, &l->host_peak_bytes));
    TRY(read_components(j, obj, path, l));
    TRY(real_or_null(j, obj, path, "expected_step_seconds", 0, &l->expected_step_s));
    TRY(real_or_null(j, obj, path, "setup_seconds", 0, &l->setup_s));
    TRY(read_steps(j, obj, path, r, l));
    TRY(real_or_null(j, obj, path, "evaluation_seconds", 0, &l->evaluation_s));
    TRY(real_or_null(j, obj, path, "tokens_per_s", 0, &l->tokens_per_s));
    TRY(real_or_null(j, obj, path, "loss", -MOST_REAL, &l->loss));
    TRY(real_or_null(j, obj, path, "evaluation_loss", -MOST_REAL, &l->evaluation_loss));
    TRY(text(j, obj, path, "error", true, l->error, sizeof l->error));
    return check_length(j, path, r, l);
}

static plim_status read_lengths(const plim_json *j, plim_memtest_result *r)
{
    const json_t *lengths;
    TRY(plim_json_array(j, j->root, "", "lengths", &lengths));
    size_t count = json_array_size(lengths);
    if (count > PLIM_MAX_LENGTHS)
        return plim_json_fail(j, "lengths", PLIM_E_RANGE, "has %zu entries; at most %d are accepted", count,
                              PLIM_MAX_LENGTHS);
    for (size_t i = 0; i < count; i++) {
        const json_t *obj;
        char path[32];
        plim_memtest_length *l = &r->length[i];
        snprintf(path, sizeof path, "lengths[%zu]", i);
        TRY(plim_json_at_object(j, lengths, "lengths", i, &obj));
        TRY(read_length(j, obj, path, r, l));
        if (i && l->seq_tokens <= l[-1].seq_tokens)
            return plim_json_fail(j, path, PLIM_E_RANGE, "is not longer than the one before; lengths ascend");
        if (i && l[-1].verdict == PLIM_NO)
            return plim_json_fail(j, path, PLIM_E_RANGE,
                                  "stands after a length that says no; a sweep stops there");
    }
    r->length_count = (int64_t)count;
    return PLIM_OK;
}

static plim_status read_failure(const plim_json *j, plim_memtest_result *r)
{
    const json_t *obj = NULL;
    plim_memtest_failure *f = &r->failure;
    int status;
    int64_t bytes = PLIM_MEMTEST_UNKNOWN;
    f->component = -1;
    TRY(need(j, j->root, "", "failure"));
    TRY(plim_json_object_opt(j, j->root, "", "failure", &obj));
    if (!obj) return PLIM_OK;
    f->present = true;
    TRY(only_keys(j, obj, "failure", "seq_tokens status component bytes cure error"));
    TRY(i64_or_null(j, obj, "failure", "seq_tokens", 1, MOST_TOKENS, &f->seq_tokens));
    TRY(word(j, obj, "failure", "status", status_word, PLIM_STATUS_COUNT - 1, &status));
    f->status = (plim_status)(status + 1);
    TRY(need(j, obj, "failure", "component"));
    if (!json_is_null(json_object_get(obj, "component")))
        TRY(word(j, obj, "failure", "component", component_word, PLIM_COMPONENT_COUNT, &f->component));
    TRY(i64_or_null(j, obj, "failure", "bytes", 0, MOST_BYTES, &bytes));
    if ((bytes < 0) != (f->component < 0))
        return plim_json_fail(j, "failure.bytes", PLIM_E_RANGE, "goes with \"component\": both or none");
    f->bytes = bytes < 0 ? 0 : bytes;
    TRY(text(j, obj, "failure", "cure", true, f->cure, sizeof f->cure));
    return text(j, obj, "failure", "error", false, f->error, sizeof f->error);
}

static plim_status read_hash(const plim_json *j, const json_t *model, uint64_t *out)
{
    char hash[32], *end;
    TRY(text(j, model, "model", "config_fnv1a64", false, hash, sizeof hash));
    if (strlen(hash) != 16 || strspn(hash, "0123456789abcdef") != 16)
        return plim_json_fail(j, "model.config_fnv1a64", PLIM_E_FORMAT, "is not 16 hexadecimal digits");
    *out = strtoull(hash, &end, 16);
    return PLIM_OK;
}

static plim_status read_head(const plim_json *j, plim_memtest_result *r)
{
    const json_t *model, *card, *versions;
    TRY(text(j, j->root, "", "created", false, r->created, sizeof r->created));
    TRY(plim_json_object(j, j->root, "", "model", &model));
    TRY(only_keys(j, model, "model", "name parameters lora_parameters config_fnv1a64"));
    TRY(text(j, model, "model", "name", false, r->model, sizeof r->model));
    TRY(plim_json_i64(j, model, "model", "parameters", 0, MOST_BYTES, &r->parameters));
    TRY(plim_json_i64(j, model, "model", "lora_parameters", 0, MOST_BYTES, &r->lora_parameters));
    TRY(read_hash(j, model, &r->config_hash));
    TRY(plim_json_object(j, j->root, "", "card", &card));
    TRY(only_keys(
        j, card, "card",
        "id device budget_bytes budget_gib available_bytes available_gib usd_per_h gemm_tflop_per_s "
        "memory_gb_per_s normals_per_s"));
    TRY(text(j, card, "card", "id", false, r->card, sizeof r->card));
    TRY(text(j, card, "card", "device", false, r->device, sizeof r->device));
    TRY(amount(j, card, "card", "budget", false, &r->budget_bytes));
    TRY(amount(j, card, "card", "available", true, &r->available_bytes));
    TRY(real_or_null(j, card, "card", "usd_per_h", 0, &r->usd_per_h));
    TRY(real_or_null(j, card, "card", "gemm_tflop_per_s", 0, &r->gemm_tflop_per_s));
    TRY(real_or_null(j, card, "card", "memory_gb_per_s", 0, &r->memory_gb_per_s));
    TRY(real_or_null(j, card, "card", "normals_per_s", 0, &r->normals_per_s));
    TRY(plim_json_object(j, j->root, "", "versions", &versions));
    TRY(only_keys(j, versions, "versions", "plimsoll compiler libraries"));
    TRY(text(j, versions, "versions", "plimsoll", false, r->plimsoll, sizeof r->plimsoll));
    TRY(text(j, versions, "versions", "compiler", false, r->compiler, sizeof r->compiler));
    return text(j, versions, "versions", "libraries", false, r->libraries, sizeof r->libraries);
}

static plim_status read_end(const plim_json *j, plim_memtest_result *r)
{
    int64_t limit, failing = 0;
    int stopped = -1;
    TRY(i64_or_null(j, j->root, "", "running_tokens", 1, MOST_TOKENS, &r->running_tokens));
    TRY(plim_json_i64(j, j->root, "", "limit_tokens", 0, MOST_TOKENS, &limit));
    TRY(i64_or_null(j, j->root, "", "first_failing_tokens", 1, MOST_TOKENS, &failing));
    plim_memtest_result_judge(r);
    if (limit != r->limit_tokens)
        return plim_json_fail(j, "limit_tokens", PLIM_E_RANGE,
                              "is %lld; the longest length that fits is %lld", (long long)limit,
                              (long long)r->limit_tokens);
    if (failing != r->first_failing_tokens)
        return plim_json_fail(j, "first_failing_tokens", PLIM_E_RANGE, "is not the length that says no");
    TRY(need(j, j->root, "", "stopped_by"));
    if (!json_is_null(json_object_get(j->root, "stopped_by")))
        TRY(word(j, j->root, "", "stopped_by", stop_word, PLIM_MEMTEST_STOPS - 1, &stopped));
    r->stopped = (plim_memtest_stop)(stopped + 1);
    TRY(read_failure(j, r));
    if (failing && !r->failure.present)
        return plim_json_fail(j, "failure", PLIM_E_RANGE, "is null although a length says no");
    TRY(real_or_null(j, j->root, "", "max_usd", 0, &r->max_usd));
    TRY(real_or_null(j, j->root, "", "usd", 0, &r->usd));
    TRY(real_or_null(j, j->root, "", "expected_seconds", 0, &r->expected_s));
    return plim_json_double(j, j->root, "", "seconds", 0, MOST_REAL, &r->seconds);
}

static plim_status read_all(const plim_json *j, plim_memtest_result *r)
{
    int64_t version;
    TRY(plim_json_i64(j, j->root, "", "schema_version", INT64_MIN, INT64_MAX, &version));
    if (version != PLIM_MEMTEST_SCHEMA_VERSION)
        return plim_json_fail(j, "schema_version", PLIM_E_RANGE, "is %lld; this plimsoll reads version %d",
                              (long long)version, PLIM_MEMTEST_SCHEMA_VERSION);
    TRY(only_keys(j, j->root, "",
                  "schema_version created model card options versions lengths running_tokens limit_tokens "
                  "first_failing_tokens stopped_by failure max_usd usd expected_seconds seconds"));
    TRY(read_head(j, r));
    TRY(read_shared_options(j, r));
    TRY(read_lengths(j, r));
    return read_end(j, r);
}

plim_status plim_memtest_result_parse(plim_ctx *c, const char *name, const char *bytes_text, size_t bytes,
                                      plim_memtest_result *out)
{
    plim_json j = {0};
    plim_memtest_result *r = NULL;
    TRY(plim_alloc(c, 1, sizeof *r, "a memory test's result", &r));
    plim_memtest_result_clear(r);
    plim_status st = plim_json_parse(c, name, bytes_text, bytes, CAP_BYTES, &j);
    if (!st) st = read_all(&j, r);
    plim_json_close(&j);
    if (!st) *out = *r;
    plim_release(c, r);
    return st;
}

plim_status plim_memtest_result_read(plim_ctx *c, const char *path, plim_memtest_result *out)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_memtest_result_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}
