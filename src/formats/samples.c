/* samples.c - decides what a valid samples file is: docs/samples.md.
 * One pass over every array when the file is opened, so that nothing has to be doubted while training. */
#include "formats/samples.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"

#define MOST_TOKENS INT64_C(1000000000000000) /* as in statistics */
#define TENSORS     5

typedef struct reader {
    plim_ctx *c;
    const char *path;
    const plim_safetensors *file;
    plim_samples s;
    int64_t files;
} reader;

/* ---- metadata ----------------------------------------------------------------------------------------- */

static plim_status need_text(const reader *r, const char *key, const char **out)
{
    const char *text = plim_safetensors_metadata(r->file, key);
    if (!text)
        return plim_fail(r->c, PLIM_E_FORMAT,
                         "%s: the metadata has no '%s'; a samples file comes from plimsoll data", r->path,
                         key);
    *out = text;
    return PLIM_OK;
}

static plim_status check_format(const reader *r)
{
    const char *format = plim_safetensors_metadata(r->file, "format");
    if (!format)
        return plim_fail(r->c, PLIM_E_FORMAT,
                         "%s: is no samples file: its metadata has no 'format'; plimsoll data makes one",
                         r->path);
    if (strcmp(format, PLIM_SAMPLES_FORMAT) != 0)
        return plim_fail(r->c, PLIM_E_FORMAT,
                         "%s: its format is '%.60s'; this plimsoll reads '" PLIM_SAMPLES_FORMAT "'", r->path,
                         format);
    return PLIM_OK;
}

/* The JSON under key; name must outlive it. */
static plim_status parse(plim_ctx *c, const char *path, const char *key, const char *text, char *name,
                         size_t name_bytes, plim_json *out)
{
    snprintf(name, name_bytes, "%s: metadata '%s'", path, key);
    return plim_json_parse(c, name, text, strlen(text), PLIM_JSON_CAP_BYTES, out);
}

typedef char json_name[PLIM_PATH_BYTES + 64];

/* An array of texts; with most > 0 of 1 to most different ones. */
static plim_status check_texts(const plim_json *j, size_t most, int64_t *count)
{
    size_t n = json_array_size(j->root);
    if (!json_is_array(j->root) || n == 0)
        return plim_json_fail(j, "", PLIM_E_FORMAT, "an array of at least one text is wanted");
    if (most && n > most)
        return plim_json_fail(j, "", PLIM_E_RANGE, "names %zu; at most %zu are accepted", n, most);
    for (size_t i = 0; i < n; i++) {
        const char *text, *other;
        TRY(plim_json_at_string(j, j->root, "", i, &text));
        for (size_t k = 0; most && k < i; k++) {
            TRY(plim_json_at_string(j, j->root, "", k, &other));
            if (!strcmp(text, other))
                return plim_json_fail(j, "", PLIM_E_FORMAT, "names '%.80s' twice", text);
        }
    }
    *count = (int64_t)n;
    return PLIM_OK;
}

static plim_status read_texts(const reader *r, const char *key, size_t most, int64_t *count)
{
    const char *text;
    json_name name;
    plim_json j = {0};
    TRY(need_text(r, key, &text));
    TRY(parse(r->c, r->path, key, text, name, sizeof name, &j));
    plim_status st = check_texts(&j, most, count);
    plim_json_close(&j);
    return st;
}

static plim_status read_max_tokens(reader *r)
{
    const char *text;
    int64_t n = 0;
    TRY(need_text(r, "max_tokens", &text));
    size_t digits = strspn(text, "0123456789");
    bool good = digits > 0 && digits <= 15 && !text[digits] && (digits == 1 || text[0] != '0');
    for (size_t i = 0; good && i < digits; i++) n = n * 10 + (text[i] - '0');
    if (!good)
        return plim_fail(
            r->c, PLIM_E_FORMAT,
            "%s: metadata 'max_tokens' is '%.40s'; a whole number below 10^15 is wanted, 0 for no "
            "limit",
            r->path, text);
    r->s.max_tokens = n;
    return PLIM_OK;
}

static plim_status read_metadata(reader *r)
{
    const char *text;
    TRY(check_format(r));
    TRY(read_texts(r, "classes", PLIM_SAMPLES_MAX_CLASSES, &r->s.classes));
    TRY(read_texts(r, "files", 0, &r->files));
    TRY(need_text(r, "tokenizer", &text));
    if (!*text)
        return plim_fail(r->c, PLIM_E_FORMAT, "%s: metadata 'tokenizer' is empty; its name is wanted",
                         r->path);
    TRY(need_text(r, "template", &text));
    return read_max_tokens(r);
}

