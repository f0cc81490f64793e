/* build.c - decides which rows are kept, which file they go to, and when there are too many bad ones. */
#include "data/build.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/random_core.h"
#include "base/utf8.h"
#include "data/batch.h"
#include "data/same_file.h"
#include "formats/samples.h"
#include "formats/samples_writer.h"

#define NO_CLASS "default" /* the class of rows that name none */

const int64_t plim_build_limits[PLIM_BUILD_LIMITS] = {16000, 32000, 48000, 64000, 128000};

enum { TRAIN, VALIDATION, OUTPUTS };

typedef struct job {
    plim_ctx *c;
    const plim_build_config *g;
    plim_chat_model model;
    plim_batch *batch;
    plim_samples_writer *writer[OUTPUTS];
    plim_writer *left;
    json_t *class_ids;  /* by name */
    const char **names; /* of classes, as the writers want them */
    size_t names_cap;
    plim_build_result result;
    int64_t file; /* the input being read, and later the output */
    const char *path, *writing;
    uint64_t before_bytes;
    int64_t first_bad_file;
    char first_bad[PLIM_REASON_BYTES + 64];
    char clean[PLIM_PATH_BYTES];
} job;

/* ---- what is left out --------------------------------------------------------------------------------- */

static const char *const left_out_keys[] = {
#define KEY(name, key) key,
    PLIM_LEFT_OUT_MAP(KEY)
#undef KEY
};

/* path as UTF-8, for JSON. */
static const char *clean_path(job *j, const char *path)
{
    size_t n = 0;
    for (size_t bytes; *path && n + 4 < sizeof j->clean; path += bytes) {
        bytes = plim_utf8_length(path);
        if (bytes) memcpy(j->clean + n, path, bytes);
        else j->clean[n] = '?';
        bytes += bytes == 0;
        n += bytes;
    }
    j->clean[n] = 0;
    return j->clean;
}

static plim_status write_left_out(job *j, const plim_left_out *l)
{
    char *text = NULL;
    json_t *line =
        json_pack("{s:s, s:I, s:I, s:s, s:s}", "file", clean_path(j, l->file), "line", (json_int_t)l->line,
                  "byte", (json_int_t)l->byte, "why", left_out_keys[l->kind], "reason", l->reason);
    if (!line) return plim_fail_alloc(j->c, 1, "the list of what is left out");
    plim_status st = plim_json_text(j->c, line, JSON_COMPACT, &text);
    json_decref(line);
    if (!st) st = plim_writer_printf(j->left, "%s\n", text);
    plim_release(j->c, text);
    return st;
}

static plim_status leave_out(job *j, const plim_batch_row *r, plim_left_out_kind kind, const char *reason)
{
    plim_left_out l = {kind, j->path, r->line, r->byte, reason};
    if (kind == PLIM_LEFT_OUT_BAD && j->result.left_out[kind] == 0) {
        j->first_bad_file = j->file;
        snprintf(j->first_bad, sizeof j->first_bad, "%" PRIu64 ": byte %" PRIu64 " of the line: %s", r->line,
                 r->byte, reason);
    }
    j->result.left_out[kind]++;
    if (j->g->left) j->g->left(j->g->user, &l);
    return j->left ? write_left_out(j, &l) : PLIM_OK;
}

/* ---- classes ------------------------------------------------------------------------------------------ */

static plim_status add_class(job *j, const char *name, int32_t id)
{
    plim_build_result *r = &j->result;
    if (id >= PLIM_SAMPLES_MAX_CLASSES)
        return plim_fail(j->c, PLIM_E_RANGE,
                         "%s: more than %d classes; a class is a kind of task, not a row's name", j->path,
                         PLIM_SAMPLES_MAX_CLASSES);
    TRY(plim_grow(j->c, &r->classes, &r->classes_cap, (size_t)id + 1, sizeof *r->classes, "classes"));
    TRY(plim_grow(j->c, &j->names, &j->names_cap, (size_t)id + 1, sizeof *j->names, "classes"));
    plim_build_class *k = &r->classes[id];
    *k = (plim_build_class){0};
    TRY(plim_alloc(j->c, strlen(name) + 1, 1, "the name of a class", &k->name));
    strcpy(k->name, name);
    r->class_count++;
    j->names[id] = k->name;
    if (json_object_set_new(j->class_ids, name, json_integer(id))) return plim_fail_alloc(j->c, 1, "classes");
    for (int i = 0; i < OUTPUTS; i++)
        if (j->writer[i]) TRY(plim_samples_writer_classes(j->writer[i], j->names, r->class_count));
    return PLIM_OK;
}

