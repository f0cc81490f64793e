/* samples_writer.c - decides how a samples file comes together from documents of any number: five spills, one
 * an array, then header and arrays in one pass. */
#include "formats/samples_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "formats/safetensors_writer.h"
#include "formats/samples.h"
#include "formats/spill.h"

/* In the order of the file: wide dtypes first, so that all are aligned. */
enum { SOURCE, OFFSETS, TOKENS, WEIGHTS, CLASSES, ARRAYS };
static const struct {
    const char *name;
    plim_dtype dtype;
    int32_t columns;
} arrays[ARRAYS] = {
    [SOURCE] = {"source", PLIM_U64, 2},     [OFFSETS] = {"doc_offsets", PLIM_I64, 1},
    [TOKENS] = {"tokens", PLIM_I32, 1},     [WEIGHTS] = {"loss_weights", PLIM_F32, 1},
    [CLASSES] = {"class_ids", PLIM_I32, 1},
};

struct plim_samples_writer {
    plim_ctx *c;
    char path[PLIM_PATH_BYTES];
    plim_samples_about about;
    plim_spill *spill[ARRAYS];
    plim_safetensors_writer *file; /* once finished */
    plim_samples_statistics statistics;
    int64_t open_tokens, open_labelled; /* of the document begun */
    uint64_t done_bytes, total_bytes;   /* of the arrays, while finishing */
    plim_status st;
};

static plim_status refuse(plim_samples_writer *w, const char *why)
{
    return w->st =
               plim_fail(w->c, PLIM_E_RANGE, "%s: document %" PRId64 " %s", w->path, w->statistics.rows, why);
}

static plim_status check_about(plim_ctx *c, const char *path, const plim_samples_about *a)
{
    if (a->class_count < 1 || a->class_count > PLIM_SAMPLES_MAX_CLASSES)
        return plim_fail(c, PLIM_E_RANGE, "%s: %" PRId64 " classes; 1 to %d are accepted", path,
                         a->class_count, PLIM_SAMPLES_MAX_CLASSES);
    for (int64_t i = 0; i < a->class_count; i++) {
        for (const char *at = a->classes[i]; *at; at += plim_utf8_length(at))
            if (!plim_utf8_length(at))
                return plim_fail(c, PLIM_E_RANGE, "%s: the name of class %" PRId64 " is not UTF-8", path, i);
        for (int64_t k = 0; k < i; k++)
            if (!strcmp(a->classes[i], a->classes[k]))
                return plim_fail(c, PLIM_E_RANGE, "%s: the class '%.80s' is named twice", path,
                                 a->classes[i]);
    }
    if (a->file_count < 1)
        return plim_fail(c, PLIM_E_RANGE, "%s: no input file is named for the samples", path);
    if (!a->tokenizer[0]) return plim_fail(c, PLIM_E_RANGE, "%s: the tokenizer has no name", path);
    if (a->max_tokens < 0 || a->max_tokens > PLIM_SAMPLES_LONGEST_TOKENS)
        return plim_fail(c, PLIM_E_RANGE, "%s: a limit of %" PRId64 " tokens; 0 (none) to %" PRId64, path,
                         a->max_tokens, PLIM_SAMPLES_LONGEST_TOKENS);
    return PLIM_OK;
}

/* What would refuse the target at the end refuses it now. */
static plim_status try_target(plim_ctx *c, const char *path)
{
    plim_safetensors_writer *file = NULL;
    TRY(plim_safetensors_writer_open(c, path, &file));
    plim_safetensors_writer_abort(file);
    return PLIM_OK;
}

static plim_status open_spills(plim_samples_writer *w, const char *path)
{
    static const int64_t first_offset = 0;
    if (strlen(path) >= sizeof w->path)
        return plim_fail(w->c, PLIM_E_RANGE, "a path of %zu bytes is too long; at most %d fit", strlen(path),
                         PLIM_PATH_BYTES - 1);
    strcpy(w->path, path);
    TRY(try_target(w->c, path));
    for (int i = 0; i < ARRAYS; i++) TRY(plim_spill_open(w->c, path, &w->spill[i]));
    return plim_spill_write(w->spill[OFFSETS], &first_offset, sizeof first_offset);
}

plim_status plim_samples_writer_open(plim_ctx *c, const char *path, const plim_samples_about *about,
                                     plim_samples_writer **out)
{
    plim_samples_writer *w = NULL;
    TRY(check_about(c, path, about));
    TRY(plim_alloc(c, 1, sizeof *w, "a samples writer", &w));
    w->c = c;
    w->about = *about;
    plim_status st = open_spills(w, path);
    if (st) {
        plim_samples_writer_abort(w);
        return st;
    }
    *out = w;
    return PLIM_OK;
}