/* ---- arrays ------------------------------------------------------------------------------------------- */

/* Tensor name of this dtype, [rows] or [rows, cols]; rows -1: any, written to *rows_out. */
static plim_status find(const reader *r, const char *name, plim_dtype dtype, int32_t dims, int64_t rows,
                        int64_t *rows_out, void *out)
{
    const plim_safetensors_tensor *t = plim_safetensors_find(r->file, name);
    if (!t) return plim_fail(r->c, PLIM_E_FORMAT, "%s: has no tensor '%s'", r->path, name);
    if (t->dtype != dtype)
        return plim_fail(r->c, PLIM_E_FORMAT, "%s: tensor '%s' is %s; %s is wanted", r->path, name,
                         plim_dtype_name(t->dtype), plim_dtype_name(dtype));
    if (t->dims != dims || (dims == 2 && t->shape[1] != 2))
        return plim_fail(r->c, PLIM_E_FORMAT, "%s: tensor '%s' has another shape than %s", r->path, name,
                         dims == 2 ? "[n, 2]" : "[n]");
    if (rows >= 0 && t->shape[0] != rows)
        return plim_fail(r->c, PLIM_E_FORMAT, "%s: tensor '%s' has %" PRId64 " rows; %" PRId64 " are wanted",
                         r->path, name, t->shape[0], rows);
    if (t->offset_bytes % plim_dtype_bytes(dtype))
        return plim_fail(r->c, PLIM_E_FORMAT,
                         "%s: tensor '%s' starts at byte %" PRIu64 ", which its %zu-byte numbers cannot; "
                         "write the wide dtypes first",
                         r->path, name, t->offset_bytes, plim_dtype_bytes(dtype));
    if (rows_out) *rows_out = t->shape[0];
    const void *data = plim_safetensors_data(r->file, t);
    memcpy(out, &data, sizeof data);
    return PLIM_OK;
}

static plim_status find_arrays(reader *r)
{
    plim_samples *s = &r->s;
    int64_t offsets = 0;
    if (plim_safetensors_count(r->file) > TENSORS)
        return plim_fail(r->c, PLIM_E_FORMAT, "%s: holds %zu tensors; a samples file has %d", r->path,
                         plim_safetensors_count(r->file), TENSORS);
    TRY(find(r, "doc_offsets", PLIM_I64, 1, -1, &offsets, &s->doc_offsets));
    TRY(find(r, "tokens", PLIM_I32, 1, -1, &s->tokens_count, &s->tokens));
    if (offsets < 2 || s->tokens_count < 1)
        return plim_fail(r->c, PLIM_E_FORMAT,
                         "%s: holds %" PRId64 " documents and %" PRId64 " tokens; at least one is wanted",
                         r->path, offsets > 0 ? offsets - 1 : 0, s->tokens_count);
    if (s->tokens_count > MOST_TOKENS)
        return plim_fail(r->c, PLIM_E_RANGE, "%s: holds more than 10^15 tokens", r->path);
    s->documents = offsets - 1;
    TRY(find(r, "loss_weights", PLIM_F32, 1, s->tokens_count, NULL, &s->loss_weights));
    TRY(find(r, "class_ids", PLIM_I32, 1, s->documents, NULL, &s->class_ids));
    return find(r, "source", PLIM_U64, 2, s->documents, NULL, &s->source);
}

static plim_status check_document(reader *r, int64_t i)
{
    plim_samples *s = &r->s;
    int64_t begin = s->doc_offsets[i], end = s->doc_offsets[i + 1];
    if (end <= begin || end > s->tokens_count)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: doc_offsets[%" PRId64 "] is %" PRId64 "; above %" PRId64 ", the one before it, "
                         "and at most %" PRId64 " is wanted",
                         r->path, i + 1, end, begin, s->tokens_count);
    if (end - begin > s->longest_tokens) s->longest_tokens = end - begin;
    if (s->max_tokens && end - begin > s->max_tokens)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: document %" PRId64 " has %" PRId64 " tokens; metadata 'max_tokens' is %" PRId64,
                         r->path, i, end - begin, s->max_tokens);
    if (s->class_ids[i] < 0 || s->class_ids[i] >= s->classes)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: class_ids[%" PRId64 "] is %" PRId32 "; %" PRId64 " classes "
                         "are named",
                         r->path, i, s->class_ids[i], s->classes);
    if (s->source[2 * i] >= (uint64_t)r->files)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: source[%" PRId64 "] names file %" PRIu64 "; %" PRId64 " files are named",
                         r->path, i, s->source[2 * i], r->files);
    for (int64_t k = begin; k < end; k++) {
        if (s->tokens[k] < 0)
            return plim_fail(r->c, PLIM_E_RANGE, "%s: tokens[%" PRId64 "] is %" PRId32 ", below 0", r->path,
                             k, s->tokens[k]);
        if (s->tokens[k] > s->largest_token) s->largest_token = s->tokens[k];
        if (!isfinite(s->loss_weights[k]) || s->loss_weights[k] < 0)
            return plim_fail(r->c, PLIM_E_RANGE,
                             "%s: loss_weights[%" PRId64 "] is %g; a finite number, 0 or above, is wanted",
                             r->path, k, (double)s->loss_weights[k]);
        s->labelled_tokens += k > begin && s->loss_weights[k] > 0;
    }
    return PLIM_OK;
}

