/* memtest_plan.c - decides the options and the verdict of every length before any memory is taken, and what
 * the sweep should take in time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/units.h"
#include "model/tensor_map.h"
#include "train/memtest.h"

#define EVALUATION_SHARE                                                                                     \
    (1.0 / 3) /* of a step: its forward pass, where a step repeats that and goes back                        \
               */
#define STRINGIFY(x) #x
#define TEXT_OF(x)   STRINGIFY(x)
#ifdef __clang__
#define COMPILER                                                                                             \
    "clang " TEXT_OF(__clang_major__) "." TEXT_OF(__clang_minor__) "." TEXT_OF(__clang_patchlevel__)
#else
#define COMPILER "gcc " TEXT_OF(__GNUC__) "." TEXT_OF(__GNUC_MINOR__) "." TEXT_OF(__GNUC_PATCHLEVEL__)
#endif

/* ---- the head of the result ---------------------------------------------------------------------------- */

static plim_status hash_config(plim_ctx *c, const char *model, uint64_t *out)
{
    char path[PLIM_PATH_BYTES];
    plim_file f = {0};
    if (plim_path_is_folder(model)) {
        TRY(plim_path_join(c, path, sizeof path, model, "config.json"));
        model = path;
    }
    TRY(plim_file_map(c, model, &f));
    *out = plim_fnv1a64_bytes(f.data, f.bytes);
    plim_file_unmap(&f);
    return PLIM_OK;
}

static void put_rates(const plim_memtest_config *g, plim_memtest_result *r)
{
    r->gemm_tflop_per_s = g->card->gemm_bf16_tflop_per_s;
    r->memory_gb_per_s = g->card->memory_gb_per_s;
    if (g->normals_per_s > 0) r->normals_per_s = g->normals_per_s;
}

plim_status plim_memtest_begin(plim_ctx *c, const plim_memtest_config *g, plim_memtest_result *r)
{
    const plim_options *o = &g->options;
    plim_memtest_result_clear(r);
    snprintf(r->plimsoll, sizeof r->plimsoll, "%s", PLIM_VERSION);
    snprintf(r->compiler, sizeof r->compiler, "%s", COMPILER);
    snprintf(r->card, sizeof r->card, "%s", g->card->id);
    snprintf(r->device, sizeof r->device, "%s", g->card->name);
    plim_memtest_model_name(g->model, r->model, sizeof r->model);
    r->options = *o;
    r->options.lora_targets = plim_model_targets(g->spec, o->lora_targets);
    r->steps_wanted = g->steps;
    r->seed = (int64_t)g->seed;
    r->budget_bytes = g->card->memory_bytes;
    r->usd_per_h = g->usd_per_h;
    r->max_usd = g->max_usd;
    r->available_bytes = g->available_bytes;
    snprintf(r->libraries, sizeof r->libraries, "%s", g->libraries);
    r->parameters = plim_spec_counts(g->spec).parameters;
    r->lora_parameters = plim_lora_parameters(g->spec, o->lora_rank, o->lora_targets);
    put_rates(g, r);
    TRY(plim_utc_date(c, r->created));
    return hash_config(c, g->model, &r->config_hash);
}

/* ---- a length ------------------------------------------------------------------------------------------ */

static plim_status check(plim_ctx *c, const plim_memtest_config *g)
{
    char shortest[PLIM_NUMBER_BYTES];
    if (g->seq_count < 1 || g->seq_count > PLIM_MAX_LENGTHS)
        return plim_fail(c, PLIM_E_USAGE, "a sweep of %lld lengths; 1 to %d would work",
                         (long long)g->seq_count, PLIM_MAX_LENGTHS);
    if (g->steps < 1 || g->steps > PLIM_MEMTEST_MAX_STEPS)
        return plim_fail(c, PLIM_E_USAGE, "%lld steps a length; 1 to %d would work", (long long)g->steps,
                         PLIM_MEMTEST_MAX_STEPS);
    if (!(g->options.labelled_share > 0))
        return plim_fail(c, PLIM_E_USAGE,
                         "a labelled share of %g leaves nothing to train on; above 0 up to 1 would work",
                         g->options.labelled_share);
    if (!plim_model_targets(g->spec, g->options.lora_targets))
        return plim_fail(c, PLIM_E_USAGE, "%s has none of the projections that --targets names", g->model);
    for (int64_t i = 1; i < g->seq_count; i++)
        if (g->seq_tokens[i] <= g->seq_tokens[i - 1])
            return plim_fail(c, PLIM_E_USAGE, "the lengths of a sweep must ascend");
    if (g->options.documents > 0 && g->seq_tokens[0] / 2 >= g->options.documents) return PLIM_OK;
    return plim_fail(c, PLIM_E_USAGE,
                     "a sequence of %s tokens in %lld documents: a document needs two tokens at least",
                     plim_format_thousands(shortest, g->seq_tokens[0]), (long long)g->options.documents);
}

