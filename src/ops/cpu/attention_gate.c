/* attention_gate.c - the sigmoid gate on the attention output, and its gradient with delta = <du, u> a
 * head. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t n, const void *o, const void *gate, void *u)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, u, i, plim_cpu_load(t, o, i) * plim_cpu_sigmoid(plim_cpu_load(t, gate, i)));
}

PLIM_CPU_CLONES static void fwd_head(plim_dtype t, int64_t n, const void *o, const void *gate, void *u)
{
    PLIM_CPU_BY_DTYPE(t, fwd, n, o, gate, u);
}

/* A gate's view is as wide as its last head needs, or wider. */
static plim_status check_gate(plim_device *d, const char *op, const char *name, plim_tensor gate,
                              const plim_attention_gate_args *a, plim_dtype act, int64_t rows)
{
    const int64_t need = a->heads > 0 ? (a->heads - 1) * a->gate_stride + a->head_dim : 0;
    if (a->gate_stride < a->head_dim || gate.cols < need)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %s has %" PRId64 " columns; %" PRId64 " heads of %" PRId64 " at stride %" PRId64
                         " need %" PRId64,
                         op, name, gate.cols, a->heads, a->head_dim, a->gate_stride, need);
    return plim_cpu_view(d, op, name, gate, act, rows, gate.cols);
}

static plim_status check_heads(plim_device *d, const char *op, const plim_attention_gate_args *a,
                               plim_dtype act)
{
    TRY(plim_cpu_act(d, op, act));
    if (a->heads >= 0 && a->head_dim >= 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %" PRId64 " heads of %" PRId64, op, a->heads, a->head_dim);
}

plim_status plim_cpu_attention_gate_fwd(plim_device *d, const plim_attention_gate_args *a)
{
    const char *op = "attention_gate_fwd";
    const int64_t rows = a->u.rows, dim = a->head_dim, cols = a->heads * dim;
    const plim_dtype act = a->u.dtype;
    TRY(check_heads(d, op, a, act));
    TRY(plim_cpu_view(d, op, "u", a->u, act, rows, cols));
    TRY(plim_cpu_view(d, op, "o", a->o, act, rows, cols));
    if (!a->gate.data) {
        if (a->o.data == a->u.data) return PLIM_OK;
        return plim_cpu_copy(d, a->o, a->u);
    }
    TRY(check_gate(d, op, "gate", a->gate, a, act, rows));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < a->heads; h++)
            fwd_head(act, dim, plim_cpu_at(a->o, i, h * dim), plim_cpu_at(a->gate, i, h * a->gate_stride),
                     plim_cpu_at(a->u, i, h * dim));
    return PLIM_OK;
}

typedef struct bwd_head {
    const void *du, *u, *gate; /* gate NULL: none */
    void *dout, *dgate;
} bwd_head;

/* <du, u> of one head; writes dout and, with a gate, dgate. */
PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const bwd_head *r, bool gated, double *delta)
{
    const void *rdu = r->du, *ru = r->u, *rgate = r->gate;
    void *rdout = r->dout, *rdgate = r->dgate;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const double du = plim_cpu_load(t, rdu, i), u = plim_cpu_load(t, ru, i);
        const double s = gated ? plim_cpu_sigmoid(plim_cpu_load(t, rgate, i)) : 1.0;
        sum += du * u;
        plim_cpu_store(t, rdout, i, du * s);
        if (gated) plim_cpu_store(t, rdgate, i, du * u * (1.0 - s));
    }
    *delta = sum;
}

PLIM_CPU_CLONES static void bwd_one(plim_dtype t, int64_t n, const bwd_head *r, double *delta)
{
    if (r->gate) PLIM_CPU_BY_DTYPE(t, bwd, n, r, true, delta);
    else PLIM_CPU_BY_DTYPE(t, bwd, n, r, false, delta);
}

plim_status plim_cpu_attention_gate_bwd(plim_device *d, const plim_attention_gate_args *a)
{
    const char *op = "attention_gate_bwd";
    const int64_t rows = a->du.rows, dim = a->head_dim, cols = a->heads * dim;
    const plim_dtype act = a->du.dtype, stat = plim_cpu_stat(act);
    const bool gated = a->gate.data != NULL;
    TRY(check_heads(d, op, a, act));
    TRY(plim_cpu_view(d, op, "du", a->du, act, rows, cols));
    TRY(plim_cpu_view(d, op, "u", a->u, act, rows, cols));
    TRY(plim_cpu_view(d, op, "dout", a->dout, act, rows, cols));
    TRY(plim_cpu_view(d, op, "delta", a->delta, stat, a->heads, rows));
    if (gated) {
        TRY(check_gate(d, op, "gate", a->gate, a, act, rows));
        TRY(check_gate(d, op, "dgate", a->dgate, a, act, rows));
    }
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < a->heads; h++) {
            const bwd_head r = {plim_cpu_at(a->du, i, h * dim), plim_cpu_at(a->u, i, h * dim),
                                gated ? plim_cpu_at(a->gate, i, h * a->gate_stride) : NULL,
                                plim_cpu_at(a->dout, i, h * dim),
                                gated ? plim_cpu_at(a->dgate, i, h * a->gate_stride) : NULL};
            double delta;
            bwd_one(act, dim, &r, &delta);
            plim_cpu_store(stat, plim_cpu_at(a->delta, h, i), 0, delta);
        }
    return PLIM_OK;
}
