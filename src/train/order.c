/* order.c - decides the order of documents, and what shares a sequence and a step. */
#include "train/order.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/fnv.h"
#include "base/json.h"
#include "base/random.h"

struct plim_order {
    plim_ctx *ctx;
    plim_order_config g;
    int64_t *labelled; /* documents of the file that are visited */
    uint32_t count;
    /* The epoch at hand. */
    int64_t epoch;
    int64_t steps_before; /* in earlier epochs */
    uint32_t *order;      /* of entries of labelled */
    uint32_t *first;      /* sequence i holds entries first[i] .. first[i + 1] - 1 of order */
    int64_t sequences;
    /* The step at hand: accumulate sequences, each seq_tokens of room. */
    int32_t *ids;
    float *weights;
    int64_t *start; /* documents + 1 a sequence */
    plim_sample *samples;
};

/* ---- where a document came from -------------------------------------------------------------------- */

void plim_order_source(plim_ctx *c, const plim_samples *s, int64_t i, char *buf, size_t bytes)
{
    const char *text = s->file ? plim_samples_metadata(s, "files") : NULL, *name = NULL;
    plim_json j = {0};
    unsigned long long file = s->source[2 * i], line = s->source[2 * i + 1];
    plim_status before = plim_ctx_status(c);
    if (text && !plim_json_parse(c, "files", text, strlen(text), PLIM_JSON_CAP_BYTES, &j) &&
        !plim_json_at_string(&j, j.root, "", (size_t)file, &name))
        snprintf(buf, bytes, "%.200s:%llu", name, line);
    else snprintf(buf, bytes, "file %llu, line %llu", file, line);
    plim_json_close(&j);
    if (!before) plim_ctx_clear(c); /* a name that cannot be read is no failure of its own */
}

/* ---- at the door ----------------------------------------------------------------------------------- */

static plim_status refuse(plim_ctx *c, const plim_samples *s, int64_t i, const char *what)
{
    char source[256];
    plim_order_source(c, s, i, source, sizeof source);
    return plim_fail(c, PLIM_E_RANGE, "document %lld (%s) %s", (long long)i, source, what);
}

static plim_status check_document(plim_order *o, int64_t i, bool *labelled)
{
    const plim_samples *s = o->g.samples;
    int64_t begin = s->doc_offsets[i], end = s->doc_offsets[i + 1];
    char what[160];
    *labelled = false;
    if (end - begin > o->g.seq_tokens) {
        snprintf(what, sizeof what,
                 "has %lld tokens; --seq allows %lld, and the longest of the file needs %lld",
                 (long long)(end - begin), (long long)o->g.seq_tokens, (long long)s->longest_tokens);
        return refuse(o->ctx, s, i, what);
    }
    for (int64_t k = begin; k < end; k++) {
        *labelled |= k > begin && s->loss_weights[k] > 0;
        if (s->tokens[k] >= 0 && s->tokens[k] < o->g.vocab) continue;
        snprintf(what, sizeof what,
                 "has token id %d at its place %lld; the model's vocabulary has %lld entries",
                 (int)s->tokens[k], (long long)(k - begin), (long long)o->g.vocab);
        return refuse(o->ctx, s, i, what);
    }
    return PLIM_OK;
}

static plim_status choose_documents(plim_order *o)
{
    const plim_samples *s = o->g.samples;
    int64_t count = 0;
    if (s->documents > (int64_t)1 << 31)
        return plim_fail(o->ctx, PLIM_E_RANGE, "%lld documents in one file; 2^31 at most",
                         (long long)s->documents);
    TRY(plim_alloc(o->ctx, (size_t)s->documents, sizeof *o->labelled, "the documents of an epoch",
                   &o->labelled));
    for (int64_t i = 0; i < s->documents; i++) {
        bool labelled;
        TRY(check_document(o, i, &labelled));
        if (labelled) o->labelled[count++] = i;
    }
    if (count == 0)
        return plim_fail(o->ctx, PLIM_E_RANGE, "none of the %lld documents has a token to train on",
                         (long long)s->documents);
    o->count = (uint32_t)count;
    return PLIM_OK;
}

/* ---- an epoch -------------------------------------------------------------------------------------- */

static int64_t length_of(const plim_order *o, uint32_t entry)
{
    const int64_t *offset = o->g.samples->doc_offsets + o->labelled[entry];
    return offset[1] - offset[0];
}

static void pack(plim_order *o)
{
    int64_t tokens = 0, documents = 0;
    o->sequences = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        int64_t length = length_of(o, o->order[i]);
        if (i == 0 || tokens + length > o->g.seq_tokens || documents == o->g.documents) {
            o->first[o->sequences++] = i;
            tokens = documents = 0;
        }
        tokens += length;
        documents++;
    }
    o->first[o->sequences] = o->count;
}

static void enter_epoch(plim_order *o, int64_t epoch)
{
    plim_random r = {o->g.seed, plim_fnv1a64("order of documents") + (uint64_t)epoch};
    o->epoch = epoch;
    if (!o->g.file_order) plim_random_order(r, o->count, o->order);
    else
        for (uint32_t i = 0; i < o->count; i++) o->order[i] = i;
    pack(o);
}

