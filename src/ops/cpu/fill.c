/* fill.c - constants and random numbers by element index, the same bits on every device.
 * In float: NORMAL is sigma * n, then + mean; UNIFORM is u * (high - low), then + low; each step rounded. */
#include "base/random.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"

enum { PIECE = 256 };

/* out[k] = plim_random_float(r, first + k). */
static void fill_uniform(plim_random r, uint64_t first, int64_t count, float *out)
{
    uint32_t word[4];
    for (int64_t k = 0; k < count; k++) {
        const uint64_t i = first + (uint64_t)k;
        if (k == 0 || i % 4 == 0) plim_random_block(r, i / 4, word);
        out[k] = (float)(word[i % 4] >> 8) * 0x1p-24f;
    }
}

static void fill_piece(const plim_fill_args *a, uint64_t first, int64_t count, float *out)
{
    const plim_random r = {a->seed, a->stream};
    const float mean = (float)a->a, low = (float)a->a, width = (float)a->b - (float)a->a;
    if (a->kind == PLIM_FILL_NORMAL) {
        plim_random_fill_normal(r, first, (size_t)count, (float)a->b, out);
        for (int64_t k = 0; k < count; k++) out[k] += mean;
    } else if (a->kind == PLIM_FILL_UNIFORM) {
        fill_uniform(r, first, count, out);
        for (int64_t k = 0; k < count; k++) out[k] = out[k] * width + low;
    } else {
        for (int64_t k = 0; k < count; k++) out[k] = (float)a->a;
    }
}

plim_status plim_cpu_fill(plim_device *d, const plim_fill_args *a)
{
    const plim_tensor x = a->x;
    TRY(plim_cpu_act(d, "fill", x.dtype));
    TRY(plim_cpu_view(d, "fill", "x", x, x.dtype, x.rows, x.cols));
    if (a->kind != PLIM_FILL_CONSTANT && a->kind != PLIM_FILL_NORMAL && a->kind != PLIM_FILL_UNIFORM)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "fill: kind %d is none", (int)a->kind);
#pragma omp parallel for num_threads(plim_cpu_threads(d, x.rows *x.cols))
    for (int64_t i = 0; i < x.rows; i++) {
        float piece[PIECE];
        for (int64_t col = 0; col < x.cols; col += PIECE) {
            const int64_t count = x.cols - col < PIECE ? x.cols - col : PIECE;
            fill_piece(a, (uint64_t)i * (uint64_t)x.cols + (uint64_t)col, count, piece);
            plim_cpu_convert(count, PLIM_F32, piece, x.dtype, plim_cpu_at(x, i, col));
        }
    }
    return PLIM_OK;
}
