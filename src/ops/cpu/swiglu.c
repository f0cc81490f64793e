/* swiglu.c - the MLP's gate: y = silu(gate) * up, and its gradient. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t n, const void *gate, const void *up, void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, y, i, plim_cpu_silu(plim_cpu_load(t, gate, i)) * plim_cpu_load(t, up, i));
}

PLIM_CPU_CLONES static void fwd_row(plim_dtype t, int64_t n, const void *gate, const void *up, void *y)
{
    PLIM_CPU_BY_DTYPE(t, fwd, n, gate, up, y);
}

plim_status plim_cpu_swiglu_fwd(plim_device *d, const plim_swiglu_args *a)
{
    const int64_t rows = a->y.rows, cols = a->y.cols;
    const plim_dtype act = a->y.dtype;
    TRY(plim_cpu_act(d, "swiglu_fwd", act));
    TRY(plim_cpu_view(d, "swiglu_fwd", "y", a->y, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_fwd", "gate", a->gate, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_fwd", "up", a->up, act, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        fwd_row(act, cols, plim_cpu_row(a->gate, i), plim_cpu_row(a->up, i), plim_cpu_row(a->y, i));
    return PLIM_OK;
}

typedef struct bwd_rows {
    const void *dy, *gate, *up;
    void *dgate, *dup, *y; /* y NULL: not wanted */
} bwd_rows;

PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const bwd_rows *r, bool want_y)
{
    const void *rdy = r->dy, *rgate = r->gate, *rup = r->up;
    void *rdgate = r->dgate, *rdup = r->dup, *ry = r->y;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double gate = plim_cpu_load(t, rgate, i), up = plim_cpu_load(t, rup, i);
        const double dy = plim_cpu_load(t, rdy, i);
        const double s = plim_cpu_sigmoid(gate);
        plim_cpu_store(t, rdgate, i, dy * up * plim_cpu_silu_slope(gate, s));
        plim_cpu_store(t, rdup, i, dy * gate * s);
        if (want_y) plim_cpu_store(t, ry, i, gate * s * up);
    }
}

PLIM_CPU_CLONES static void bwd_row(plim_dtype t, int64_t n, const bwd_rows *r)
{
    if (r->y) PLIM_CPU_BY_DTYPE(t, bwd, n, r, true);
    else PLIM_CPU_BY_DTYPE(t, bwd, n, r, false);
}

plim_status plim_cpu_swiglu_bwd(plim_device *d, const plim_swiglu_args *a)
{
    const int64_t rows = a->dy.rows, cols = a->dy.cols;
    const plim_dtype act = a->dy.dtype;
    const bool want_y = a->y.data != NULL;
    TRY(plim_cpu_act(d, "swiglu_bwd", act));
    TRY(plim_cpu_view(d, "swiglu_bwd", "dy", a->dy, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_bwd", "gate", a->gate, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_bwd", "up", a->up, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_bwd", "dgate", a->dgate, act, rows, cols));
    TRY(plim_cpu_view(d, "swiglu_bwd", "dup", a->dup, act, rows, cols));
    if (want_y) TRY(plim_cpu_view(d, "swiglu_bwd", "y", a->y, act, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++) {
        const bwd_rows r = {plim_cpu_row(a->dy, i),  plim_cpu_row(a->gate, i),
                            plim_cpu_row(a->up, i),  plim_cpu_row(a->dgate, i),
                            plim_cpu_row(a->dup, i), want_y ? plim_cpu_row(a->y, i) : NULL};
        bwd_row(act, cols, &r);
    }
    return PLIM_OK;
}
