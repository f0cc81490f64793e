/* rmsnorm.c - RMS norm over groups of columns, and its gradient by the input. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

PLIM_CPU_INLINE double square_sum(plim_dtype t, int64_t n, const void *x)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += plim_cpu_load(t, x, i) * plim_cpu_load(t, x, i);
    return sum;
}

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t n, const void *x, const void *w, void *y, double eps,
                         double offset)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const double r = 1.0 / sqrt(square_sum(t, n, x) / (double)n + eps);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, y, i, plim_cpu_load(t, x, i) * r * (offset + plim_cpu_load(stat, w, i)));
}

PLIM_CPU_CLONES static void fwd_group(plim_dtype t, int64_t n, const void *x, const void *w, void *y,
                                      double eps, double offset)
{
    PLIM_CPU_BY_DTYPE(t, fwd, n, x, w, y, eps, offset);
}

static plim_status check(plim_device *d, const char *op, const plim_rmsnorm_args *a)
{
    const plim_dtype act = a->x.dtype;
    TRY(plim_cpu_act(d, op, act));
    TRY(plim_cpu_view(d, op, "x", a->x, act, a->x.rows, a->x.cols));
    TRY(plim_cpu_view(d, op, "w", a->w, plim_cpu_stat(act), 1, a->w.cols));
    if (a->w.cols > 0 && a->x.cols % a->w.cols == 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %" PRId64 " columns are no multiple of the gain's %" PRId64,
                     op, a->x.cols, a->w.cols);
}

plim_status plim_cpu_rmsnorm_fwd(plim_device *d, const plim_rmsnorm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols, n = a->w.cols;
    const double offset = a->unit_offset ? 1.0 : 0.0;
    TRY(check(d, "rmsnorm_fwd", a));
    TRY(plim_cpu_view(d, "rmsnorm_fwd", "y", a->y, a->x.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n)
            fwd_group(a->x.dtype, n, plim_cpu_at(a->x, i, j), a->w.data, plim_cpu_at(a->y, i, j), a->eps,
                      offset);
    return PLIM_OK;
}

typedef struct bwd_group {
    const void *x, *w, *dy;
    void *dx;
    double eps, offset;
} bwd_group;

PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const bwd_group *g, bool accumulate)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const void *x = g->x, *w = g->w, *dy = g->dy;
    void *dx = g->dx;
    const double offset = g->offset, r = 1.0 / sqrt(square_sum(t, n, x) / (double)n + g->eps);
    double dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++)
        dot += plim_cpu_load(t, dy, i) * (offset + plim_cpu_load(stat, w, i)) * plim_cpu_load(t, x, i);
    const double pull = dot * r * r / (double)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double dxhat = plim_cpu_load(t, dy, i) * (offset + plim_cpu_load(stat, w, i));
        const double g_i = r * (dxhat - plim_cpu_load(t, x, i) * pull);
        plim_cpu_store(t, dx, i, accumulate ? plim_cpu_load(t, dx, i) + g_i : g_i);
    }
}

PLIM_CPU_CLONES static void bwd_one(plim_dtype t, int64_t n, const bwd_group *g, bool accumulate)
{
    if (accumulate) PLIM_CPU_BY_DTYPE(t, bwd, n, g, true);
    else PLIM_CPU_BY_DTYPE(t, bwd, n, g, false);
}

plim_status plim_cpu_rmsnorm_bwd(plim_device *d, const plim_rmsnorm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols, n = a->w.cols;
    TRY(check(d, "rmsnorm_bwd", a));
    TRY(plim_cpu_view(d, "rmsnorm_bwd", "dy", a->dy, a->x.dtype, rows, cols));
    TRY(plim_cpu_view(d, "rmsnorm_bwd", "dx", a->dx, a->x.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n) {
            const bwd_group g = {.x = plim_cpu_at(a->x, i, j),
                                 .w = a->w.data,
                                 .dy = plim_cpu_at(a->dy, i, j),
                                 .dx = plim_cpu_at(a->dx, i, j),
                                 .eps = a->eps,
                                 .offset = a->unit_offset ? 1.0 : 0.0};
            bwd_one(a->x.dtype, n, &g, a->accumulate);
        }
    return PLIM_OK;
}
