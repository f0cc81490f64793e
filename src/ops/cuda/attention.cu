// attention.cu - decides which attention engine runs on this card, says why, and checks what both are given.
#include "ops/cuda/attention_parts.h"

#include "ops/cuda/parts.h"

#include <inttypes.h>
#include <stdio.h>

#define MOST_DIM 256

static void set_why(plim_device *d, const char *text)
{
    snprintf(d->attention_why, sizeof d->attention_why, "%s", text);
}

#ifdef PLIM_HAVE_CUDNN
/* Opens cuDNN, or says in *text why our own kernels run. */
static plim_status try_cudnn(plim_device *d, const char *why, char text[160])
{
    if (!d->lib.cudnn_file) {
        snprintf(text, 160, "plimsoll's own: %.140s", why);
        return PLIM_OK;
    }
    const size_t version = d->lib.cudnnGetVersion();
    const unsigned major = (unsigned)(version / 10000), minor = (unsigned)(version / 100 % 100),
                   patch = (unsigned)(version % 100);
    if (version < PLIM_CUDNN_OLDEST)
        snprintf(text, 160, "plimsoll's own: cuDNN %u.%u.%u has known errors in this backward; 9.15.1 works",
                 major, minor, patch);
    else if (d->prop.major != 9)
        snprintf(text, 160, "plimsoll's own: cuDNN has these kernels for capability 9.0, this card is %d.%d",
                 d->prop.major, d->prop.minor);
    else {
        TRY(plim_cudnn_attention_open(d));
        snprintf(text, 160, "cuDNN %u.%u.%u; plimsoll's own for heads below 64", major, minor, patch);
    }
    return PLIM_OK;
}
#else
static plim_status try_cudnn(plim_device *d, const char *why, char text[160])
{
    (void)d;
    snprintf(text, 160, "plimsoll's own: %.140s", why);
    return PLIM_OK;
}
#endif

plim_status plim_cuda_attention_open(plim_device *d, const char *why)
{
    char text[160];
    TRY(plim_cuda_attention_own_open(d));
    if (d->attention == PLIM_ATTENTION_CUDNN) TRY(try_cudnn(d, why, text));
    else snprintf(text, sizeof text, "plimsoll's own: %s", d->deterministic ? "deterministic" : "asked for");
    set_why(d, text);
    return PLIM_OK;
}

void plim_cuda_attention_close(plim_device *d)
{
#ifdef PLIM_HAVE_CUDNN
    plim_cudnn_attention_close(d);
#else
    (void)d;
#endif
}

const char *plim_cuda_attention_name(const plim_device *d)
{
    return d->attention_why;
}

/* Both engines move 16 bytes at a time. */
static plim_status view(plim_device *d, const char *op, const char *name, plim_tensor t, int64_t rows,
                        int64_t cols)
{
    TRY(plim_cuda_view(d, op, name, t, PLIM_BF16, rows, cols));
    if (rows == 0 || ((uintptr_t)t.data % 16 == 0 && t.pitch % 8 == 0)) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: %s at %p with pitch %" PRId64
                     " is not in steps of 16 bytes; pitches and columns that are multiples of 8 work",
                     op, name, t.data, t.pitch);
}

static plim_status check(plim_device *d, const char *op, const plim_attention_args *a)
{
    const int64_t rows = a->q.rows, dim = a->head_dim;
    const plim_docs *docs = &a->docs;
    if (dim < 8 || dim > MOST_DIM || dim % 8 || a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " heads of %" PRId64 " over %" PRId64
                         " key heads; head sizes that are multiples of 8 to %d and whole groups work",
                         op, a->heads, dim, a->kv_heads, MOST_DIM);
    TRY(view(d, op, "q", a->q, rows, a->heads * dim));
    TRY(view(d, op, "k", a->k, rows, a->kv_heads * dim));
    TRY(view(d, op, "v", a->v, rows, a->kv_heads * dim));
    TRY(plim_cuda_view(d, op, "lse", a->lse, PLIM_F32, a->heads, rows));
    if (rows == 0) return PLIM_OK;
    if (rows < INT32_MAX && docs->count > 0 && docs->tokens == rows && docs->start && docs->start_host &&
        docs->start_host[0] == 0 && docs->start_host[docs->count] == rows)
        return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: %" PRId64 " documents of %" PRId64 " tokens over %" PRId64
                     " rows; documents from row 0 to the last work",
                     op, docs->count, docs->tokens, rows);
}

plim_status plim_cuda_attention_fwd(plim_device *d, const plim_attention_args *a)
{
    TRY(check(d, "attention_fwd", a));
    TRY(view(d, "attention_fwd", "o", a->o, a->q.rows, a->q.cols));
    if (a->q.rows == 0) return PLIM_OK;
#ifdef PLIM_HAVE_CUDNN
    if (d->cudnn && plim_cudnn_attention_takes(a, false)) return plim_cudnn_attention(d, a, false);
#endif
    return plim_cuda_attention_own_fwd(d, a);
}

plim_status plim_cuda_attention_bwd(plim_device *d, const plim_attention_args *a)
{
    const char *op = "attention_bwd";
    const int64_t rows = a->q.rows, cols = a->heads * a->head_dim, kv_cols = a->kv_heads * a->head_dim;
    TRY(check(d, op, a));
    TRY(view(d, op, "dout", a->dout, rows, cols));
    TRY(plim_cuda_view(d, op, "delta", a->delta, PLIM_F32, a->heads, rows));
    TRY(view(d, op, "dq", a->dq, rows, cols));
    TRY(view(d, op, "dk", a->dk, rows, kv_cols));
    TRY(view(d, op, "dv", a->dv, rows, kv_cols));
    if (rows == 0) return PLIM_OK;
#ifdef PLIM_HAVE_CUDNN
    if (d->cudnn && plim_cudnn_attention_takes(a, true)) {
        TRY(view(d, op, "o", a->o, rows, cols));
        return plim_cudnn_attention(d, a, true);
    }
#endif
    return plim_cuda_attention_own_bwd(d, a);
}