static plim_status check_arrays(reader *r)
{
    plim_samples *s = &r->s;
    if (s->doc_offsets[0] != 0)
        return plim_fail(r->c, PLIM_E_RANGE, "%s: doc_offsets[0] is %" PRId64 "; 0 is wanted", r->path,
                         s->doc_offsets[0]);
    for (int64_t i = 0; i < s->documents; i++) TRY(check_document(r, i));
    if (s->doc_offsets[s->documents] != s->tokens_count)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: doc_offsets[%" PRId64 "] is %" PRId64 "; the last must be %" PRId64
                         ", the number of tokens",
                         r->path, s->documents, s->doc_offsets[s->documents], s->tokens_count);
    if (s->labelled_tokens == 0)
        return plim_fail(r->c, PLIM_E_RANGE,
                         "%s: no token is trained on: every loss weight is 0, first tokens apart", r->path);
    return PLIM_OK;
}

static plim_status check_statistic(const plim_json *j, const char *key, int64_t counted)
{
    int64_t said;
    TRY(plim_json_i64(j, j->root, "", key, 0, INT64_MAX, &said));
    if (said == counted) return PLIM_OK;
    return plim_json_fail(j, key, PLIM_E_FORMAT, "says %" PRId64 "; the arrays hold %" PRId64, said, counted);
}

static plim_status check_statistics(const reader *r)
{
    const char *text;
    json_name name;
    plim_json j = {0};
    TRY(need_text(r, "statistics", &text));
    TRY(parse(r->c, r->path, "statistics", text, name, sizeof name, &j));
    plim_status st = check_statistic(&j, "tokens", r->s.tokens_count);
    if (!st) st = check_statistic(&j, "labelled_tokens", r->s.labelled_tokens);
    if (!st) st = check_statistic(&j, "rows", r->s.documents);
    plim_json_close(&j);
    return st;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

plim_status plim_samples_open(plim_ctx *c, const char *path, plim_samples *out)
{
    plim_safetensors *file = NULL;
    TRY(plim_safetensors_open(c, path, &file));
    reader r = {.c = c, .path = path, .file = file, .s.file = file};
    plim_status st = read_metadata(&r);
    if (!st) st = find_arrays(&r);
    if (!st) st = check_arrays(&r);
    if (!st) st = check_statistics(&r);
    if (st) {
        plim_safetensors_close(file);
        return st;
    }
    *out = r.s;
    return PLIM_OK;
}

void plim_samples_close(plim_samples *s)
{
    plim_safetensors_close(s->file);
    *s = (plim_samples){0};
}

const char *plim_samples_metadata(const plim_samples *s, const char *key)
{
    return plim_safetensors_metadata(s->file, key);
}

plim_status plim_samples_class_name(plim_ctx *c, const plim_samples *s, int64_t id, char *out, size_t bytes)
{
    const char *text = plim_samples_metadata(s, "classes"), *found = NULL;
    plim_json j = {0};
    if (id < 0 || id >= s->classes)
        return plim_fail(c, PLIM_E_RANGE, "there is no class %" PRId64 "; %" PRId64 " are named", id,
                         s->classes);
    TRY(plim_json_parse(c, "classes", text, strlen(text), PLIM_JSON_CAP_BYTES, &j));
    plim_status st = plim_json_at_string(&j, j.root, "", (size_t)id, &found);
    if (!st && strlen(found) >= bytes)
        st = plim_fail(c, PLIM_E_RANGE, "the name of class %" PRId64 " does not fit %zu bytes: %.80s", id,
                       bytes, found);
    if (!st) memcpy(out, found, strlen(found) + 1);
    plim_json_close(&j);
    return st;
}