/* ---- documents ---------------------------------------------------------------------------------------- */

static plim_status begin(plim_samples_writer *w)
{
    if (!w->st && w->file) return refuse(w, "comes after the file was finished");
    return w->st;
}

plim_status plim_samples_writer_tokens(plim_samples_writer *w, const int32_t *tokens,
                                       const float *loss_weights, int64_t count)
{
    if (begin(w)) return w->st;
    int64_t most = w->about.max_tokens ? w->about.max_tokens : PLIM_SAMPLES_LONGEST_TOKENS;
    if (count > most - w->open_tokens) {
        char why[96];
        snprintf(why, sizeof why, "has more than %" PRId64 " tokens, the most that is accepted", most);
        return refuse(w, why);
    }
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0) return refuse(w, "has a token below 0");
        if (!isfinite(loss_weights[i]) || loss_weights[i] < 0)
            return refuse(w, "has a loss weight that is below 0 or not finite");
        w->open_labelled += loss_weights[i] > 0 && w->open_tokens + i > 0;
    }
    w->open_tokens += count;
    w->st = plim_spill_write(w->spill[TOKENS], tokens, (size_t)count * sizeof *tokens);
    if (!w->st)
        w->st = plim_spill_write(w->spill[WEIGHTS], loss_weights, (size_t)count * sizeof *loss_weights);
    return w->st;
}

plim_status plim_samples_writer_document(plim_samples_writer *w, int32_t class_id, uint64_t file,
                                         uint64_t line)
{
    if (begin(w)) return w->st;
    if (w->open_tokens == 0) return refuse(w, "is empty");
    if (w->open_labelled == 0)
        return refuse(w, "has no token to train on: every loss weight after its first is 0");
    if (class_id < 0 || class_id >= w->about.class_count) return refuse(w, "has a class that is not named");
    if (file >= (uint64_t)w->about.file_count) return refuse(w, "comes from a file that is not named");
    plim_samples_count(&w->statistics, w->open_tokens, w->open_labelled);
    w->open_tokens = w->open_labelled = 0;
    uint64_t source[2] = {file, line};
    int64_t end = w->statistics.tokens;
    w->st = plim_spill_write(w->spill[SOURCE], source, sizeof source);
    if (!w->st) w->st = plim_spill_write(w->spill[OFFSETS], &end, sizeof end);
    if (!w->st) w->st = plim_spill_write(w->spill[CLASSES], &class_id, sizeof class_id);
    return w->st;
}

plim_status plim_samples_writer_append(plim_samples_writer *w, const int32_t *tokens,
                                       const float *loss_weights, int64_t count, int32_t class_id,
                                       uint64_t file, uint64_t line)
{
    TRY(plim_samples_writer_tokens(w, tokens, loss_weights, count));
    return plim_samples_writer_document(w, class_id, file, line);
}

plim_status plim_samples_writer_classes(plim_samples_writer *w, const char *const *classes, int64_t count)
{
    if (begin(w)) return w->st;
    if (count < 1 || count > PLIM_SAMPLES_MAX_CLASSES)
        return w->st = plim_fail(w->c, PLIM_E_RANGE, "%s: %" PRId64 " classes; 1 to %d are accepted", w->path,
                                 count, PLIM_SAMPLES_MAX_CLASSES);
    w->about.classes = classes;
    w->about.class_count = count;
    return PLIM_OK;
}

