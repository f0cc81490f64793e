/* batch.c - decides how rows are shared out over threads, and where a mistake in one lies. */
#include "data/batch.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/utf8.h"

#define KEPT_TOKENS ((size_t)16 << 10) /* a row's room beyond it goes back after the batch */
#define NAME        "row"              /* what messages of the JSON reader begin with */

/* ---- opening and closing ------------------------------------------------------------------------------ */

static plim_status open_coders(plim_batch *b, const plim_chat_model *m, const plim_chat_options *options)
{
    TRY(plim_alloc(b->ctx, (size_t)b->threads, sizeof(void *), "threads", &b->coders));
    TRY(plim_alloc(b->ctx, (size_t)b->threads, sizeof(void *), "threads", &b->contexts));
    for (int i = 0; i < b->threads; i++) {
        if (b->threads == 1) b->contexts[i] = b->ctx;
        else if (plim_ctx_open(NULL, &b->contexts[i])) return plim_fail_alloc(b->ctx, 1, "threads");
        if (plim_chat_coder_open(b->contexts[i], m, options, &b->coders[i]))
            return b->threads == 1 ? PLIM_E_OOM_HOST : plim_fail_alloc(b->ctx, 1, "threads");
    }
    return PLIM_OK;
}

plim_status plim_batch_open(plim_ctx *c, const plim_chat_model *m, const plim_chat_options *options,
                            int threads, bool hashes, plim_batch **out)
{
    plim_batch *b = NULL;
    TRY(plim_alloc(c, 1, sizeof *b, "a batch of rows", &b));
    b->ctx = c;
    b->threads = threads;
    b->hashes = hashes;
    plim_status st = open_coders(b, m, options);
    if (st) plim_batch_close(b);
    else *out = b;
    return st;
}

static plim_ctx *rows_context(const plim_batch *b)
{
    return b->contexts[0];
}

static void close_rows(plim_batch *b, size_t kept_tokens)
{
    for (size_t i = 0; i < PLIM_BATCH_ROWS; i++) {
        plim_batch_row *r = &b->rows[i];
        if (r->class_name) plim_release(rows_context(b), r->class_name);
        r->class_name = NULL;
        if (r->sample.tokens_cap > kept_tokens || r->sample.weights_cap > kept_tokens)
            plim_chat_sample_close(&r->sample);
    }
}

void plim_batch_close(plim_batch *b)
{
    if (!b) return;
    close_rows(b, 0);
    for (int i = 0; b->contexts && i < b->threads; i++) {
        plim_chat_coder_close(b->coders[i]);
        if (b->contexts[i] != b->ctx) plim_ctx_close(b->contexts[i]);
    }
    plim_release(b->ctx, b->coders);
    plim_release(b->ctx, b->contexts);
    plim_release(b->ctx, b->text);
    plim_release(b->ctx, b);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

plim_status plim_batch_read(plim_batch *b, plim_rows *r)
{
    plim_row row;
    bool found = true;
    close_rows(b, KEPT_TOKENS);
    b->bytes = b->count = 0;
    while (b->count < PLIM_BATCH_ROWS && b->bytes < PLIM_BATCH_BYTES) {
        TRY(plim_rows_next(r, &row, &found));
        if (!found) break;
        plim_batch_row *to = &b->rows[b->count++];
        to->at = b->bytes;
        to->bytes = row.bytes;
        to->too_long = !row.text;
        to->line = row.line;
        to->byte = row.byte;
        if (!row.text) continue;
        TRY(plim_grow(b->ctx, &b->text, &b->cap, b->bytes + row.bytes, 1, "a batch of rows"));
        memcpy(b->text + b->bytes, row.text, row.bytes);
        b->bytes += row.bytes;
    }
    return PLIM_OK;
}

/* ---- a row -------------------------------------------------------------------------------------------- */

/* Moves the row's place to line and column of its text, both from 1; a column counts characters. */
static void move_place(plim_batch_row *r, const char *text, size_t line, size_t column)
{
    const char *end = text + r->bytes, *at = text;
    for (size_t i = 1; i < line; i++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        if (!feed) return;
        at = feed + 1;
    }
    const char *begin = at;
    for (size_t i = 1; i < column && at < end; i++) {
        at++;
        while (at < end && ((unsigned char)*at & 0xc0) == 0x80) at++;
    }
    r->byte = (line == 1 ? r->byte : 1) + (uint64_t)(at - begin);
    r->line += line - 1;
}

/* Keeps a message; the place in front of it becomes the row's. */
static void keep_reason(plim_batch_row *r, const char *text, const char *message)
{
    size_t line = 0, column = 0, n = 0;
    int taken = 0;
    if (sscanf(message, NAME ":%zu:%zu: %n", &line, &column, &taken) == 2 && taken) {
        move_place(r, text, line, column);
        message += taken;
    }
    for (size_t bytes; message[n] && n + 4 < sizeof r->reason; n += bytes) {
        bytes = plim_utf8_length(message + n);
        if (bytes) memcpy(r->reason + n, message + n, bytes);
        else r->reason[n] = '?', bytes = 1;
    }
    r->reason[n] = 0;
}

static plim_status copy_name(plim_ctx *c, const char *name, char **out)
{
    if (!name) return PLIM_OK;
    TRY(plim_alloc(c, strlen(name) + 1, 1, "the name of a class", out));
    strcpy(*out, name);
    return PLIM_OK;
}

static plim_status encode_row(plim_batch *b, plim_batch_row *r, plim_chat_coder *coder, plim_ctx *c)
{
    plim_json j = {0};
    plim_row_content content = {0};
    if (r->too_long)
        return plim_fail(c, PLIM_E_RANGE, "the row is longer than %zu MiB", PLIM_ROW_MAX_BYTES >> 20);
    plim_status st = plim_json_parse(c, NAME, b->text + r->at, r->bytes, PLIM_ROW_MAX_BYTES, &j);
    if (!st) st = plim_row_read(c, &j, &content);
    if (!st) st = copy_name(c, content.class_name, &r->class_name);
    if (!st && b->hashes) st = plim_row_hash(c, &content, &r->hash);
    if (!st) st = plim_chat_encode(coder, &content, &r->sample);
    r->weight = content.weight;
    plim_row_content_close(&content);
    plim_json_close(&j);
    return st;
}

static bool stops_all(plim_status st)
{
    return st == PLIM_E_OOM_HOST || st == PLIM_E_USAGE;
}

static void encode(plim_batch *b, plim_batch_row *r, int thread)
{
    plim_ctx *c = b->contexts[thread];
    r->reason[0] = 0;
    r->status = encode_row(b, r, b->coders[thread], c);
    if (!r->status) return;
    keep_reason(r, b->text + r->at, plim_ctx_message(c));
    plim_ctx_clear(c);
}

plim_status plim_batch_encode(plim_batch *b, const char *path)
{
    int count = (int)b->count;
#pragma omp parallel for schedule(dynamic) num_threads(b->threads) if (b->threads > 1)
    for (int i = 0; i < count; i++) encode(b, &b->rows[i], omp_get_thread_num());
    for (int i = 0; i < count; i++) {
        const plim_batch_row *r = &b->rows[i];
        if (stops_all(r->status))
            return plim_fail(b->ctx, r->status, "%s:%" PRIu64 ": %s", path, r->line, r->reason);
    }
    return PLIM_OK;
}