/* Bytes that count against the budget. */
static size_t counted(const plim_memtest_config *g, const plim_footprint *f)
{
    return f->device_peak.total_bytes + (g->shared_memory ? f->host_peak.total_bytes : 0);
}

/* What the options that are pinned take on the host, which the search is not to give away. */
static plim_status reserve_host(plim_ctx *c, const plim_memtest_config *g, const plim_options *o,
                                plim_card *card)
{
    plim_options most = *o;
    plim_footprint f;
    if (!g->shared_memory) return PLIM_OK;
    if (!(g->limits.pinned & PLIM_PIN_ATTENTION_OUTPUT)) most.keep_attention_output = true;
    TRY(plim_footprint_of(c, g->spec, &most, 1, &f, NULL, NULL));
    int64_t taken = (int64_t)ceil((double)f.host_peak.total_bytes / PLIM_MEMTEST_FITS_SHARE);
    card->memory_bytes = card->memory_bytes > taken ? card->memory_bytes - taken : 1;
    return PLIM_OK;
}

static plim_status choose(plim_ctx *c, plim_planner *p, const plim_memtest_config *g, int64_t tokens,
                          plim_choice *out)
{
    plim_card card = *g->card;
    plim_limits limits = g->limits;
    plim_options o = g->options;
    o.seq_tokens = tokens;
    limits.usable_share = PLIM_MEMTEST_FITS_SHARE;
    if (g->shared_memory) {
        limits.pinned |= PLIM_PIN_CHECKPOINTS | PLIM_PIN_EMBEDDING;
        limits.host_bytes = g->card->memory_bytes;
        limits.host_share = 1;
        o.attention = card.attention;
        o.context_bytes = (size_t)card.context_bytes;
    }
    TRY(reserve_host(c, g, &o, &card));
    TRY(plim_choose(p, &card, &o, &limits, out));
    out->card = g->card;
    return PLIM_OK;
}

static void put_length(const plim_memtest_config *g, const plim_choice *choice, plim_memtest_length *l)
{
    const plim_footprint *f = &choice->footprint;
    size_t bytes = counted(g, f), whole = (size_t)(g->card->memory_bytes - g->card->reserved_bytes);
    *l = (plim_memtest_length){.seq_tokens = choice->options.seq_tokens,
                               .options = choice->options,
                               .planned_peak_bytes = (int64_t)f->device_peak.total_bytes,
                               .host_peak_bytes = (int64_t)f->host_peak.total_bytes,
                               .measured_peak_bytes = PLIM_MEMTEST_UNKNOWN,
                               .arena_peak_bytes = PLIM_MEMTEST_UNKNOWN,
                               .process_before_bytes = PLIM_MEMTEST_UNKNOWN,
                               .process_peak_bytes = PLIM_MEMTEST_UNKNOWN,
                               .expected_step_s = choice->time.step_s,
                               .setup_s = PLIM_MEMTEST_UNKNOWN,
                               .evaluation_s = PLIM_MEMTEST_UNKNOWN,
                               .tokens_per_s = PLIM_MEMTEST_UNKNOWN,
                               .loss = NAN,
                               .evaluation_loss = NAN};
    if (l->options.host_checkpoints > g->spec->layers) l->options.host_checkpoints = g->spec->layers;
    if (l->options.kept_layers > g->spec->layers) l->options.kept_layers = g->spec->layers;
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        l->component_bytes[m] = (int64_t)f->device_peak.component_bytes[m];
    l->verdict = (double)bytes <= (double)g->card->memory_bytes * PLIM_MEMTEST_FITS_SHARE ? PLIM_FITS
                 : bytes <= whole                                                         ? PLIM_TIGHT
                                                                                          : PLIM_NO;
    if (choice->shortage == PLIM_SHORT_OF_HOST && !g->shared_memory) l->verdict = PLIM_NO;
    if (l->verdict == PLIM_NO) l->expected_step_s = PLIM_MEMTEST_UNKNOWN;
}

