/* bytes.c - decides what a document is, where a long one is cut, and which file a piece goes to.
 * A document is walked up to three times: to find its length, to hash it, to write it.  Nothing of it is
 * kept. */
#include "data/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/fnv.h"
#include "base/random_core.h"
#include "data/same_file.h"
#include "data/text_file.h"
#include "formats/samples_writer.h"

#define BLOCK_TOKENS 4096

/* What the tokenizer's hash is of. */
#define WITH_END    "bytes: ids 0 to 255, 256 ends a document"
#define WITHOUT_END "bytes: ids 0 to 255"

enum { TRAIN, VALIDATION, OUTPUTS };

typedef struct job {
    plim_ctx *c;
    const plim_bytes_config *g;
    plim_samples_writer *writer[OUTPUTS];
    plim_bytes_result result;
    plim_text_file *text;                     /* the input being read */
    const char *path, *writing;               /* the input, and later the output */
    uint64_t file, before_bytes, total_bytes; /* its number, bytes of the inputs before it and of all */
    int32_t tokens[BLOCK_TOKENS];
    float weights[BLOCK_TOKENS];
} job;

/* ---- a piece ------------------------------------------------------------------------------------------ */

/* Which file the next bytes of the text go to.  The hash is FNV-1a of the bytes, as in base/fnv.h; the seed
 * and the hash pick a random number, so equal texts always go together. */
static plim_status choose(job *j, plim_text_place at, int64_t bytes, int *out)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    int byte = 0;
    *out = TRAIN;
    if (j->g->val_share == 0) return PLIM_OK;
    for (int64_t i = 0; i < bytes; i++) {
        TRY(plim_text_next(j->text, &at, &byte));
        hash = (hash ^ (uint64_t)byte) * UINT64_C(1099511628211);
    }
    plim_random r = {.seed = j->g->seed, .stream = hash};
    if (plim_random_double(r, 0) < j->g->val_share) *out = VALIDATION;
    return PLIM_OK;
}

/* Writes a piece of tokens tokens from place *at; the last one ends the document if ends.  Moves *at to the
 * piece's last byte, where the next piece would begin. */
static plim_status write_piece(job *j, plim_text_place *at, int64_t tokens, bool ends)
{
    int64_t bytes = tokens - ends;
    uint64_t line = at->line;
    plim_text_place next = *at;
    int to, byte = 0;
    TRY(choose(j, *at, bytes, &to));
    for (int64_t done = 0; done < tokens;) {
        int64_t n = tokens - done < BLOCK_TOKENS ? tokens - done : BLOCK_TOKENS;
        for (int64_t i = 0; i < n; i++) {
            j->weights[i] = done + i ? 1 : 0;
            j->tokens[i] = PLIM_BYTES_END;
            if (done + i == bytes) continue;
            *at = next;
            TRY(plim_text_next(j->text, &next, &byte));
            j->tokens[i] = byte;
        }
        TRY(plim_samples_writer_tokens(j->writer[to], j->tokens, j->weights, n));
        done += n;
        if (j->g->progress)
            j->g->progress(j->g->progress_user, NULL, j->before_bytes + next.offset_bytes, j->total_bytes);
    }
    return plim_samples_writer_document(j->writer[to], 0, j->file, line);
}

/* ---- a document --------------------------------------------------------------------------------------- */

static plim_status too_long(const job *j, uint64_t line, int64_t tokens, int64_t most, const char *remedy)
{
    return plim_fail(j->c, PLIM_E_RANGE,
                     "%s:%" PRIu64 ": a document of %" PRId64 " tokens; at most %" PRId64 " are wanted: %s",
                     j->path, line, tokens, most, remedy);
}

static plim_status write_document(job *j, plim_text_place at, int64_t bytes)
{
    bool end = !j->g->no_end;
    int64_t tokens = bytes + end, most = j->g->max_tokens;
    j->result.documents++;
    if (tokens == 1) {
        j->result.alone++;
        return PLIM_OK;
    }
    if (!most && tokens > PLIM_SAMPLES_LONGEST_TOKENS)
        return too_long(j, at.line, tokens, PLIM_SAMPLES_LONGEST_TOKENS, "give a limit, and it is split");
    if (!most || tokens <= most) return write_piece(j, &at, tokens, end);
    switch (j->g->over) {
    case PLIM_OVER_ERROR:
        return too_long(j, at.line, tokens, most,
                        "split, drop or truncate such documents, or raise the limit");
    case PLIM_OVER_DROP: j->result.dropped++; return PLIM_OK;
    case PLIM_OVER_TRUNCATE: j->result.cut++; return write_piece(j, &at, most, false);
    default: break;
    }
    j->result.cut++;
    while (tokens > most) {
        TRY(write_piece(j, &at, most, false));
        tokens -= most - 1;
    }
    return write_piece(j, &at, tokens, end);
}