static int64_t epoch_steps(const plim_order *o)
{
    return (o->sequences + o->g.accumulate - 1) / o->g.accumulate;
}

static void next_epoch(plim_order *o)
{
    o->steps_before += epoch_steps(o);
    enter_epoch(o, o->epoch + 1);
}

static void first_epoch(plim_order *o)
{
    o->steps_before = 0;
    enter_epoch(o, 0);
}

/* ---- opening --------------------------------------------------------------------------------------- */

static plim_status open_parts(plim_order *o)
{
    plim_ctx *c = o->ctx;
    size_t sequences = (size_t)o->g.accumulate;
    size_t tokens =
        (size_t)(o->g.seq_tokens < o->g.samples->tokens_count ? o->g.seq_tokens : o->g.samples->tokens_count);
    TRY(choose_documents(o));
    TRY(plim_alloc(c, o->count, sizeof *o->order, "the order of an epoch", &o->order));
    TRY(plim_alloc(c, (size_t)o->count + 1, sizeof *o->first, "the sequences of an epoch", &o->first));
    first_epoch(o);
    if (o->g.documents > o->count) o->g.documents = o->count;
    if (o->g.accumulate > (int64_t)o->count) sequences = o->count;
    if (tokens > SIZE_MAX / 16 / sequences) return plim_fail_alloc(c, SIZE_MAX, "the sequences of a step");
    TRY(plim_alloc(c, tokens * sequences, sizeof *o->ids, "the tokens of a step", &o->ids));
    TRY(plim_alloc(c, tokens * sequences, sizeof *o->weights, "the loss weights of a step", &o->weights));
    TRY(plim_alloc(c, sequences, ((size_t)o->g.documents + 1) * sizeof *o->start, "the documents of a step",
                   &o->start));
    return plim_alloc(c, sequences, sizeof *o->samples, "the samples of a step", &o->samples);
}

plim_status plim_order_open(plim_ctx *c, const plim_order_config *g, plim_order **out)
{
    plim_order *o;
    if (g->seq_tokens < 1 || g->documents < 1 || g->accumulate < 1)
        return plim_fail(c, PLIM_E_RANGE,
                         "steps of %lld sequences of %lld tokens in %lld documents; each must be at least 1",
                         (long long)g->accumulate, (long long)g->seq_tokens, (long long)g->documents);
    TRY(plim_alloc(c, 1, sizeof *o, "the order of training", &o));
    o->ctx = c;
    o->g = *g;
    plim_status st = open_parts(o);
    if (st) {
        plim_order_close(o);
        return st;
    }
    *out = o;
    return PLIM_OK;
}

void plim_order_close(plim_order *o)
{
    if (!o) return;
    void *const parts[] = {o->labelled, o->order, o->first, o->ids, o->weights, o->start, o->samples};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) plim_release(o->ctx, parts[i]);
    plim_release(o->ctx, o);
}

int64_t plim_order_documents(const plim_order *o)
{
    return o->count;
}

int64_t plim_order_unlabelled(const plim_order *o)
{
    return o->g.samples->documents - o->count;
}

/* ---- steps ----------------------------------------------------------------------------------------- */

int64_t plim_order_steps(plim_order *o, int64_t epochs)
{
    if (o->epoch > epochs) first_epoch(o);
    while (o->epoch < epochs) next_epoch(o);
    return o->steps_before;
}

/* Copies the documents of a sequence one after the other into room n. */
static void fill(plim_order *o, int64_t sequence, int64_t n, size_t room_tokens)
{
    const plim_samples *s = o->g.samples;
    int32_t *ids = o->ids + (size_t)n * room_tokens;
    float *weights = o->weights + (size_t)n * room_tokens;
    int64_t *start = o->start + n * (o->g.documents + 1), documents = 0, at = 0;
    for (uint32_t i = o->first[sequence]; i < o->first[sequence + 1]; i++) {
        int64_t from = s->doc_offsets[o->labelled[o->order[i]]], length = length_of(o, o->order[i]);
        memcpy(ids + at, s->tokens + from, (size_t)length * sizeof *ids);
        memcpy(weights + at, s->loss_weights + from, (size_t)length * sizeof *weights);
        start[documents++] = at;
        at += length;
    }
    start[documents] = at;
    o->samples[n] =
        (plim_sample){{ids, weights, start, documents}, o->labelled[o->order[o->first[sequence]]]};
}

void plim_order_step_at(plim_order *o, int64_t step, plim_order_step *out)
{
    const plim_samples *s = o->g.samples;
    size_t room = (size_t)(o->g.seq_tokens < s->tokens_count ? o->g.seq_tokens : s->tokens_count);
    assert(step >= 1);
    if (step <= o->steps_before) first_epoch(o);
    while (step > o->steps_before + epoch_steps(o)) next_epoch(o);
    int64_t first = (step - 1 - o->steps_before) * o->g.accumulate, left = o->sequences - first;
    int64_t count = left < o->g.accumulate ? left : o->g.accumulate;
    for (int64_t n = 0; n < count; n++) fill(o, first + n, n, room);
    *out = (plim_order_step){o->epoch, first, o->sequences, count, o->samples};
}
