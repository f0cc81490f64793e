/* engine.c - decides nothing about memory: it walks the layout dry, allocates what that counted, and walks it
 * again. */
#include "model/engine.h"

#include "base/context.h"
#include "ops/chunk_table.h"
#include "ops/rope_tables.h"

/* Every walk of the same shape is the same; a difference would be our own mistake. */
static plim_status place(plim_engine *e)
{
    plim_memory dry;
    void *device = NULL, *host = NULL;
    plim_arena_dry(&dry.device);
    plim_arena_dry(&dry.host);
    plim_step_layout(&dry, e->sh, e->step, NULL, NULL);
    if (dry.device.overflow || dry.host.overflow)
        return plim_fail(e->ctx, PLIM_E_SHAPE, "a step of %lld tokens overflows 63 bits of memory",
                         (long long)e->sh->T);
    e->planned_device_bytes = plim_arena_peak(&dry.device).total_bytes;
    e->planned_host_bytes = plim_arena_peak(&dry.host).total_bytes;
    TRY(e->machine->alloc_device(e->device, e->planned_device_bytes, &device));
    plim_arena_live(&e->memory.device, device, e->planned_device_bytes);
    if (e->planned_host_bytes) TRY(e->machine->alloc_host(e->device, e->planned_host_bytes, &host));
    plim_arena_live(&e->memory.host, host, e->planned_host_bytes);
    plim_step_layout(&e->memory, e->sh, e->step, NULL, NULL);
    if (plim_arena_peak(&e->memory.device).total_bytes != e->planned_device_bytes ||
        plim_arena_peak(&e->memory.host).total_bytes != e->planned_host_bytes || e->memory.device.exhausted ||
        e->memory.host.exhausted)
        return plim_fail(e->ctx, PLIM_E_MISMATCH,
                         "the live layout differs from the dry one: %zu and %zu bytes",
                         plim_arena_peak(&e->memory.device).total_bytes, e->planned_device_bytes);
    return PLIM_OK;
}

/* The tables of a sequence, in host memory, before they go to the device. */
typedef struct tables {
    int32_t *labels, *index;
    float *weights;
    int64_t *start;
    void *cos, *sin;
    plim_chunk *chunks;
} tables;

static plim_status open(plim_engine *e, const plim_options *o)
{
    plim_ctx *c = e->ctx;
    tables *t;
    TRY(plim_shape_init(c, &e->spec, o, e->sh));
    e->sh->o.context_bytes = 0; /* the driver holds it already; the plan adds it */
    size_t layers = (size_t)e->sh->spec->layers, T = (size_t)e->sh->T;
    size_t angles = T * (size_t)(e->spec.rope.rotary_dim / 2);
    TRY(plim_alloc(c, layers + 1, sizeof *e->step->layers, "the layers of a step", &e->step->layers));
    TRY(plim_alloc(c, layers, sizeof *e->step->weights, "the weights of a step", &e->step->weights));
    TRY(plim_alloc(c, layers, sizeof *e->adapters, "the adapters of a step", &e->adapters));
    TRY(plim_alloc(c, (size_t)e->sh->tiles, sizeof *e->tiles, "the tiles of a step", &e->tiles));
    TRY(plim_alloc(c, 1, sizeof *t, "the tables of a step", &t));
    e->tables = t;
    TRY(plim_alloc(c, T, sizeof *t->labels, "the labels of a step", &t->labels));
    TRY(plim_alloc(c, T, sizeof *t->index, "the labelled rows of a step", &t->index));
    TRY(plim_alloc(c, T, sizeof *t->weights, "the loss weights of a step", &t->weights));
    TRY(plim_alloc(c, (size_t)e->sh->o.documents + 1, sizeof *t->start, "the documents of a step",
                   &t->start));
    TRY(plim_alloc(c, angles, plim_dtype_bytes(e->sh->stat), "the rotary tables of a step", &t->cos));
    TRY(plim_alloc(c, angles, plim_dtype_bytes(e->sh->stat), "the rotary tables of a step", &t->sin));
    TRY(plim_alloc(c, (size_t)e->sh->all_chunks, sizeof *t->chunks, "the chunks of a step", &t->chunks));
    TRY(place(e));
    if (e->machine->set_workspace)
        e->machine->set_workspace(e->device, e->step->gemm_workspace, e->sh->o.gemm_workspace_bytes);
    plim_adapter_views(e->sh, &e->step->adapters, e->adapters);
    return PLIM_OK;
}