/* ---- a file ------------------------------------------------------------------------------------------- */

typedef struct line {
    plim_text_place begin;
    int64_t bytes; /* without its end */
    bool blank;    /* nothing but spaces, tabs and carriage returns */
    bool ended;    /* by a line feed, not by the end of the file */
} line;

static plim_status next_line(job *j, plim_text_place *at, line *out)
{
    int byte = 0;
    *out = (line){.begin = *at, .blank = true};
    for (;;) {
        TRY(plim_text_next(j->text, at, &byte));
        if (byte < 0) return PLIM_OK;
        if (byte == '\n') break;
        out->blank &= byte == ' ' || byte == '\t' || byte == '\r';
        out->bytes++;
    }
    out->ended = true;
    return PLIM_OK;
}

/* A document gathered line by line. */
typedef struct gathered {
    plim_text_place begin;
    int64_t bytes;
    bool begun, text; /* a line was taken; one that is not blank */
} gathered;

static void take(gathered *d, const line *l, bool line_end)
{
    if (!d->begun) *d = (gathered){.begin = l->begin, .begun = true};
    d->bytes += l->bytes + line_end;
    d->text |= !l->blank;
}

static plim_status give(job *j, gathered *d, int64_t bytes)
{
    gathered whole = *d;
    *d = (gathered){0};
    return whole.text ? write_document(j, whole.begin, bytes) : PLIM_OK;
}

static plim_status read_documents(job *j, plim_text_place at)
{
    gathered d = {0};
    line l = {.ended = true};
    while (l.ended) {
        TRY(next_line(j, &at, &l));
        switch (j->g->documents) {
        case PLIM_DOCUMENTS_LINES:
            take(&d, &l, false);
            TRY(give(j, &d, d.bytes));
            break;
        case PLIM_DOCUMENTS_PARAGRAPHS:
            if (!l.blank) take(&d, &l, true);
            if (l.blank || !l.ended) TRY(give(j, &d, d.bytes - 1)); /* the last line goes without its end */
            break;
        default:
            take(&d, &l, l.ended);
            if (!l.ended) TRY(give(j, &d, d.bytes));
        }
    }
    return PLIM_OK;
}

