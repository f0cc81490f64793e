/* l2norm.c - unit length for the keys and queries of the delta rule, and its gradient. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

#define L2_EPS 1e-6 /* inside the root; the models' own constant, not the norms' eps */

PLIM_CPU_INLINE double length_inverse(plim_dtype t, int64_t n, const void *x)
{
    double sum = L2_EPS;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += plim_cpu_load(t, x, i) * plim_cpu_load(t, x, i);
    return 1.0 / sqrt(sum);
}

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t n, const void *x, void *y, double scale)
{
    const double r = scale * length_inverse(t, n, x);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) plim_cpu_store(t, y, i, r * plim_cpu_load(t, x, i));
}

PLIM_CPU_CLONES static void fwd_group(plim_dtype t, int64_t n, const void *x, void *y, double scale)
{
    PLIM_CPU_BY_DTYPE(t, fwd, n, x, y, scale);
}

PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const void *x, const void *dy, void *dx, double scale)
{
    const double r = length_inverse(t, n, x);
    double dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++) dot += plim_cpu_load(t, x, i) * plim_cpu_load(t, dy, i);
    const double pull = r * r * dot;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, dx, i, scale * r * (plim_cpu_load(t, dy, i) - plim_cpu_load(t, x, i) * pull));
}

PLIM_CPU_CLONES static void bwd_group(plim_dtype t, int64_t n, const void *x, const void *dy, void *dx,
                                      double scale)
{
    PLIM_CPU_BY_DTYPE(t, bwd, n, x, dy, dx, scale);
}

static plim_status check(plim_device *d, const char *op, const plim_l2norm_args *a)
{
    TRY(plim_cpu_act(d, op, a->x.dtype));
    TRY(plim_cpu_view(d, op, "x", a->x, a->x.dtype, a->x.rows, a->x.cols));
    if (a->dim > 0 && a->x.cols % a->dim == 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: %" PRId64 " columns are no whole number of groups of %" PRId64, op, a->x.cols,
                     a->dim);
}

plim_status plim_cpu_l2norm_fwd(plim_device *d, const plim_l2norm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols, n = a->dim;
    TRY(check(d, "l2norm_fwd", a));
    TRY(plim_cpu_view(d, "l2norm_fwd", "y", a->y, a->x.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n)
            fwd_group(a->x.dtype, n, plim_cpu_at(a->x, i, j), plim_cpu_at(a->y, i, j), a->scale);
    return PLIM_OK;
}

plim_status plim_cpu_l2norm_bwd(plim_device *d, const plim_l2norm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols, n = a->dim;
    TRY(check(d, "l2norm_bwd", a));
    TRY(plim_cpu_view(d, "l2norm_bwd", "dy", a->dy, a->x.dtype, rows, cols));
    TRY(plim_cpu_view(d, "l2norm_bwd", "dx", a->dx, a->x.dtype, rows, cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += n)
            bwd_group(a->x.dtype, n, plim_cpu_at(a->x, i, j), plim_cpu_at(a->dy, i, j),
                      plim_cpu_at(a->dx, i, j), a->scale);
    return PLIM_OK;
}