plim_status plim_engine_open(plim_ctx *c, const plim_machine *m, const plim_spec *s, const plim_options *o,
                             plim_engine **out)
{
    plim_engine *e;
    TRY(plim_alloc(c, 1, sizeof *e, "a training step", &e));
    e->ctx = c;
    e->machine = m;
    e->ops = m->ops;
    e->device = m->device;
    e->spec = *s;
    e->sh = &e->shape;
    e->step = &e->steps;
    plim_status st = open(e, o);
    if (st) {
        plim_engine_close(e);
        return st;
    }
    *out = e;
    return PLIM_OK;
}

void plim_engine_close(plim_engine *e)
{
    if (!e) return;
    plim_ctx *c = e->ctx;
    tables *t = e->tables;
    if (t) {
        void *const parts[] = {t->labels, t->index, t->weights, t->start, t->cos, t->sin, t->chunks};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) plim_release(c, parts[i]);
    }
    e->machine->free_device(e->device, e->memory.device.base);
    e->machine->free_host(e->device, e->memory.host.base);
    plim_release(c, t);
    plim_release(c, e->tiles);
    plim_release(c, e->adapters);
    plim_release(c, e->step->weights);
    plim_release(c, e->step->layers);
    plim_release(c, e);
}

/* ---- a sequence ---------------------------------------------------------------------------------------- */

int64_t plim_sequence_labels(const plim_sequence *q, double *weight_sum)
{
    int64_t rows = 0;
    *weight_sum = 0;
    for (int64_t n = 0; n < q->documents; n++)
        for (int64_t t = q->start[n] + 1; t < q->start[n + 1]; t++) {
            if (!(q->weights[t] > 0)) continue;
            *weight_sum += (double)q->weights[t];
            rows++;
        }
    return rows;
}

static plim_status check_sequence(plim_engine *e, const plim_sequence *q)
{
    int64_t T = q->documents > 0 ? q->start[q->documents] : 0;
    if (q->documents < 1 || q->documents > e->sh->o.documents || T < 1 || T > e->sh->T || q->start[0] != 0)
        return plim_fail(
            e->ctx, PLIM_E_RANGE,
            "a sequence of %lld tokens in %lld documents; laid out for %lld tokens in %lld documents",
            (long long)T, (long long)q->documents, (long long)e->sh->T, (long long)e->sh->o.documents);
    for (int64_t n = 0; n < q->documents; n++)
        if (q->start[n + 1] < q->start[n])
            return plim_fail(e->ctx, PLIM_E_RANGE, "document %lld ends before it starts", (long long)n);
    for (int64_t t = 0; t < T; t++)
        if (q->ids[t] < 0 || q->ids[t] >= e->spec.vocab)
            return plim_fail(e->ctx, PLIM_E_RANGE,
                             "token %lld of the sequence is %d; the vocabulary has %lld entries",
                             (long long)t, (int)q->ids[t], (long long)e->spec.vocab);
    return PLIM_OK;
}

/* Row t predicts token t + 1 of its document: labels, weights and rows of those that are trained on. */
static int64_t make_labels(const plim_sequence *q, tables *t)
{
    int64_t n = 0;
    for (int64_t d = 0; d < q->documents; d++)
        for (int64_t row = q->start[d]; row + 1 < q->start[d + 1]; row++) {
            if (!(q->weights[row + 1] > 0)) continue;
            t->labels[n] = q->ids[row + 1];
            t->weights[n] = q->weights[row + 1];
            t->index[n++] = (int32_t)row;
        }
    return n;
}