static plim_status class_of(job *j, const plim_batch_row *r, int32_t *out)
{
    const char *name = r->class_name ? r->class_name : NO_CLASS;
    const json_t *known = json_object_get(j->class_ids, name);
    *out = known ? (int32_t)json_integer_value(known) : (int32_t)j->result.class_count;
    return known ? PLIM_OK : add_class(j, name, *out);
}

static void count_class(plim_build_class *k, const plim_chat_sample *s)
{
    k->rows++;
    k->tokens += (int64_t)s->count;
    k->labelled_tokens += s->labelled;
    for (int i = 0; i < PLIM_BUILD_LIMITS; i++) {
        if ((int64_t)s->count <= plim_build_limits[i]) continue;
        k->lost_rows[i]++;
        k->lost_labelled_tokens[i] += s->labelled;
    }
}

/* ---- a row -------------------------------------------------------------------------------------------- */

static int choose(const job *j, const plim_batch_row *r)
{
    if (j->file >= j->g->input_count) return VALIDATION;
    plim_random random = {.seed = j->g->seed, .stream = r->hash};
    return plim_random_double(random, 0) < j->g->val_share ? VALIDATION : TRAIN;
}

static void note(job *j, const plim_batch_row *r)
{
    plim_build_result *to = &j->result;
    const plim_chat_sample *s = &r->sample;
    to->unended_rows += s->unended > 0;
    to->ended_rows += s->ended;
    if (!s->typed) return;
    to->typed_tokens += s->typed;
    to->typed_rows++;
    if (to->typed_count == PLIM_BUILD_TYPED) return;
    plim_build_typed *t = &to->typed[to->typed_count++];
    *t = (plim_build_typed){.file = j->file, .line = r->line};
    memcpy(t->where, s->first_typed, sizeof t->where);
}

/* What becomes of a row that is too long; *kept: its tokens that stay, 0 for none. */
static plim_status shorten(job *j, const plim_batch_row *r, int64_t *kept)
{
    char reason[160];
    int64_t tokens = *kept, most = j->g->max_tokens;
    if (j->g->over == PLIM_LONG_ERROR)
        return plim_fail(j->c, PLIM_E_RANGE,
                         "%s:%" PRIu64 ": a row of %" PRId64 " tokens; at most %" PRId64
                         " are wanted: drop or truncate such rows, or raise the limit",
                         j->path, r->line, tokens, most);
    *kept = j->g->over == PLIM_LONG_TRUNCATE && plim_chat_labelled(&r->sample, (size_t)most) ? most : 0;
    snprintf(reason, sizeof reason, "%" PRId64 " tokens; at most %" PRId64 " are wanted%s", tokens, most,
             *kept                              ? ", and the first ones are kept"
             : j->g->over == PLIM_LONG_TRUNCATE ? ", and nothing in the first ones is trained on"
                                                : "");
    return leave_out(j, r, *kept ? PLIM_LEFT_OUT_CUT : PLIM_LEFT_OUT_LONG, reason);
}

static plim_status write_row(job *j, const plim_batch_row *r)
{
    const plim_chat_sample *s = &r->sample;
    int64_t kept = (int64_t)s->count;
    int32_t class_id = 0;
    j->result.rows++;
    if (r->status) return leave_out(j, r, PLIM_LEFT_OUT_BAD, r->reason);
    note(j, r);
    if (r->weight == 0) return leave_out(j, r, PLIM_LEFT_OUT_WEIGHT, "its weight is 0");
    TRY(class_of(j, r, &class_id));
    count_class(&j->result.classes[class_id], s);
    if (j->g->max_tokens && kept > j->g->max_tokens) TRY(shorten(j, r, &kept));
    if (!kept) return PLIM_OK;
    return plim_samples_writer_append(j->writer[choose(j, r)], s->tokens, s->weights, kept, class_id,
                                      (uint64_t)j->file, r->line);
}

/* ---- a file ------------------------------------------------------------------------------------------- */

static plim_status read_batches(job *j, plim_rows *rows)
{
    for (;;) {
        TRY(plim_batch_read(j->batch, rows));
        if (!j->batch->count) return PLIM_OK;
        TRY(plim_batch_encode(j->batch, j->path));
        for (size_t i = 0; i < j->batch->count; i++) TRY(write_row(j, &j->batch->rows[i]));
        if (j->g->progress)
            j->g->progress(j->g->user, NULL, j->before_bytes + plim_rows_done_bytes(rows),
                           j->result.input_bytes);
    }
}

