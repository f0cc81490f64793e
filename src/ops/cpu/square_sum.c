/* square_sum.c - the square of a gradient's norm, the same bits for any number of threads. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/flat.h"
#include "ops/cpu/value.h"

enum { PARTS = 64 }; /* fixed, so that the order of the sum does not depend on the threads */

PLIM_CPU_INLINE void squares(plim_dtype t, int64_t n, const void *x, double *out)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += plim_cpu_load(t, x, i) * plim_cpu_load(t, x, i);
    *out += sum;
}

PLIM_CPU_CLONES static void squares_run(plim_dtype t, int64_t n, const void *x, double *out)
{
    PLIM_CPU_BY_DTYPE(t, squares, n, x, out);
}

plim_status plim_cpu_square_sum(plim_device *d, const plim_square_sum_args *a)
{
    TRY(plim_cpu_act(d, "square_sum", a->x.dtype));
    TRY(plim_cpu_view(d, "square_sum", "x", a->x, a->x.dtype, a->x.rows, a->x.cols));
    const int64_t n = plim_cpu_flat_count(a->x), part = (n + PARTS - 1) / PARTS;
    double sums[PARTS] = {0};
#pragma omp parallel for num_threads(plim_cpu_threads(d, n))
    for (int p = 0; p < PARTS; p++) {
        const int64_t end = (p + 1) * part < n ? (p + 1) * part : n;
        int64_t run;
        for (int64_t at = p * part; at < end; at += run) {
            const void *x = plim_cpu_flat_at(a->x, at, end - at, &run);
            squares_run(a->x.dtype, run, x, sums + p);
        }
    }
    for (int p = 0; p < PARTS; p++) *a->sum += sums[p];
    return PLIM_OK;
}
