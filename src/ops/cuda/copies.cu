// copies.cu - copies with a cast, sums, biases, rows by index, fills, dropout.
#include "ops/cuda/elements.h"

extern "C" {
#include "base/random_core.h"
}

#define PLIM_NORMAL_TABLE_AT static __device__ const
#include "base/normal_table.h"

enum { COPY, ADD, SCALE };

struct copy_how {
    int kind;
    float alpha; /* SCALE */
};

/* y = x, y += x or y = alpha x; any of bf16 and f32.
 * Launch: rows x columns, 8 a thread.  Moves each element once in and once out (twice in when it adds). */
template <int V, typename X, typename Y>
static __device__ void copy_rows(rows_of<const X> x, rows_of<Y> y, copy_how how, int64_t rows, int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float a[V], b[V];
        load(x.at(i, j), a);
        if (how.kind == ADD) {
            load(y.at(i, j), b);
            for (int v = 0; v < V; v++) a[v] += b[v];
        } else if (how.kind == SCALE) {
            for (int v = 0; v < V; v++) a[v] *= how.alpha;
        }
        store(y.at(i, j), a);
    }
}

template <int V>
static __global__ void copy_bf16_bf16(rows_of<const bf16> x, rows_of<bf16> y, copy_how how, int64_t rows,
                                      int64_t cols)
{
    copy_rows<V>(x, y, how, rows, cols);
}
template <int V>
static __global__ void copy_bf16_f32(rows_of<const bf16> x, rows_of<float> y, copy_how how, int64_t rows,
                                     int64_t cols)
{
    copy_rows<V>(x, y, how, rows, cols);
}
template <int V>
static __global__ void copy_f32_bf16(rows_of<const float> x, rows_of<bf16> y, copy_how how, int64_t rows,
                                     int64_t cols)
{
    copy_rows<V>(x, y, how, rows, cols);
}
template <int V>
static __global__ void copy_f32_f32(rows_of<const float> x, rows_of<float> y, copy_how how, int64_t rows,
                                    int64_t cols)
{
    copy_rows<V>(x, y, how, rows, cols);
}

static plim_status move(plim_device *d, const char *op, plim_tensor x, plim_tensor y, copy_how how)
{
    int64_t rows = y.rows, cols = y.cols;
    bool from16 = x.dtype == PLIM_BF16, to16 = y.dtype == PLIM_BF16;
    if ((!from16 && x.dtype != PLIM_F32) || (!to16 && y.dtype != PLIM_F32))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s to %s", op, plim_dtype_name(x.dtype),
                         plim_dtype_name(y.dtype));
    TRY(plim_cuda_view(d, op, "x", x, x.dtype, rows, cols));
    TRY(plim_cuda_view(d, op, "y", y, y.dtype, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    bool wide = plim_cuda_wide(x) && plim_cuda_wide(y);
    if (from16 && to16)
        PLIM_CUDA_LAUNCH_ROWS(d, wide, copy_bf16_bf16, rows, cols, rows_view<const bf16>(x),
                              rows_view<bf16>(y), how);
    else if (from16)
        PLIM_CUDA_LAUNCH_ROWS(d, wide, copy_bf16_f32, rows, cols, rows_view<const bf16>(x),
                              rows_view<float>(y), how);
    else if (to16)
        PLIM_CUDA_LAUNCH_ROWS(d, wide, copy_f32_bf16, rows, cols, rows_view<const float>(x),
                              rows_view<bf16>(y), how);
    else
        PLIM_CUDA_LAUNCH_ROWS(d, wide, copy_f32_f32, rows, cols, rows_view<const float>(x),
                              rows_view<float>(y), how);
    return plim_cuda_launched(d, op);
}

plim_status plim_cuda_copy(plim_device *d, plim_tensor x, plim_tensor y)
{
    return move(d, "copy", x, y, {COPY, 0});
}

plim_status plim_cuda_add(plim_device *d, plim_tensor x, plim_tensor y)
{
    return move(d, "add", x, y, {ADD, 0});
}

plim_status plim_cuda_scaled_copy(plim_device *d, double alpha, plim_tensor x, plim_tensor y)
{
    return move(d, "scaled_copy", x, y, {SCALE, (float)alpha});
}

/* y += bias on every row; bias f32 or bf16.  Launch: rows x columns. */
template <int V>
static __global__ void bias_bf16_kernel(rows_of<const float> bias, rows_of<bf16> y, int64_t rows,
                                        int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float a[V], b[V];
        load(bias.at(0, j), a);
        load(y.at(i, j), b);
        for (int v = 0; v < V; v++) b[v] += a[v];
        store(y.at(i, j), b);
    }
}
template <int V>
static __global__ void bias_f32_kernel(rows_of<const float> bias, rows_of<float> y, int64_t rows,
                                       int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float a[V], b[V];
        load(bias.at(0, j), a);
        load(y.at(i, j), b);
        for (int v = 0; v < V; v++) b[v] += a[v];
        store(y.at(i, j), b);
    }
}