const plim_samples_statistics *plim_samples_writer_statistics(const plim_samples_writer *w)
{
    return &w->statistics;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

/* text as UTF-8; *out for plim_release. */
static plim_status clean_text(plim_ctx *c, const char *text, char **out)
{
    size_t mark = strlen(PLIM_UTF8_REPLACEMENT), n = 0;
    char *clean = NULL;
    TRY(plim_alloc(c, strlen(text) * mark + 1, 1, "a text of the metadata", &clean));
    while (*text) {
        size_t bytes = plim_utf8_length(text);
        memcpy(clean + n, bytes ? text : PLIM_UTF8_REPLACEMENT, bytes ? bytes : mark);
        n += bytes ? bytes : mark;
        text += bytes ? bytes : 1;
    }
    *out = clean;
    return PLIM_OK;
}

static plim_status add_text(plim_samples_writer *w, const char *key, const char *text)
{
    char *clean = NULL;
    TRY(clean_text(w->c, text, &clean));
    plim_status st = plim_safetensors_writer_metadata(w->file, key, clean);
    plim_release(w->c, clean);
    return st;
}

/* value as JSON; takes it. */
static plim_status add_json(plim_samples_writer *w, const char *key, json_t *value)
{
    char *text = NULL;
    plim_status st = plim_json_text(w->c, value, JSON_COMPACT, &text);
    if (!st) st = plim_safetensors_writer_metadata(w->file, key, text);
    plim_release(w->c, text);
    json_decref(value);
    return st;
}

static plim_status add_list(plim_samples_writer *w, const char *key, const char *const *texts, int64_t count)
{
    json_t *list = json_array();
    plim_status st = list ? PLIM_OK : plim_fail_alloc(w->c, 1, "a list of the metadata");
    for (int64_t i = 0; !st && i < count; i++) {
        char *clean = NULL;
        st = clean_text(w->c, texts[i], &clean);
        if (!st && json_array_append_new(list, json_string(clean)))
            st = plim_fail_alloc(w->c, 1, "a list of the metadata");
        plim_release(w->c, clean);
    }
    if (!st) return add_json(w, key, list);
    json_decref(list);
    return st;
}

static plim_status add_metadata(plim_samples_writer *w)
{
    char max_tokens[24];
    json_t *statistics = NULL;
    snprintf(max_tokens, sizeof max_tokens, "%" PRId64, w->about.max_tokens);
    TRY(add_text(w, "format", PLIM_SAMPLES_FORMAT));
    TRY(add_text(w, "tokenizer", w->about.tokenizer));
    TRY(add_text(w, "template", w->about.chat_template));
    TRY(add_text(w, "max_tokens", max_tokens));
    TRY(add_list(w, "classes", w->about.classes, w->about.class_count));
    TRY(add_list(w, "files", w->about.files, w->about.file_count));
    TRY(plim_samples_statistics_json(w->c, &w->statistics, &statistics));
    return add_json(w, "statistics", statistics);
}

static plim_status take(void *user, const void *data, size_t bytes)
{
    plim_samples_writer *w = user;
    TRY(plim_safetensors_writer_data(w->file, data, bytes));
    w->done_bytes += bytes;
    if (w->about.progress) w->about.progress(w->about.progress_user, w->done_bytes, w->total_bytes);
    return PLIM_OK;
}

static plim_status assemble(plim_samples_writer *w)
{
    const plim_samples_statistics *s = &w->statistics;
    int64_t rows[ARRAYS] = {[SOURCE] = s->rows,
                            [OFFSETS] = s->rows + 1,
                            [TOKENS] = s->tokens,
                            [WEIGHTS] = s->tokens,
                            [CLASSES] = s->rows};
    TRY(check_about(w->c, w->path, &w->about)); /* the classes may be new */
    TRY(plim_safetensors_writer_open(w->c, w->path, &w->file));
    TRY(add_metadata(w));
    for (int i = 0; i < ARRAYS; i++) {
        int64_t shape[2] = {rows[i], arrays[i].columns};
        TRY(plim_safetensors_writer_tensor(w->file, arrays[i].name, arrays[i].dtype,
                                           arrays[i].columns > 1 ? 2 : 1, shape));
        w->total_bytes += (uint64_t)rows[i] * (uint64_t)arrays[i].columns * plim_dtype_bytes(arrays[i].dtype);
    }
    for (int i = 0; i < ARRAYS; i++) {
        TRY(plim_spill_read(w->spill[i], take, w));
        plim_spill_close(w->spill[i]); /* its room is free for the next one */
        w->spill[i] = NULL;
    }
    return PLIM_OK;
}

plim_status plim_samples_writer_finish(plim_samples_writer *w)
{
    if (w->st || w->file) return w->st;
    if (w->open_tokens) return refuse(w, "was begun and is not closed");
    if (w->statistics.rows == 0)
        return w->st = plim_fail(w->c, PLIM_E_RANGE, "%s: there is no document to write", w->path);
    return w->st = assemble(w);
}

plim_status plim_samples_writer_commit(plim_samples_writer *w)
{
    plim_status st = plim_samples_writer_finish(w);
    if (!st) {
        st = plim_safetensors_writer_commit(w->file);
        w->file = NULL;
    }
    plim_samples_writer_abort(w);
    return st;
}

void plim_samples_writer_abort(plim_samples_writer *w)
{
    if (!w) return;
    for (int i = 0; i < ARRAYS; i++) plim_spill_close(w->spill[i]);
    plim_safetensors_writer_abort(w->file);
    plim_release(w->c, w);
}