/* The failure a planned no will be, should the sweep come to it. */
static plim_status put_failure(plim_ctx *c, const plim_memtest_config *g, const plim_choice *choice,
                               plim_memtest_length *l, plim_memtest_failure *f)
{
    char tokens[PLIM_NUMBER_BYTES], need[PLIM_NUMBER_BYTES], have[PLIM_NUMBER_BYTES];
    plim_memtest_cure cure;
    TRY(plim_memtest_find_cure(c, g, &l->options, &cure));
    *f = (plim_memtest_failure){.present = true,
                                .seq_tokens = l->seq_tokens,
                                .status = PLIM_E_NOFIT,
                                .component = cure.component,
                                .bytes = cure.bytes};
    bool host = choice->shortage == PLIM_SHORT_OF_HOST && !g->shared_memory;
    if (host) snprintf(f->cure, sizeof f->cure, "a host with more memory, or --checkpoints device");
    else memcpy(f->cure, cure.text, sizeof f->cure);
    int64_t bytes = host ? l->host_peak_bytes : (int64_t)counted(g, &choice->footprint);
    int64_t budget = host ? (int64_t)choice->host_budget_bytes : g->card->memory_bytes;
    snprintf(f->error, sizeof f->error, "%s tokens need %s%s; the budget is %s",
             plim_format_count(tokens, l->seq_tokens), plim_memtest_amount(need, bytes),
             host ? " of the host" : "", plim_memtest_amount(have, budget));
    memcpy(l->error, f->error, sizeof l->error);
    return PLIM_OK;
}

double plim_memtest_expected_s(const plim_memtest_config *g, const plim_memtest_length *l)
{
    if (l->expected_step_s < 0) return 0;
    double setup = g->normals_per_s > 0 ? (double)plim_spec_counts(g->spec).parameters / g->normals_per_s : 0;
    return setup + l->expected_step_s * ((double)g->steps + EVALUATION_SHARE);
}

static plim_status plan_lengths(plim_ctx *c, const plim_memtest_config *g, plim_planner *p,
                                plim_memtest_result *r, int64_t *planned)
{
    int64_t i = 0;
    double expected_s = 0;
    for (bool ended = false; i < g->seq_count && !ended; i++) {
        plim_choice choice;
        plim_memtest_length *l = &r->length[i];
        TRY(choose(c, p, g, g->seq_tokens[i], &choice));
        put_length(g, &choice, l);
        ended = l->verdict == PLIM_NO;
        if (ended) TRY(put_failure(c, g, &choice, l, &r->failure));
        expected_s += plim_memtest_expected_s(g, l);
    }
    r->expected_s = expected_s;
    *planned = i;
    return PLIM_OK;
}

plim_status plim_memtest_plan(plim_ctx *c, const plim_memtest_config *g, plim_memtest_result *r,
                              int64_t *planned)
{
    plim_planner *p = NULL;
    TRY(plim_memtest_begin(c, g, r));
    TRY(check(c, g));
    TRY(plim_planner_open(c, g->spec, &p));
    plim_status st = plan_lengths(c, g, p, r, planned);
    plim_planner_close(p);
    return st;
}

/* ---- names --------------------------------------------------------------------------------------------- */

/* The last part of path[0 .. n); *length its bytes. */
static const char *last_part(const char *path, size_t n, size_t *length)
{
    while (n > 0 && path[n - 1] == '/') n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/') start--;
    *length = n - start;
    return path + start;
}

void plim_memtest_model_name(const char *model, char *buf, size_t cap)
{
    static const char config[] = "config.json", json[] = ".json";
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n;
    const char *part = last_part(model, strlen(model), &n);
    if (n == sizeof config - 1 && !memcmp(part, config, n))
        part = last_part(model, (size_t)(part - model), &n);
    else if (n > sizeof json - 1 && !memcmp(part + n - (sizeof json - 1), json, sizeof json - 1))
        n -= sizeof json - 1;
    if (n >= cap) n = cap - 1;
    memcpy(buf, part, n);
    buf[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr(plain, buf[i]) || (i == 0 && buf[i] == '.')) buf[i] = '-';
    if (strspn(buf, "-.") == n) snprintf(buf, cap, "model"); /* ".", "..", nothing at all */
}

plim_status plim_memtest_file_name(plim_ctx *c, const char *model, const char *card,
                                   const char utc[PLIM_UTC_BYTES], char *buf, size_t cap)
{
    char name[64], when[PLIM_UTC_BYTES];
    size_t n = 0;
    plim_memtest_model_name(model, name, sizeof name);
    for (const char *at = utc; *at; at++)
        if (*at != '-' && *at != ':') when[n++] = *at;
    when[n] = 0;
    int wrote = snprintf(buf, cap, "memtest_%s_%s_%s.json", name, card, when);
    if (wrote >= 0 && (size_t)wrote < cap) return PLIM_OK;
    return plim_fail(c, PLIM_E_RANGE, "the name of a result file does not fit %zu bytes", cap);
}
