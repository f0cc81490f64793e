/* attention_tile.c - the element-wise half of attention; exponentials in the tile's own precision, sums in
 * double. */
#include "ops/cpu/attention_tile.h"

#include "ops/cpu/value.h"

enum { LANES = 16 };

static int64_t visible(const plim_cpu_tile *t, int64_t row)
{
    const int64_t n = row + t->diagonal + 1;
    return n < t->cols ? n : t->cols;
}

static void *at(plim_dtype real, void *data, int64_t i)
{
    return (char *)data + (size_t)i * plim_dtype_bytes(real);
}

PLIM_CPU_INLINE float largest_f32(int64_t n, const float *z)
{
    float lane[LANES], most = -INFINITY;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] = z[i + l] > lane[l] ? z[i + l] : lane[l];
    }
    for (; i < n; i++) most = z[i] > most ? z[i] : most;
    for (int l = 0; l < LANES; l++) most = lane[l] > most ? lane[l] : most;
    return most;
}

/* One row of a tile: z = scale z, then exp(z - max). */
PLIM_CPU_CLONES static void softmax_f32(int64_t n, float *z, float scale, double *max, double *sum,
                                        double *shrink)
{
    for (int64_t i = 0; i < n; i++) z[i] *= scale;
    const float before = (float)*max, most = largest_f32(n, z), now = most > before ? most : before;
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        z[i] = plim_cpu_expf(z[i] - now);
        total += (double)z[i];
    }
    *shrink = now > before ? exp((double)before - (double)now) : 1.0;
    *sum = *sum * *shrink + total;
    *max = (double)now;
}

PLIM_CPU_CLONES static void softmax_f64(int64_t n, double *z, double scale, double *max, double *sum,
                                        double *shrink)
{
    double now = *max, total = 0;
    for (int64_t i = 0; i < n; i++) {
        z[i] *= scale;
        now = z[i] > now ? z[i] : now;
    }
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        z[i] = plim_cpu_exp(z[i] - now);
        total += z[i];
    }
    *shrink = now > *max ? exp(*max - now) : 1.0;
    *sum = *sum * *shrink + total;
    *max = now;
}

PLIM_CPU_INLINE void multiply(plim_dtype t, int64_t n, void *x, double factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) plim_cpu_store(t, x, i, plim_cpu_load(t, x, i) * factor);
}

PLIM_CPU_CLONES static void multiply_row(plim_dtype real, int64_t n, void *x, double factor)
{
    if (real == PLIM_F32) multiply(PLIM_F32, n, x, factor);
    else multiply(PLIM_F64, n, x, factor);
}

void plim_cpu_tile_softmax(const plim_cpu_tile *t, double *max, double *sum, void *out, int64_t dim)
{
    for (int64_t i = 0; i < t->rows; i++) {
        void *z = at(t->real, t->scores, i * t->cols);
        const int64_t n = visible(t, i);
        const bool first = isinf(max[i]) && max[i] < 0;
        double shrink = 1.0;
        if (t->real == PLIM_F32) softmax_f32(n, z, (float)t->scale, &max[i], &sum[i], &shrink);
        else softmax_f64(n, z, t->scale, &max[i], &sum[i], &shrink);
        memset(at(t->real, z, n), 0, (size_t)(t->cols - n) * plim_dtype_bytes(t->real));
        if (!first && shrink != 1.0) multiply_row(t->real, dim, at(t->real, out, i * dim), shrink);
    }
}

PLIM_CPU_INLINE void divide(plim_dtype act, int64_t n, plim_dtype real, const void *acc, double sum,
                            void *out)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) plim_cpu_store(act, out, i, plim_cpu_load(real, acc, i) / sum);
}

PLIM_CPU_CLONES void plim_cpu_tile_divide(plim_dtype real, plim_dtype act, int64_t dim, const void *acc,
                                          double sum, void *out)
{
    if (real == PLIM_F64) divide(PLIM_F64, dim, PLIM_F64, acc, sum, out);
    else if (act == PLIM_F32) divide(PLIM_F32, dim, PLIM_F32, acc, sum, out);
    else divide(PLIM_BF16, dim, PLIM_F32, acc, sum, out);
}

PLIM_CPU_CLONES static void gradient_f32(int64_t n, float *z, float *dp, float scale, float lse, float delta)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float p = plim_cpu_expf(z[i] * scale - lse);
        z[i] = p;
        dp[i] = p * (dp[i] - delta);
    }
}

PLIM_CPU_CLONES static void gradient_f64(int64_t n, double *z, double *dp, double scale, double lse,
                                         double delta)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double p = plim_cpu_exp(z[i] * scale - lse);
        z[i] = p;
        dp[i] = p * (dp[i] - delta);
    }
}

void plim_cpu_tile_gradient(const plim_cpu_tile *t, void *dp, const void *lse, const void *delta)
{
    for (int64_t i = 0; i < t->rows; i++) {
        void *z = at(t->real, t->scores, i * t->cols), *g = at(t->real, dp, i * t->cols);
        const int64_t n = visible(t, i);
        if (t->real == PLIM_F32)
            gradient_f32(n, z, g, (float)t->scale, ((const float *)lse)[i], ((const float *)delta)[i]);
        else gradient_f64(n, z, g, t->scale, ((const double *)lse)[i], ((const double *)delta)[i]);
        const size_t hidden = (size_t)(t->cols - n) * plim_dtype_bytes(t->real);
        memset(at(t->real, z, n), 0, hidden);
        memset(at(t->real, g, n), 0, hidden);
    }
}
