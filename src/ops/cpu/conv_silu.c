/* conv_silu.c - the causal depthwise convolution of the delta mixer with its SiLU, tile by tile.
 *
 * The gradient walks rows downwards and keeps the pre-activation gradients of the last rows in a small ring;
 * they are rounded to STAT as they enter it, so that a tile that takes them over from `carry` computes the
 * same bits. */
#include <inttypes.h>

#include "ops/chunk_table.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

enum { MOST_TAPS = 8, BLOCK = 256 }; /* columns a thread works on at once */

/* The rows of m under the taps of one output row; NULL before the document. */
typedef struct window {
    const void *row[MOST_TAPS];
} window;

/* Row t of the tile; first is where its document starts, in rows of the tile (it may be negative). */
static window window_at(const plim_conv_silu_args *a, int64_t t, int64_t first)
{
    const int64_t taps = a->w.cols;
    window x = {{NULL}};
    for (int64_t j = 0; j < taps; j++) {
        const int64_t at = t - (taps - 1) + j;
        if (at >= first)
            x.row[j] = at >= 0 ? plim_cpu_row(a->m, at) : plim_cpu_row(a->history, taps - 1 + at);
    }
    return x;
}

/* pre = columns first .. first + n - 1 of the convolution at one row. */
PLIM_CPU_INLINE void convolve(plim_dtype t, int64_t first, int64_t n, const window *x, int64_t taps,
                              const plim_tensor *w, double *pre)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    for (int64_t c = 0; c < n; c++) pre[c] = 0;
    for (int64_t j = 0; j < taps; j++) {
        const void *row = x->row[j];
        if (!row) continue;
        for (int64_t c = 0; c < n; c++)
            pre[c] +=
                plim_cpu_load(stat, w->data, (first + c) * w->pitch + j) * plim_cpu_load(t, row, first + c);
    }
}

PLIM_CPU_INLINE void fwd(plim_dtype t, int64_t cols, const window *x, int64_t taps, const plim_tensor *w,
                         void *y)
{
    double pre[BLOCK];
    for (int64_t first = 0; first < cols; first += BLOCK) {
        const int64_t n = cols - first < BLOCK ? cols - first : BLOCK;
        convolve(t, first, n, x, taps, w, pre);
#pragma omp simd
        for (int64_t c = 0; c < n; c++) plim_cpu_store(t, y, first + c, plim_cpu_silu(pre[c]));
    }
}

PLIM_CPU_CLONES static void fwd_row(plim_dtype t, int64_t cols, const window *x, int64_t taps,
                                    const plim_tensor *w, void *y)
{
    PLIM_CPU_BY_DTYPE(t, fwd, cols, x, taps, w, y);
}

static plim_status check(plim_device *d, const char *op, const plim_conv_silu_args *a)
{
    const plim_dtype act = a->m.dtype;
    const int64_t rows = a->m.rows, ch = a->m.cols, taps = a->w.cols;
    TRY(plim_cpu_act(d, op, act));
    if (taps < 1 || taps > MOST_TAPS)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %" PRId64 " taps; 1 to %d work", op, taps, MOST_TAPS);
    TRY(plim_cpu_view(d, op, "m", a->m, act, rows, ch));
    TRY(plim_cpu_view(d, op, "w", a->w, plim_cpu_stat(act), ch, taps));
    if (rows && a->first_row > 0) TRY(plim_cpu_view(d, op, "history", a->history, act, taps - 1, ch));
    TRY(plim_cpu_docs(d, op, &a->docs, a->docs.tokens));
    if (a->first_row < 0 || a->first_row > a->docs.tokens - rows)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " rows from row %" PRId64 " do not lie in a sequence of %" PRId64, op,
                         rows, a->first_row, a->docs.tokens);
    return PLIM_OK;
}

plim_status plim_cpu_conv_silu_fwd(plim_device *d, const plim_conv_silu_args *a)
{
    const int64_t rows = a->m.rows, ch = a->m.cols, taps = a->w.cols;
    TRY(check(d, "conv_silu_fwd", a));
    TRY(plim_cpu_view(d, "conv_silu_fwd", "y", a->y, a->m.dtype, rows, ch));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *ch))
    for (int64_t t = 0; t < rows; t++) {
        const int64_t n = plim_document_of(&a->docs, a->first_row + t);
        const window x = window_at(a, t, a->docs.start_host[n] - a->first_row);
        fwd_row(a->m.dtype, ch, &x, taps, &a->w, plim_cpu_row(a->y, t));
    }
    return PLIM_OK;
}

