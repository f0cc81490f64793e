/* gemm.c - products in tiles of the result, one tile a thread at a time.
 *
 * Tiles depend on the shape alone, so the bits do not depend on the thread count.  Operands that are not
 * float or double already are converted a panel at a time into the thread's scratch; a BF16 result is summed
 * in float over all of k and rounded once. */
#include <inttypes.h>

#include "ops/cpu/blas.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

enum { TILE = 512, LEAST_TILE = 128, FEW_TILES = 8, PANEL = 512 };

/* Two panels and a tile of float fit in a thread's scratch. */
_Static_assert((2 * TILE * PANEL + TILE * TILE) * sizeof(float) <= PLIM_CPU_SCRATCH_BYTES, "gemm scratch");

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t tile_of(int64_t m, int64_t n)
{
    int64_t tile = TILE;
    while (tile > LEAST_TILE && ceil_div(m, tile) * ceil_div(n, tile) < FEW_TILES) tile /= 2;
    return tile;
}

/* op(x) rows first .. first + rows - 1, columns col .. col + cols - 1, in the terms of x as it is stored. */
static plim_tensor block_of(plim_tensor x, bool transpose, int64_t first, int64_t rows, int64_t col,
                            int64_t cols)
{
    if (transpose) return plim_tensor_cols(plim_tensor_rows(x, col, cols), first, rows);
    return plim_tensor_cols(plim_tensor_rows(x, first, rows), col, cols);
}

PLIM_CPU_INLINE void add_tile(plim_dtype t, int64_t n, const float *tile, void *c, bool accumulate)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(t, c, i,
                       accumulate ? (double)(tile[i] + (float)plim_cpu_load(t, c, i)) : (double)tile[i]);
}

PLIM_CPU_CLONES static void store_row(int64_t n, const float *tile, void *c, bool accumulate)
{
    add_tile(PLIM_BF16, n, tile, c, accumulate);
}

/* One tile of the result; real: the dtype products are formed in. */
static void product_tile(const plim_gemm_args *a, plim_dtype real, int64_t k, plim_tensor c, int64_t row,
                         int64_t col, char *scratch)
{
    const bool direct = a->a.dtype == real && a->b.dtype == real;
    const int64_t panel = direct ? k : PANEL;
    float *tile = (void *)(scratch + 2 * TILE * PANEL * sizeof(float));
    void *out = c.dtype == real ? c.data : tile;
    const int64_t pitch = c.dtype == real ? c.pitch : c.cols;
    for (int64_t first = 0; first < k || (k == 0 && first == 0); first += panel > 0 ? panel : 1) {
        const int64_t depth = k - first < panel ? k - first : panel;
        plim_cpu_matrix pa = {.transpose = a->transpose_a}, pb = {.transpose = a->transpose_b};
        pa.data = plim_cpu_panel(block_of(a->a, a->transpose_a, row, c.rows, first, depth), real, scratch,
                                 &pa.pitch);
        pb.data = plim_cpu_panel(block_of(a->b, a->transpose_b, first, depth, col, c.cols), real,
                                 scratch + TILE * PANEL * sizeof(float), &pb.pitch);
        const double beta = first > 0 || (a->accumulate && c.dtype == real) ? 1.0 : 0.0;
        plim_cpu_blas(real, c.rows, c.cols, depth, a->alpha, pa, pb, beta, out, pitch);
    }
    if (c.dtype == real) return;
    for (int64_t i = 0; i < c.rows; i++)
        store_row(c.cols, tile + i * pitch, plim_cpu_row(c, i), a->accumulate);
}

static plim_status check(plim_device *d, const plim_gemm_args *a, int64_t m, int64_t n, int64_t k)
{
    const int64_t ka = a->transpose_a ? a->a.rows : a->a.cols, kb = a->transpose_b ? a->b.cols : a->b.rows;
    TRY(plim_cpu_act(d, "gemm", a->a.dtype));
    TRY(plim_cpu_act(d, "gemm", a->b.dtype));
    TRY(plim_cpu_act(d, "gemm", a->c.dtype));
    if ((a->a.dtype == PLIM_F64) != (a->b.dtype == PLIM_F64) ||
        (a->a.dtype == PLIM_F64) != (a->c.dtype == PLIM_F64))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "gemm: %s = %s x %s; F64 does not mix with F32 and BF16",
                         plim_dtype_name(a->c.dtype), plim_dtype_name(a->a.dtype),
                         plim_dtype_name(a->b.dtype));
    if (ka != kb)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "gemm: a sums over %" PRId64 ", b over %" PRId64, ka, kb);
    TRY(plim_cpu_view(d, "gemm", "a", a->a, a->a.dtype, a->transpose_a ? k : m, a->transpose_a ? m : k));
    TRY(plim_cpu_view(d, "gemm", "b", a->b, a->b.dtype, a->transpose_b ? n : k, a->transpose_b ? k : n));
    TRY(plim_cpu_view(d, "gemm", "c", a->c, a->c.dtype, m, n));
    if (k > INT32_MAX)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "gemm: a sum over %" PRId64 "; BLAS counts to %d", k,
                         INT32_MAX);
    if (a->a.pitch <= PLIM_CPU_MAX_PITCH && a->b.pitch <= PLIM_CPU_MAX_PITCH &&
        a->c.pitch <= PLIM_CPU_MAX_PITCH)
        return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "gemm: a pitch above %" PRId64 "; BLAS would lose count",
                     PLIM_CPU_MAX_PITCH);
}

plim_status plim_cpu_gemm(plim_device *d, const plim_gemm_args *a)
{
    const int64_t m = a->c.rows, n = a->c.cols, k = a->transpose_a ? a->a.rows : a->a.cols;
    TRY(check(d, a, m, n, k));
    if (m == 0 || n == 0) return PLIM_OK;
    const plim_dtype real = a->a.dtype == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const int64_t tile = tile_of(m, n), down = ceil_div(m, tile), across = ceil_div(n, tile);
#pragma omp parallel for num_threads(plim_cpu_threads(d, m *n + (m + n) * k)) schedule(dynamic)
    for (int64_t i = 0; i < down * across; i++) {
        const int64_t row = i / across * tile, col = i % across * tile;
        const plim_tensor c =
            block_of(a->c, false, row, m - row < tile ? m - row : tile, col, n - col < tile ? n - col : tile);
        product_tile(a, real, k, c, row, col, plim_cpu_scratch(d));
    }
    return PLIM_OK;
}
