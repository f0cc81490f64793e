/* gated_norm.c - the delta mixer's output norm: a plain gain, and a SiLU gate after it. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

typedef struct group {
    const void *o, *z, *w, *dy;
    void *y, *dout, *dz;
    double eps;
} group;

PLIM_CPU_INLINE double norm_factor(plim_dtype t, int64_t n, const void *x, double eps)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += plim_cpu_load(t, x, i) * plim_cpu_load(t, x, i);
    return 1.0 / sqrt(sum / (double)n + eps);
}

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t n, const group *g)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const void *o = g->o, *z = g->z, *w = g->w;
    void *y = g->y;
    const double r = norm_factor(t, n, o, g->eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, y, i,
                       plim_cpu_load(stat, w, i) * (plim_cpu_load(t, o, i) * r) *
                           plim_cpu_silu(plim_cpu_load(t, z, i)));
}

PLIM_CPU_CLONES static void fwd_group(plim_dtype t, int64_t n, const group *g)
{
    PLIM_CPU_BY_DTYPE(t, fwd, n, g);
}

/* dout may be dy and dz may be z: an element is read before it is written. */
PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const group *g)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const void *o = g->o, *z = g->z, *w = g->w, *dy = g->dy;
    void *dout = g->dout, *dz = g->dz;
    const double r = norm_factor(t, n, o, g->eps);
    double dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++)
        dot += plim_cpu_load(t, dy, i) * plim_cpu_load(stat, w, i) * plim_cpu_silu(plim_cpu_load(t, z, i)) *
               plim_cpu_load(t, o, i);
    const double pull = dot * r * r / (double)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double gate = plim_cpu_load(t, z, i), s = plim_cpu_sigmoid(gate), x = plim_cpu_load(t, o, i);
        const double dyw = plim_cpu_load(t, dy, i) * plim_cpu_load(stat, w, i);
        plim_cpu_store(t, dout, i, r * (dyw * gate * s - x * pull));
        plim_cpu_store(t, dz, i, dyw * (x * r) * plim_cpu_silu_slope(gate, s));
    }
}

PLIM_CPU_CLONES static void bwd_group(plim_dtype t, int64_t n, const group *g)
{
    PLIM_CPU_BY_DTYPE(t, bwd, n, g);
}

static plim_status check(plim_device *d, const char *op, const plim_gated_norm_args *a)
{
    const plim_dtype act = a->o.dtype;
    TRY(plim_cpu_act(d, op, act));
    TRY(plim_cpu_view(d, op, "o", a->o, act, a->o.rows, a->o.cols));
    TRY(plim_cpu_view(d, op, "z", a->z, act, a->o.rows, a->o.cols));
    TRY(plim_cpu_view(d, op, "w", a->w, plim_cpu_stat(act), 1, a->w.cols));
    if (a->w.cols > 0 && a->o.cols % a->w.cols == 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %" PRId64 " columns are no multiple of the gain's %" PRId64,
                     op, a->o.cols, a->w.cols);
}

plim_status plim_cpu_gated_norm_fwd(plim_device *d, const plim_gated_norm_args *a)
{
    const int64_t rows = a->o.rows, cols = a->o.cols, n = a->w.cols;
    TRY(check(d, "gated_norm_fwd", a));
    TRY(plim_cpu_view(d, "gated_norm_fwd", "y", a->y, a->o.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n) {
            const group g = {.o = plim_cpu_at(a->o, i, j),
                             .z = plim_cpu_at(a->z, i, j),
                             .w = a->w.data,
                             .y = plim_cpu_at(a->y, i, j),
                             .eps = a->eps};
            fwd_group(a->o.dtype, n, &g);
        }
    return PLIM_OK;
}

plim_status plim_cpu_gated_norm_bwd(plim_device *d, const plim_gated_norm_args *a)
{
    const int64_t rows = a->o.rows, cols = a->o.cols, n = a->w.cols;
    TRY(check(d, "gated_norm_bwd", a));
    TRY(plim_cpu_view(d, "gated_norm_bwd", "dy", a->dy, a->o.dtype, rows, cols));
    TRY(plim_cpu_view(d, "gated_norm_bwd", "dout", a->dout, a->o.dtype, rows, cols));
    TRY(plim_cpu_view(d, "gated_norm_bwd", "dz", a->dz, a->o.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n) {
            const group g = {.o = plim_cpu_at(a->o, i, j),
                             .z = plim_cpu_at(a->z, i, j),
                             .w = a->w.data,
                             .dy = plim_cpu_at(a->dy, i, j),
                             .dout = plim_cpu_at(a->dout, i, j),
                             .dz = plim_cpu_at(a->dz, i, j),
                             .eps = a->eps};
            bwd_group(a->o.dtype, n, &g);
        }
    return PLIM_OK;
}
