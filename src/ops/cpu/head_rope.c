/* head_rope.c - head norm and rotary embedding in one visit, and their gradient. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

typedef struct head {
    const void *x, *w, *cos, *sin; /* w NULL: no norm */
    const void *dy;                /* bwd */
    void *out;                     /* y; bwd: dx */
    int64_t dim, half;
    double eps, offset;
} head;

PLIM_CPU_INLINE double inverse_rms(plim_dtype t, const head *h)
{
    const void *x = h->x;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < h->dim; i++) sum += plim_cpu_load(t, x, i) * plim_cpu_load(t, x, i);
    return 1.0 / sqrt(sum / (double)h->dim + h->eps);
}

PLIM_CPU_INLINE void fwd(plim_dtype t, const head *h, bool normed)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const void *x = h->x, *w = h->w, *hcos = h->cos, *hsin = h->sin;
    void *y = h->out;
    const double offset = h->offset, r = normed ? inverse_rms(t, h) : 1.0;
    const int64_t half = h->half, dim = h->dim;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        const double g = normed ? r * (offset + plim_cpu_load(stat, w, i)) : 1.0;
        const double g2 = normed ? r * (offset + plim_cpu_load(stat, w, i + half)) : 1.0;
        const double p = plim_cpu_load(t, x, i) * g, q = plim_cpu_load(t, x, i + half) * g2;
        const double c = plim_cpu_load(stat, hcos, i), s = plim_cpu_load(stat, hsin, i);
        plim_cpu_store(t, y, i, p * c - q * s);
        plim_cpu_store(t, y, i + half, q * c + p * s);
    }
#pragma omp simd
    for (int64_t i = 2 * half; i < dim; i++)
        plim_cpu_store(t, y, i,
                       plim_cpu_load(t, x, i) * (normed ? r * (offset + plim_cpu_load(stat, w, i)) : 1.0));
}

PLIM_CPU_CLONES static void fwd_head(plim_dtype t, const head *h)
{
    if (h->w) PLIM_CPU_BY_DTYPE(t, fwd, h, true);
    else PLIM_CPU_BY_DTYPE(t, fwd, h, false);
}

/* dx_i = r (g_i - x_i pull), with g the gradient at the normed head times the gain. */
PLIM_CPU_INLINE void bwd(plim_dtype t, const head *h, bool normed)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const void *x = h->x, *w = h->w, *hcos = h->cos, *hsin = h->sin, *dy = h->dy;
    void *dx = h->out;
    const double offset = h->offset, r = normed ? inverse_rms(t, h) : 1.0;
    const int64_t half = h->half, dim = h->dim;
    double dot = 0;
    if (normed) {
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < half; i++) {
            const double p = plim_cpu_load(t, dy, i), q = plim_cpu_load(t, dy, i + half);
            const double c = plim_cpu_load(stat, hcos, i), s = plim_cpu_load(stat, hsin, i);
            dot +=
                (p * c + q * s) * (offset + plim_cpu_load(stat, w, i)) * plim_cpu_load(t, x, i) +
                (q * c - p * s) * (offset + plim_cpu_load(stat, w, i + half)) * plim_cpu_load(t, x, i + half);
        }
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 2 * half; i < dim; i++)
            dot += plim_cpu_load(t, dy, i) * (offset + plim_cpu_load(stat, w, i)) * plim_cpu_load(t, x, i);
    }
    const double pull = dot * r * r / (double)dim;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        const double p = plim_cpu_load(t, dy, i), q = plim_cpu_load(t, dy, i + half);
        const double c = plim_cpu_load(stat, hcos, i), s = plim_cpu_load(stat, hsin, i);
        const double w1 = normed ? offset + plim_cpu_load(stat, w, i) : 1.0;
        const double w2 = normed ? offset + plim_cpu_load(stat, w, i + half) : 1.0;
        const double x1 = normed ? plim_cpu_load(t, x, i) * pull : 0.0;
        const double x2 = normed ? plim_cpu_load(t, x, i + half) * pull : 0.0;
        plim_cpu_store(t, dx, i, r * ((p * c + q * s) * w1 - x1));
        plim_cpu_store(t, dx, i + half, r * ((q * c - p * s) * w2 - x2));
    }