static plim_status read_file(job *j, int64_t i)
{
    plim_text_place start;
    int64_t before = j->result.documents;
    j->path = j->g->inputs[i];
    j->file = (uint64_t)i;
    TRY(plim_text_open(j->c, j->path, &j->text, &start));
    uint64_t bytes = plim_text_size_bytes(j->text);
    plim_status st = read_documents(j, start);
    if (!st) st = plim_text_unchanged(j->text);
    if (!st && j->result.documents == before)
        st = plim_fail(j->c, PLIM_E_FORMAT, "%s: %s; leave it out", j->path,
                       bytes ? "holds blanks alone" : "is empty");
    plim_text_close(j->text);
    j->text = NULL;
    j->before_bytes += bytes;
    return st;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

/* A missing input is found before the first one is read; an output must not take the place of an input. */
static plim_status check_files(job *j)
{
    const plim_bytes_config *g = j->g;
    plim_text_place start;
    if (g->val_out && plim_same_file(g->out, g->val_out))
        return plim_fail(j->c, PLIM_E_USAGE, "%s: cannot hold both training and validation", g->out);
    for (int64_t i = 0; i < g->input_count; i++) {
        if (plim_same_file(g->inputs[i], g->out) || (g->val_out && plim_same_file(g->inputs[i], g->val_out)))
            return plim_fail(j->c, PLIM_E_USAGE, "%s: is an input and would be replaced by an output",
                             g->inputs[i]);
        TRY(plim_text_open(j->c, g->inputs[i], &j->text, &start));
        j->total_bytes += plim_text_size_bytes(j->text);
        plim_text_close(j->text);
        j->text = NULL;
    }
    j->result.text_bytes = j->total_bytes;
    return PLIM_OK;
}

static plim_status check_config(plim_ctx *c, const plim_bytes_config *g)
{
    if (g->max_tokens < 0 || g->max_tokens == 1 || g->max_tokens > PLIM_SAMPLES_LONGEST_TOKENS)
        return plim_fail(c, PLIM_E_RANGE, "a limit of %" PRId64 " tokens; 2 to %" PRId64 " would work",
                         g->max_tokens, PLIM_SAMPLES_LONGEST_TOKENS);
    if (!(g->val_share >= 0 && g->val_share < 1))
        return plim_fail(c, PLIM_E_RANGE, "a validation share of %g; 0 or more and below 1 would work",
                         g->val_share);
    if (g->val_share > 0 && !g->val_out)
        return plim_fail(c, PLIM_E_USAGE, "a validation share wants a file of its own to go to");
    if (g->input_count < 1) return plim_fail(c, PLIM_E_USAGE, "no text to read is named");
    return PLIM_OK;
}

static plim_status open_writers(job *j, const plim_samples_about *about)
{
    TRY(plim_samples_writer_open(j->c, j->g->out, about, &j->writer[TRAIN]));
    if (j->g->val_share == 0) return PLIM_OK;
    return plim_samples_writer_open(j->c, j->g->val_out, about, &j->writer[VALIDATION]);
}

static plim_status check_shares(job *j)
{
    plim_bytes_result *r = &j->result;
    r->train = *plim_samples_writer_statistics(j->writer[TRAIN]);
    if (j->writer[VALIDATION]) r->validation = *plim_samples_writer_statistics(j->writer[VALIDATION]);
    int64_t rows = r->train.rows + r->validation.rows;
    if (rows == 0)
        return plim_fail(j->c, PLIM_E_RANGE,
                         "%s: none of %" PRId64 " documents is left: %" PRId64 " too long, %" PRId64
                         " of a single token",
                         j->g->out, r->documents, r->dropped, r->alone);
    if (r->train.rows == 0 || (j->writer[VALIDATION] && r->validation.rows == 0))
        return plim_fail(j->c, PLIM_E_RANGE,
                         "%s: a validation share of %g leaves it none of %" PRId64
                         " documents; another share or seed, or shorter documents, would work",
                         r->train.rows ? j->g->val_out : j->g->out, j->g->val_share, rows);
    return PLIM_OK;
}

/* All that takes room before the first file is replaced.  A committed writer is closed, whatever came of it.
 */
static plim_status commit(job *j)
{
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
    return PLIM_OK;
}

static void show_writing(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
    const job *j = user;
    if (j->g->progress) j->g->progress(j->g->progress_user, j->writing, done_bytes, total_bytes);
}

static plim_status run(job *j)
{
    static const char *const classes[] = {"text"};
    char tokenizer[64];
    snprintf(tokenizer, sizeof tokenizer, "bytes fnv1a64:%016" PRIx64,
             plim_fnv1a64(j->g->no_end ? WITHOUT_END : WITH_END));
    plim_samples_about about = {
        .tokenizer = tokenizer,
        .chat_template = "",
        .classes = classes,
        .class_count = 1,
        .files = j->g->inputs,
        .file_count = j->g->input_count,
        .max_tokens = j->g->max_tokens,
        .progress = show_writing,
        .progress_user = j,
    };
    plim_status st = check_config(j->c, j->g);
    if (!st) st = check_files(j);
    if (!st) st = open_writers(j, &about);
    for (int64_t i = 0; !st && i < j->g->input_count; i++) st = read_file(j, i);
    if (!st) st = commit(j);
    plim_text_close(j->text);
    for (int i = 0; i < OUTPUTS; i++) plim_samples_writer_abort(j->writer[i]);
    return st;
}

plim_status plim_bytes_write(plim_ctx *c, const plim_bytes_config *g, plim_bytes_result *out)
{
    job *j = NULL;
    TRY(plim_alloc(c, 1, sizeof *j, "blocks of tokens", &j));
    j->c = c;
    j->g = g;
    plim_status st = run(j);
    if (!st) *out = j->result;
    plim_release(c, j);
    return st;
}
