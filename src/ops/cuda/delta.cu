// delta.cu - decides which calls of the gated delta rule the card takes, and the order of its phases.
#include "ops/cuda/delta.h"

extern "C" {
#include "ops/delta_scratch.h"
}

static plim_status check_heads(plim_device *d, const char *op, const plim_delta_args *a)
{
    if (a->key_heads < 1 || a->value_heads < a->key_heads || a->value_heads % a->key_heads)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %lld value heads over %lld key heads; a multiple of them works", op,
                         (long long)a->value_heads, (long long)a->key_heads);
    if (a->key_dim < 8 || a->value_dim < 8 || a->key_dim > 128 || a->value_dim > 128 || a->key_dim % 8 ||
        a->value_dim % 8)
        return plim_fail(
            d->ctx, PLIM_E_SHAPE,
            "%s: heads of %lld keys and %lld values; on a card multiples of 8 from 8 to 128 work", op,
            (long long)a->key_dim, (long long)a->value_dim);
    if (a->chunk_count < 0 || a->chunk_count > 2147483647 / a->value_heads)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %lld chunks of %lld value heads; 2^31 - 1 blocks in all work", op,
                         (long long)a->chunk_count, (long long)a->value_heads);
    return PLIM_OK;
}

/* bf16 rows are moved 16 bytes at a time; heads of multiples of 8 columns keep what the view has. */
static plim_status check_rows(plim_device *d, const char *op, const char *name, plim_tensor t, int64_t rows,
                              int64_t cols)
{
    TRY(plim_cuda_view(d, op, name, t, PLIM_BF16, rows, cols));
    if (plim_cuda_wide(t)) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s at %p, pitch %lld; multiples of 16 bytes work", op, name,
                     t.data, (long long)t.pitch);
}

static plim_status check(plim_device *d, const char *op, const plim_delta_args *a, bool backward,
                         delta_view *out)
{
    const int64_t rows = a->q.rows, keys = a->key_heads * a->key_dim, values = a->value_heads * a->value_dim;
    const int64_t state_rows = a->value_heads * a->key_dim;
    TRY(plim_cuda_act(d, op, a->q.dtype));
    TRY(check_heads(d, op, a));
    TRY(check_rows(d, op, "q", a->q, rows, keys));
    TRY(check_rows(d, op, "k", a->k, rows, keys));
    TRY(check_rows(d, op, "v", a->v, rows, values));
    TRY(plim_cuda_view(d, op, "g", a->g, PLIM_F32, rows, a->value_heads));
    TRY(plim_cuda_view(d, op, "beta", a->beta, PLIM_F32, rows, a->value_heads));
    TRY(plim_cuda_view(d, op, "state", a->state, PLIM_F32, state_rows, a->value_dim));
    if (backward) {
        TRY(check_rows(d, op, "dout", a->dout, rows, values));
        TRY(plim_cuda_view(d, op, "dstate", a->dstate, PLIM_F32, state_rows, a->value_dim));
        TRY(check_rows(d, op, "dq", a->dq, rows, keys));
        TRY(check_rows(d, op, "dk", a->dk, rows, keys));
        TRY(check_rows(d, op, "dv", a->dv, rows, values));
        TRY(plim_cuda_view(d, op, "dg", a->dg, PLIM_F32, rows, a->value_heads));
        TRY(plim_cuda_view(d, op, "dbl", a->dbl, PLIM_F32, rows, a->value_heads));
    } else {
        TRY(check_rows(d, op, "o", a->o, rows, values));
    }
    const plim_delta_layout l =
        plim_delta_layout_of(PLIM_BF16, a->value_heads, a->key_dim, a->value_dim, a->chunk_count, backward);
    if (l.bytes > a->scratch_bytes || (l.bytes && (!a->scratch || (uintptr_t)a->scratch % 16)))
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %zu bytes of scratch at %p, wanted %zu at a multiple of 16", op,
                         a->scratch_bytes, a->scratch, l.bytes);
    char *base = (char *)a->scratch;
    delta_view v = {};
    v.q = rows_view<const bf16>(a->q), v.k = rows_view<const bf16>(a->k), v.v = rows_view<const bf16>(a->v);
    v.dout = rows_view<const bf16>(a->dout);
    v.g = rows_view<const float>(a->g), v.beta = rows_view<const float>(a->beta);
    v.o = rows_view<bf16>(a->o), v.dq = rows_view<bf16>(a->dq), v.dk = rows_view<bf16>(a->dk);
    v.dv = rows_view<bf16>(a->dv);
    v.state = rows_view<float>(a->state), v.dstate = rows_view<float>(a->dstate);
    v.dg = rows_view<float>(a->dg), v.dbl = rows_view<float>(a->dbl);
    v.s = (bf16 *)(base + l.state), v.t = (bf16 *)(base + l.t), v.d = (bf16 *)(base + l.d);
    v.ds = (bf16 *)(base + l.dstate), v.dr = (bf16 *)(base + l.dr), v.pdo = (bf16 *)(base + l.pdo);
    v.chunks = a->chunks;
    v.chunk_count = (int)a->chunk_count;
    v.value_heads = (int)a->value_heads, v.group = (int)(a->value_heads / a->key_heads);
    v.key_dim = (int)a->key_dim, v.value_dim = (int)a->value_dim;
    *out = v;
    return PLIM_OK;
}

static int padded_head(const plim_delta_args *a)
{
    const int64_t most = a->key_dim > a->value_dim ? a->key_dim : a->value_dim;
    return most <= 32 ? 32 : most <= 64 ? 64 : 128;
}

plim_status plim_cuda_delta_fwd(plim_device *d, const plim_delta_args *a)
{
    delta_view v;
    TRY(check(d, "delta_fwd", a, false, &v));
    if (a->chunk_count == 0) return PLIM_OK;
    const int padded = padded_head(a);
    TRY(plim_cuda_delta_solve(d, v, padded));
    TRY(plim_cuda_delta_scan_fwd(d, v, padded, true));
    return plim_cuda_delta_output(d, v, padded);
}

plim_status plim_cuda_delta_bwd(plim_device *d, const plim_delta_args *a)
{
    delta_view v;
    TRY(check(d, "delta_bwd", a, true, &v));
    if (a->chunk_count == 0) return PLIM_OK;
    const int padded = padded_head(a);
    TRY(plim_cuda_delta_solve(d, v, padded));
    TRY(plim_cuda_delta_scan_fwd(d, v, padded, false));
    TRY(plim_cuda_delta_inner(d, v, padded));
    TRY(plim_cuda_delta_scan_bwd(d, v, padded));
    return plim_cuda_delta_gradients(d, v, padded);
}