/* ring[t % MOST_TAPS] holds the pre-activation gradients of row t, for the columns of one block. */
typedef double ring[MOST_TAPS][BLOCK];

/* Row t: dp enters the ring, dm leaves. end: rows below it belong to the same document. */
PLIM_CPU_INLINE void bwd(plim_dtype t, int64_t n, const plim_conv_silu_args *a, int64_t first, int64_t row,
                         int64_t start, int64_t end, ring r)
{
    const plim_dtype stat = t == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const int64_t taps = a->w.cols;
    const window x = window_at(a, row, start);
    const void *dy = plim_cpu_row(a->dy, row), *w = a->w.data;
    void *dm = plim_cpu_row(a->dm, row);
    double *dp = r[row % MOST_TAPS], sum[BLOCK];
    convolve(t, first, n, &x, taps, &a->w, sum);
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        const double slope = plim_cpu_silu_slope(sum[c], plim_cpu_sigmoid(sum[c]));
        const double g = plim_cpu_load(t, dy, first + c) * slope;
        dp[c] = t == PLIM_F64 ? g : (double)(float)g;
    }
    for (int64_t c = 0; c < n; c++) sum[c] = 0;
    for (int64_t s = 0; s < taps && row + s < end; s++) {
        const double *later = r[(row + s) % MOST_TAPS];
        for (int64_t c = 0; c < n; c++)
            sum[c] += plim_cpu_load(stat, w, (first + c) * a->w.pitch + taps - 1 - s) * later[c];
    }
    for (int64_t c = 0; c < n; c++) plim_cpu_store(t, dm, first + c, sum[c]);
}

PLIM_CPU_CLONES static void bwd_row(plim_dtype t, int64_t n, const plim_conv_silu_args *a, int64_t first,
                                    int64_t row, int64_t start, int64_t end, ring r)
{
    PLIM_CPU_BY_DTYPE(t, bwd, n, a, first, row, start, end, r);
}

static void bwd_columns(const plim_conv_silu_args *a, int64_t first, int64_t n)
{
    const int64_t rows = a->m.rows, taps = a->w.cols;
    const plim_dtype act = a->m.dtype, stat = plim_cpu_stat(act);
    ring r = {{0}};
    for (int64_t i = 0; i < taps - 1; i++)
        for (int64_t c = 0; c < n; c++)
            r[(rows + i) % MOST_TAPS][c] = plim_cpu_load(stat, plim_cpu_row(a->carry, i), first + c);
    for (int64_t t = rows - 1; t >= 0; t--) {
        const int64_t *start = a->docs.start_host + plim_document_of(&a->docs, a->first_row + t);
        bwd_row(act, n, a, first, t, start[0] - a->first_row, start[1] - a->first_row, r);
    }
    for (int64_t i = 0; i < taps - 1; i++)
        for (int64_t c = 0; c < n; c++)
            plim_cpu_store(stat, plim_cpu_row(a->carry, i), first + c, r[i % MOST_TAPS][c]);
}

plim_status plim_cpu_conv_silu_bwd(plim_device *d, const plim_conv_silu_args *a)
{
    const int64_t rows = a->m.rows, ch = a->m.cols, taps = a->w.cols, blocks = (ch + BLOCK - 1) / BLOCK;
    TRY(check(d, "conv_silu_bwd", a));
    TRY(plim_cpu_view(d, "conv_silu_bwd", "dy", a->dy, a->m.dtype, rows, ch));
    TRY(plim_cpu_view(d, "conv_silu_bwd", "dm", a->dm, a->m.dtype, rows, ch));
    TRY(plim_cpu_view(d, "conv_silu_bwd", "carry", a->carry, plim_cpu_stat(a->m.dtype), taps - 1, ch));
    if (rows == 0) return PLIM_OK;
#pragma omp parallel for schedule(dynamic) num_threads(plim_cpu_threads(d, rows *ch))
    for (int64_t i = 0; i < blocks; i++)
        bwd_columns(a, i * BLOCK, ch - i * BLOCK < BLOCK ? ch - i * BLOCK : BLOCK);
    return PLIM_OK;
}
