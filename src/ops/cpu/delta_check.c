/* delta_check.c - decides which calls of the delta rule the CPU takes. */
#include <inttypes.h>

#include "ops/cpu/delta_chunk.h"

static plim_status check_heads(const plim_device *d, const char *op, const plim_delta_args *a)
{
    if (a->key_heads < 1 || a->value_heads < a->key_heads || a->value_heads % a->key_heads)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " value heads over %" PRId64 " key heads; a multiple of them works",
                         op, a->value_heads, a->key_heads);
    if (a->key_dim < 1 || a->value_dim < 1 || a->key_dim > PLIM_DELTA_WIDTH_MAX ||
        a->value_dim > PLIM_DELTA_WIDTH_MAX)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: heads of %" PRId64 " keys and %" PRId64 " values; 1 to %d of either work", op,
                         a->key_dim, a->value_dim, PLIM_DELTA_WIDTH_MAX);
    return PLIM_OK;
}

static plim_status check_chunks(const plim_device *d, const char *op, const plim_delta_args *a)
{
    int64_t row = 0;
    for (int64_t m = 0; m < a->chunk_count; m++) {
        const plim_chunk *c = a->chunks + m;
        if (c->first != row || c->rows < 1 || c->rows > PLIM_CHUNK_TOKENS)
            return plim_fail(d->ctx, PLIM_E_SHAPE,
                             "%s: chunk %" PRId64
                             " has %d rows from row %d; wanted 1 to %d from row %" PRId64,
                             op, m, (int)c->rows, (int)c->first, PLIM_CHUNK_TOKENS, row);
        row += c->rows;
    }
    if (row != a->q.rows)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %" PRId64 " chunks cover %" PRId64 " of %" PRId64 " rows",
                         op, a->chunk_count, row, a->q.rows);
    return PLIM_OK;
}

plim_status plim_delta_check(const plim_device *d, const char *op, const plim_delta_args *a, bool backward,
                             plim_delta_layout *l)
{
    const plim_dtype act = a->q.dtype, stat = plim_cpu_stat(act);
    const int64_t rows = a->q.rows, keys = a->key_heads * a->key_dim, values = a->value_heads * a->value_dim;
    const int64_t state_rows = a->value_heads * a->key_dim;
    TRY(plim_cpu_act(d, op, act));
    TRY(check_heads(d, op, a));
    TRY(plim_cpu_view(d, op, "q", a->q, act, rows, keys));
    TRY(plim_cpu_view(d, op, "k", a->k, act, rows, keys));
    TRY(plim_cpu_view(d, op, "v", a->v, act, rows, values));
    TRY(plim_cpu_view(d, op, "g", a->g, stat, rows, a->value_heads));
    TRY(plim_cpu_view(d, op, "beta", a->beta, stat, rows, a->value_heads));
    TRY(plim_cpu_view(d, op, "state", a->state, stat, state_rows, a->value_dim));
    if (backward) {
        TRY(plim_cpu_view(d, op, "dout", a->dout, act, rows, values));
        TRY(plim_cpu_view(d, op, "dstate", a->dstate, stat, state_rows, a->value_dim));
        TRY(plim_cpu_view(d, op, "dq", a->dq, act, rows, keys));
        TRY(plim_cpu_view(d, op, "dk", a->dk, act, rows, keys));
        TRY(plim_cpu_view(d, op, "dv", a->dv, act, rows, values));
        TRY(plim_cpu_view(d, op, "dg", a->dg, stat, rows, a->value_heads));
        TRY(plim_cpu_view(d, op, "dbl", a->dbl, stat, rows, a->value_heads));
    } else {
        TRY(plim_cpu_view(d, op, "o", a->o, act, rows, values));
    }
    TRY(check_chunks(d, op, a));
    *l = plim_delta_layout_of(act, a->value_heads, a->key_dim, a->value_dim, a->chunk_count, backward);
    if (l->bytes > a->scratch_bytes || (l->bytes && !a->scratch))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %zu bytes of scratch, wanted %zu", op, a->scratch_bytes,
                         l->bytes);
    return PLIM_OK;
}