#pragma omp simd
    for (int64_t i = 2 * half; i < dim; i++) {
        const double g = plim_cpu_load(t, dy, i) * (normed ? offset + plim_cpu_load(stat, w, i) : 1.0);
        plim_cpu_store(t, dx, i, r * (g - (normed ? plim_cpu_load(t, x, i) * pull : 0.0)));
    }
}

PLIM_CPU_CLONES static void bwd_head(plim_dtype t, const head *h)
{
    if (h->w) PLIM_CPU_BY_DTYPE(t, bwd, h, true);
    else PLIM_CPU_BY_DTYPE(t, bwd, h, false);
}

/* x and dx: as wide as their last head needs, or wider. */
static plim_status check_strided(plim_device *d, const char *op, const char *name, plim_tensor x,
                                 const plim_head_rope_args *a, plim_dtype act, int64_t rows)
{
    const int64_t need = a->heads > 0 ? (a->heads - 1) * a->head_stride + a->head_dim : 0;
    if (a->heads < 0 || a->head_dim < 0 || a->head_stride < a->head_dim || x.cols < need)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %s has %" PRId64 " columns; %" PRId64 " heads of %" PRId64 " at stride %" PRId64
                         " need %" PRId64,
                         op, name, x.cols, a->heads, a->head_dim, a->head_stride, need);
    return plim_cpu_view(d, op, name, x, act, rows, x.cols);
}

static plim_status check(plim_device *d, const char *op, const plim_head_rope_args *a, plim_dtype act,
                         int64_t rows)
{
    const plim_dtype stat = plim_cpu_stat(act);
    TRY(plim_cpu_act(d, op, act));
    if (a->w.data) TRY(plim_cpu_view(d, op, "w", a->w, stat, 1, a->head_dim));
    if (a->cos.cols < 0 || 2 * a->cos.cols > a->head_dim)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " angles turn twice as many columns; a head has %" PRId64, op,
                         a->cos.cols, a->head_dim);
    if (a->cos.cols == 0) return PLIM_OK;
    TRY(plim_cpu_view(d, op, "cos", a->cos, stat, rows, a->cos.cols));
    return plim_cpu_view(d, op, "sin", a->sin, stat, rows, a->cos.cols);
}

static head head_at(const plim_head_rope_args *a, int64_t row, int64_t h)
{
    return (head){.x = a->x.data ? plim_cpu_at(a->x, row, h * a->head_stride) : NULL,
                  .w = a->w.data,
                  .cos = a->cos.cols ? plim_cpu_row(a->cos, row) : NULL,
                  .sin = a->cos.cols ? plim_cpu_row(a->sin, row) : NULL,
                  .dim = a->head_dim,
                  .half = a->cos.cols,
                  .eps = a->eps,
                  .offset = a->unit_offset ? 1.0 : 0.0};
}

plim_status plim_cpu_head_rope_fwd(plim_device *d, const plim_head_rope_args *a)
{
    const char *op = "head_rope_fwd";
    const plim_dtype act = a->y.dtype;
    const int64_t rows = a->y.rows;
    TRY(check(d, op, a, act, rows));
    TRY(check_strided(d, op, "x", a->x, a, act, rows));
    TRY(plim_cpu_view(d, op, "y", a->y, act, rows, a->heads * a->head_dim));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows * a->heads * a->head_dim))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < a->heads; j++) {
            head h = head_at(a, i, j);
            h.out = plim_cpu_at(a->y, i, j * a->head_dim);
            fwd_head(act, &h);
        }
    return PLIM_OK;
}

plim_status plim_cpu_head_rope_bwd(plim_device *d, const plim_head_rope_args *a)
{
    const char *op = "head_rope_bwd";
    const plim_dtype act = a->dy.dtype;
    const int64_t rows = a->dy.rows;
    TRY(check(d, op, a, act, rows));
    if (a->w.data) TRY(check_strided(d, op, "x", a->x, a, act, rows));
    TRY(check_strided(d, op, "dx", a->dx, a, act, rows));
    TRY(plim_cpu_view(d, op, "dy", a->dy, act, rows, a->heads * a->head_dim));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows * a->heads * a->head_dim))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < a->heads; j++) {
            head h = head_at(a, i, j);
            h.dy = plim_cpu_at(a->dy, i, j * a->head_dim);
            h.out = plim_cpu_at(a->dx, i, j * a->head_stride);
            bwd_head(act, &h);
        }
    return PLIM_OK;
}