static plim_status write_table(plim_engine *e, const void *host, plim_tensor to, int64_t elements)
{
    size_t bytes = (size_t)elements * plim_dtype_bytes(to.dtype);
    return bytes ? e->ops->write(e->device, host, to.data, bytes) : PLIM_OK;
}

static plim_status write_angles(plim_engine *e, tables *t)
{
    plim_tensor cos = plim_tensor_rows(e->step->batch.cos, 0, e->T),
                sin = plim_tensor_rows(e->step->batch.sin, 0, e->T);
    int64_t pairs = e->spec.rope.rotary_dim / 2;
    plim_docs host = e->docs;
    host.start = host.start_host;
    plim_tensor made_cos = {t->cos, e->sh->stat, e->T, pairs, pairs},
                made_sin = {t->sin, e->sh->stat, e->T, pairs, pairs};
    TRY(plim_rope_tables(e->ctx, &e->spec.rope, &host, 0, made_cos, made_sin));
    if (cos.pitch == pairs) {
        TRY(write_table(e, t->cos, cos, e->T * pairs));
        return write_table(e, t->sin, sin, e->T * pairs);
    }
    size_t width = plim_dtype_bytes(e->sh->stat);
    for (int64_t row = 0; row < e->T; row++) {
        const char *from_cos = (const char *)t->cos + (size_t)(row * pairs) * width;
        const char *from_sin = (const char *)t->sin + (size_t)(row * pairs) * width;
        TRY(write_table(e, from_cos, plim_tensor_rows(cos, row, 1), pairs));
        TRY(write_table(e, from_sin, plim_tensor_rows(sin, row, 1), pairs));
    }
    return PLIM_OK;
}

plim_status plim_engine_sequence(plim_engine *e, const plim_sequence *q, double weight_sum)
{
    tables *t = e->tables;
    const plim_batch_tables *b = &e->step->batch;
    int64_t chunks = 0;
    TRY(check_sequence(e, q));
    e->T = q->start[q->documents];
    e->loss_scale = weight_sum > 0 ? 1 / weight_sum : 0;
    e->docs =
        (plim_docs){.count = q->documents, .tokens = e->T, .start = b->start.data, .start_host = t->start};
    for (int64_t n = 0; n <= q->documents; n++) t->start[n] = q->start[n];
    for (int64_t n = 0; n < q->documents; n++) {
        int64_t length = q->start[n + 1] - q->start[n];
        if (length > e->docs.longest) e->docs.longest = length;
    }
    for (int64_t i = 0; i < plim_tile_count(e); i++) {
        e->tiles[i].first = chunks;
        e->tiles[i].count =
            plim_chunk_table(&e->docs, i * e->sh->tile, plim_tile_rows(e, i), t->chunks + chunks);
        chunks += e->tiles[i].count;
    }
    e->labelled_rows = make_labels(q, t);
    TRY(write_table(e, q->ids, b->ids, e->T));
    TRY(write_table(e, t->labels, b->labels, e->labelled_rows));
    TRY(write_table(e, t->weights, b->weights, e->labelled_rows));
    TRY(write_table(e, t->index, b->index, e->labelled_rows));
    TRY(write_table(e, t->start, b->start, q->documents + 1));
    if (chunks) TRY(e->ops->write(e->device, t->chunks, b->chunks, (size_t)chunks * sizeof *t->chunks));
    return write_angles(e, t);
}

plim_status plim_engine_zero(plim_engine *e)
{
    plim_fill_args grads = {.x = e->step->adapters.grad};
    TRY(e->ops->fill(e->device, &grads));
    static const double zero[PLIM_SCALARS];
    return e->ops->write(e->device, zero, e->step->batch.scalars.data, sizeof zero);
}