plim_status plim_cuda_add_bias(plim_device *d, plim_tensor bias, plim_tensor y)
{
    TRY(plim_cuda_view(d, "add_bias", "bias", bias, PLIM_F32, 1, y.cols));
    if (y.rows == 0 || y.cols == 0) return PLIM_OK;
    bool wide = plim_cuda_wide(bias) && plim_cuda_wide(y);
    if (y.dtype == PLIM_BF16)
        PLIM_CUDA_LAUNCH_ROWS(d, wide, bias_bf16_kernel, y.rows, y.cols, rows_view<const float>(bias),
                              rows_view<bf16>(y));
    else if (y.dtype == PLIM_F32)
        PLIM_CUDA_LAUNCH_ROWS(d, wide, bias_f32_kernel, y.rows, y.cols, rows_view<const float>(bias),
                              rows_view<float>(y));
    else return plim_fail(d->ctx, PLIM_E_SHAPE, "add_bias: y is %s", plim_dtype_name(y.dtype));
    return plim_cuda_launched(d, "add_bias");
}

/* ---- rows by index ------------------------------------------------------------------------------------- */

/* gather: dst[i] = src[index[i]]; scatter: dst[index[i]] = src[i].  src may be pinned host memory.
 * Launch: rows x columns.  Moves each element once in, once out. */
template <int V>
static __global__ void rows_kernel(rows_of<const bf16> src, rows_of<bf16> dst, const int32_t *index,
                                   bool scatter, int64_t rows, int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float v[V];
        int64_t other = index[i];
        load(src.at(scatter ? i : other, j), v);
        store(dst.at(scatter ? other : i, j), v);
    }
}

static plim_status move_rows(plim_device *d, const char *op, const plim_rows_args *a, bool scatter)
{
    int64_t rows = scatter ? a->src.rows : a->dst.rows, cols = a->dst.cols;
    TRY(plim_cuda_act(d, op, a->dst.dtype));
    if (a->src.dtype != PLIM_BF16 || a->src.cols != cols || (rows > 0 && !a->index))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: src is %s with %lld columns, dst has %lld", op,
                         plim_dtype_name(a->src.dtype), (long long)a->src.cols, (long long)cols);
    if (rows == 0 || cols == 0) return PLIM_OK;
    bool wide = plim_cuda_wide(a->src) && plim_cuda_wide(a->dst);
    PLIM_CUDA_LAUNCH_ROWS(d, wide, rows_kernel, rows, cols, rows_view<const bf16>(a->src),
                          rows_view<bf16>(a->dst), a->index, scatter);
    return plim_cuda_launched(d, op);
}

plim_status plim_cuda_gather_rows(plim_device *d, const plim_rows_args *a)
{
    return move_rows(d, "gather_rows", a, false);
}

plim_status plim_cuda_scatter_rows(plim_device *d, const plim_rows_args *a)
{
    return move_rows(d, "scatter_rows", a, true);
}

/* ---- fill ---------------------------------------------------------------------------------------------- */

struct fill_values {
    int kind;
    plim_random r;
    float a, b; /* constant; mean, sigma; low, width */
};

/* Element row * cols + col of the stream, as random_core.h defines it, each step rounded.
 * Launch: a thread a Philox block of four elements, grid-stride.  Numerics: the CPU's bits. */