static plim_status read_file(job *j, int64_t i)
{
    plim_rows *rows = NULL;
    int64_t before = j->result.rows;
    j->file = i;
    j->path = j->g->inputs[i];
    TRY(plim_rows_open(j->c, j->path, &rows));
    plim_status st = read_batches(j, rows);
    if (!st && j->result.rows == before)
        st = plim_fail(j->c, PLIM_E_FORMAT, "%s: holds no row; leave it out", j->path);
    j->before_bytes += plim_rows_size_bytes(rows);
    j->result.blank_lines += (int64_t)plim_rows_blank_lines(rows);
    plim_rows_close(rows);
    return st;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

static plim_status check_config(const job *j)
{
    const plim_build_config *g = j->g;
    if (g->max_tokens < 0 || g->max_tokens == 1 || g->max_tokens > PLIM_SAMPLES_LONGEST_TOKENS)
        return plim_fail(j->c, PLIM_E_RANGE, "a limit of %" PRId64 " tokens; 2 to %" PRId64 " would work",
                         g->max_tokens, PLIM_SAMPLES_LONGEST_TOKENS);
    if (!(g->val_share >= 0 && g->val_share < 1))
        return plim_fail(j->c, PLIM_E_RANGE, "a validation share of %g; 0 or more and below 1 would work",
                         g->val_share);
    if ((g->val_share > 0 || g->val_input_count) != (g->val_out != NULL))
        return plim_fail(j->c, PLIM_E_USAGE, "rows to validate with and a file for them go together");
    if (g->input_count < 1) return plim_fail(j->c, PLIM_E_USAGE, "no file of rows is named");
    return PLIM_OK;
}

/* Outputs must not take the place of inputs or of each other; a missing input is found before the first is
 * read. */
static plim_status check_files(job *j)
{
    const plim_build_config *g = j->g;
    const char *const outputs[] = {g->out, g->val_out, g->left_out};
    enum { COUNT = sizeof outputs / sizeof *outputs };
    for (int a = 0; a < COUNT; a++)
        for (int b = 0; b < a; b++)
            if (outputs[a] && outputs[b] && plim_same_file(outputs[a], outputs[b]))
                return plim_fail(j->c, PLIM_E_USAGE, "%s: is named for two outputs", outputs[a]);
    for (int64_t i = 0; i < g->input_count + g->val_input_count; i++) {
        plim_rows *rows = NULL;
        for (int k = 0; k < COUNT; k++)
            if (outputs[k] && plim_same_file(g->inputs[i], outputs[k]))
                return plim_fail(j->c, PLIM_E_USAGE, "%s: is an input and would be replaced by an output",
                                 g->inputs[i]);
        for (int64_t k = g->input_count; i < g->input_count && k < g->input_count + g->val_input_count; k++)
            if (plim_same_file(g->inputs[i], g->inputs[k]))
                return plim_fail(j->c, PLIM_E_USAGE, "%s: is named for training and for validation",
                                 g->inputs[i]);
        TRY(plim_rows_open(j->c, g->inputs[i], &rows));
        j->result.input_bytes += plim_rows_size_bytes(rows);
        plim_rows_close(rows);
    }
    return PLIM_OK;
}

static void show_writing(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
    const job *j = user;
    if (j->g->progress) j->g->progress(j->g->user, j->writing, done_bytes, total_bytes);
}

static plim_status open_outputs(job *j)
{
    static const char *const none[] = {NO_CLASS};
    plim_samples_about about = {
        .tokenizer = j->model.tokenizer_name,
        .chat_template = j->model.template_name,
        .classes = none,
        .class_count = 1,
        .files = j->g->inputs,
        .file_count = j->g->input_count + j->g->val_input_count,
        .max_tokens = j->g->max_tokens,
        .progress = show_writing,
        .progress_user = j,
    };
    TRY(plim_samples_writer_open(j->c, j->g->out, &about, &j->writer[TRAIN]));
    if (j->g->val_out) TRY(plim_samples_writer_open(j->c, j->g->val_out, &about, &j->writer[VALIDATION]));
    return j->g->left_out ? plim_writer_open(j->c, j->g->left_out, &j->left) : PLIM_OK;
}

static plim_status open_all(job *j)
{
    const plim_build_config *g = j->g;
    int threads = g->threads > 0 ? g->threads : omp_get_max_threads();
    TRY(check_config(j));
    TRY(check_files(j));
    TRY(plim_chat_model_open(j->c, g->model, g->tokenizer, g->chat_template, &j->model));
    if (j->model.end_text) snprintf(j->result.end, sizeof j->result.end, "%s", j->model.end_text);
    strcpy(j->result.tokenizer, j->model.tokenizer_name);
    strcpy(j->result.chat_template, j->model.template_name);
    j->class_ids = json_object();
    if (!j->class_ids) return plim_fail_alloc(j->c, 1, "classes");
    TRY(plim_batch_open(j->c, &j->model, &g->chat, threads, g->val_share > 0, &j->batch));
    return open_outputs(j);
}

static plim_status commit_left_out(job *j)
{
    plim_writer *left = j->left;
    j->left = NULL;
    return left ? plim_writer_commit(left) : PLIM_OK;
}

static plim_status check_bad(job *j)
{
    int64_t bad = j->result.left_out[PLIM_LEFT_OUT_BAD];
    if (bad <= j->g->max_bad) return PLIM_OK;
    TRY(commit_left_out(j));
    return plim_fail(j->c, PLIM_E_FORMAT,
                     "%" PRId64 " of %" PRId64 " rows %s bad, and at most %" PRId64
                     " may be: nothing is written. The first: %s:%s",
                     bad, j->result.rows, bad == 1 ? "is" : "are", j->g->max_bad,
                     j->g->inputs[j->first_bad_file], j->first_bad);
}

static plim_status check_shares(job *j)
{
    plim_build_result *r = &j->result;
    r->train = *plim_samples_writer_statistics(j->writer[TRAIN]);
    if (j->writer[VALIDATION]) r->validation = *plim_samples_writer_statistics(j->writer[VALIDATION]);
    if (r->train.rows && (!j->writer[VALIDATION] || r->validation.rows)) return PLIM_OK;
    TRY(commit_left_out(j));
    return plim_fail(j->c, PLIM_E_RANGE,
                     "%s: no row is left for it: %" PRId64 " rows, of which %" PRId64 " bad, %" PRId64
                     " too long, %" PRId64 " of weight 0%s",
                     r->train.rows ? j->g->val_out : j->g->out, r->rows, r->left_out[PLIM_LEFT_OUT_BAD],
                     r->left_out[PLIM_LEFT_OUT_LONG], r->left_out[PLIM_LEFT_OUT_WEIGHT],
                     j->g->val_share > 0 ? "; another share or seed would work" : "");
}

/* All that takes room before the first file is replaced. */
static plim_status commit(job *j)
{
    TRY(check_bad(j));
    TRY(check_shares(j));
    for (int i = 0; i < OUTPUTS; i++) {
        j->writing = i == TRAIN ? j->g->out : j->g->val_out;
        if (j->writer[i]) TRY(plim_samples_writer_finish(j->writer[i]));
    }
    for (int i = 0; i < OUTPUTS; i++) {
        plim_samples_writer *w = j->writer[i];
        j->writer[i] = NULL;
        if (w) TRY(plim_samples_writer_commit(w));
    }
    return commit_left_out(j);
}

static plim_status run(job *j)
{
    plim_status st = open_all(j);
    for (int64_t i = 0; !st && i < j->g->input_count + j->g->val_input_count; i++) st = read_file(j, i);
    if (!st) st = commit(j);
    plim_batch_close(j->batch);
    for (int i = 0; i < OUTPUTS; i++) plim_samples_writer_abort(j->writer[i]);
    plim_writer_abort(j->left);
    json_decref(j->class_ids);
    plim_release(j->c, j->names);
    plim_chat_model_close(&j->model);
    return st;
}

plim_status plim_build(plim_ctx *c, const plim_build_config *g, plim_build_result *out)
{
    job *j = NULL;
    TRY(plim_alloc(c, 1, sizeof *j, "building samples", &j));
    j->c = c;
    j->g = g;
    j->result.ctx = c;
    plim_status st = run(j);
    if (st) plim_build_result_close(&j->result);
    else *out = j->result;
    plim_release(c, j);
    return st;
}

void plim_build_result_close(plim_build_result *r)
{
    if (!r->ctx) return;
    for (int64_t i = 0; i < r->class_count; i++) plim_release(r->ctx, r->classes[i].name);
    plim_release(r->ctx, r->classes);
    *r = (plim_build_result){0};
}
