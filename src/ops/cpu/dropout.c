/* dropout.c - an element is kept when the uniform number of its index in the whole tensor is at least p. */
#include "base/random.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

enum { PIECE = 256 };

/* keep[k] = 1 / (1 - p) or 0. */
static void fill_mask(plim_random r, uint64_t first, int64_t count, double p, double *keep)
{
    uint32_t word[4];
    for (int64_t k = 0; k < count; k++) {
        const uint64_t i = first + (uint64_t)k;
        if (k == 0 || i % 4 == 0) plim_random_block(r, i / 4, word);
        keep[k] = (double)(word[i % 4] >> 8) * 0x1p-24 >= p ? 1.0 / (1.0 - p) : 0.0;
    }
}

/* A dropped element is 0 whatever it was, NaN and infinity too: on every device by selection, not by
 * product. */
PLIM_CPU_INLINE void apply(plim_dtype t, int64_t n, const void *x, const double *keep, void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, y, i, keep[i] == 0.0 ? 0.0 : plim_cpu_load(t, x, i) * keep[i]);
}

PLIM_CPU_CLONES static void apply_piece(plim_dtype t, int64_t n, const void *x, const double *keep, void *y)
{
    PLIM_CPU_BY_DTYPE(t, apply, n, x, keep, y);
}

plim_status plim_cpu_dropout(plim_device *d, const plim_dropout_args *a)
{
    const int64_t rows = a->y.rows, cols = a->y.cols;
    const plim_dtype act = a->y.dtype;
    const plim_random r = {a->seed, a->stream};
    TRY(plim_cpu_act(d, "dropout", act));
    TRY(plim_cpu_view(d, "dropout", "y", a->y, act, rows, cols));
    TRY(plim_cpu_view(d, "dropout", "x", a->x, act, rows, cols));
    if (!(a->p >= 0 && a->p < 1) || a->first_row < 0)
        return plim_fail(d->ctx, PLIM_E_RANGE, "dropout: p is %g; 0 to below 1 works", a->p);
    if (a->p == 0) return a->x.data == a->y.data ? PLIM_OK : plim_cpu_copy(d, a->x, a->y);
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *cols))
    for (int64_t i = 0; i < rows; i++) {
        double keep[PIECE];
        for (int64_t col = 0; col < cols; col += PIECE) {
            const int64_t count = cols - col < PIECE ? cols - col : PIECE;
            fill_mask(r, (uint64_t)(a->first_row + i) * (uint64_t)cols + (uint64_t)col, count, a->p, keep);
            apply_piece(act, count, plim_cpu_at(a->x, i, col), keep, plim_cpu_at(a->y, i, col));
        }
    }
    return PLIM_OK;
}