template <typename T>
static __global__ void fill_kernel(rows_of<T> x, fill_values f, int64_t rows, int64_t cols)
{
    int64_t count = rows * cols, blocks = (count + 3) / 4;
    for (int64_t b = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; b < blocks;
         b += (int64_t)gridDim.x * blockDim.x) {
        uint32_t word[4] = {0, 0, 0, 0};
        if (f.kind != PLIM_FILL_CONSTANT) plim_random_block(f.r, (uint64_t)b, word);
        int64_t row = b * 4 / cols, col = b * 4 - row * cols;
        for (int k = 0; k < 4 && b * 4 + k < count; k++) {
            float v = f.a;
            if (f.kind == PLIM_FILL_NORMAL)
                v = __fadd_rn(
                    __fmul_rn(__fmul_rn((float)plim_normal_q21(word[k], plim_normal_table), 0x1p-21f), f.b),
                    f.a);
            else if (f.kind == PLIM_FILL_UNIFORM)
                v = __fadd_rn(__fmul_rn(__fmul_rn((float)(word[k] >> 8), 0x1p-24f), f.b), f.a);
            *x.at(row, col) = from_float<T>(v);
            if (++col == cols) col = 0, row++;
        }
    }
}

plim_status plim_cuda_fill(plim_device *d, const plim_fill_args *a)
{
    int64_t count = a->x.rows * a->x.cols;
    float width = a->kind == PLIM_FILL_UNIFORM ? (float)a->b - (float)a->a : (float)a->b;
    fill_values f = {(int)a->kind, {a->seed, a->stream}, (float)a->a, width};
    if (count == 0) return PLIM_OK;
    unsigned blocks = plim_cuda_blocks(count, 4 * 256);
    if (blocks > 65536) blocks = 65536;
    const bool zeros = a->kind == PLIM_FILL_CONSTANT && a->a == 0;
    if (a->x.dtype == PLIM_BF16) {
        PLIM_LAUNCH(fill_kernel<bf16>, blocks, 256, 0, d->compute)
        (rows_view<bf16>(a->x), f, a->x.rows, a->x.cols);
    } else if (a->x.dtype == PLIM_F32) {
        PLIM_LAUNCH(fill_kernel<float>, blocks, 256, 0, d->compute)
        (rows_view<float>(a->x), f, a->x.rows, a->x.cols);
    } else if (a->x.dtype == PLIM_U8 && zeros) {
        CUDA_TRY(d,
                 cudaMemset2DAsync(a->x.data, (size_t)a->x.pitch, 0, (size_t)a->x.cols, (size_t)a->x.rows,
                                   d->compute),
                 "fill");
    } else {
        return plim_fail(d->ctx, PLIM_E_SHAPE, "fill: x is %s", plim_dtype_name(a->x.dtype));
    }
    return plim_cuda_launched(d, "fill");
}

/* y = x mask / (1 - p); the mask of an element by its index in the whole tensor.
 * Launch: a thread four elements of a row.  Moves 4 B an element. */
static __global__ void dropout_kernel(rows_of<const bf16> x, rows_of<bf16> y, plim_random r,
                                      int64_t first_row, float p, double scale, int64_t rows, int64_t cols)
{
    int64_t quads = (cols + 3) / 4, item = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t row = item / quads;
    if (row >= rows) return;
    for (int64_t col = (item - row * quads) * 4, end = col + 4 < cols ? col + 4 : cols; col < end; col++) {
        float u = plim_random_float(r, (uint64_t)(first_row + row) * (uint64_t)cols + (uint64_t)col);
        float v = (double)u >= (double)p ? (float)((double)__bfloat162float(*x.at(row, col)) * scale) : 0.0f;
        *y.at(row, col) = __float2bfloat16_rn(v);
    }
}

plim_status plim_cuda_dropout(plim_device *d, const plim_dropout_args *a)
{
    int64_t rows = a->y.rows, cols = a->y.cols;
    TRY(plim_cuda_act(d, "dropout", a->y.dtype));
    TRY(plim_cuda_view(d, "dropout", "x", a->x, PLIM_BF16, rows, cols));
    if (!(a->p >= 0 && a->p < 1) || a->first_row < 0)
        return plim_fail(d->ctx, PLIM_E_RANGE, "dropout: p is %g; 0 to below 1 works", a->p);
    if (rows == 0 || cols == 0) return PLIM_OK;
    if (a->p == 0) return a->x.data == a->y.data ? PLIM_OK : plim_cuda_copy(d, a->x, a->y);
    PLIM_LAUNCH(dropout_kernel, plim_cuda_blocks(rows * ((cols + 3) / 4), 256), 256, 0, d->compute)
    (rows_view<const bf16>(a->x), rows_view<bf16>(a->y), plim_random{a->seed, a->stream}, a->first_row,
     (float)a->p, 1.0 / (1.0 - a->p), rows, cols);
    return plim_cuda_launched(d, "dropout");
}
