// norms.cu - RMSNorm over rows, and head norm with rotary embedding.
#include "ops/cuda/elements.h"

/* y = x r (offset + w), r = 1 / sqrt(mean x^2 + eps) over n columns.
 * Launch: a block a row (and group of n columns), V elements a thread at a time.  Moves x twice in (the
 * second time from cache) and y once out.  fp32 sums in a fixed order; one rounding on store. */
template <int V>
static __global__ void rmsnorm_fwd_kernel(rows_of<const bf16> x, const float *w, rows_of<bf16> y, int64_t n,
                                          int groups, float eps, float offset)
{
    __shared__ float shared[33];
    int64_t row = blockIdx.x / groups, first = (int64_t)(blockIdx.x % groups) * n;
    float sum = 0, v[V], g[V];
    for (int64_t j = (int64_t)threadIdx.x * V; j < n; j += (int64_t)blockDim.x * V) {
        load(x.at(row, first + j), v);
        for (int i = 0; i < V; i++) sum += v[i] * v[i];
    }
    float r = 1.0f / sqrtf(block_sum(sum, shared) / (float)n + eps);
    for (int64_t j = (int64_t)threadIdx.x * V; j < n; j += (int64_t)blockDim.x * V) {
        load(x.at(row, first + j), v);
        load(w + j, g);
        for (int i = 0; i < V; i++) v[i] = v[i] * r * (offset + g[i]);
        store(y.at(row, first + j), v);
    }
}

/* dx = r (g - x r^2 mean(g x)), g = dy (offset + w); dx += that when accumulate.
 * Launch: as above.  Moves x and dy (again from cache), and dx once or twice. */
template <int V>
static __global__ void rmsnorm_bwd_kernel(rows_of<const bf16> x, const float *w, rows_of<const bf16> dy,
                                          rows_of<bf16> dx, int64_t n, int groups, float eps, float offset,
                                          bool accumulate)
{
    __shared__ float shared[33];
    int64_t row = blockIdx.x / groups, first = (int64_t)(blockIdx.x % groups) * n;
    float square = 0, dot = 0, v[V], g[V], d[V];
    for (int64_t j = (int64_t)threadIdx.x * V; j < n; j += (int64_t)blockDim.x * V) {
        load(x.at(row, first + j), v);
        load(w + j, g);
        load(dy.at(row, first + j), d);
        for (int i = 0; i < V; i++) {
            square += v[i] * v[i];
            dot += v[i] * d[i] * (offset + g[i]);
        }
    }
    float r = 1.0f / sqrtf(block_sum(square, shared) / (float)n + eps);
    float pull = block_sum(dot, shared) * r * r / (float)n;
    for (int64_t j = (int64_t)threadIdx.x * V; j < n; j += (int64_t)blockDim.x * V) {
        float old[V];
        load(x.at(row, first + j), v);
        load(w + j, g);
        load(dy.at(row, first + j), d);
        if (accumulate) load(dx.at(row, first + j), old);
        for (int i = 0; i < V; i++) {
            d[i] = r * (d[i] * (offset + g[i]) - v[i] * pull);
            if (accumulate) d[i] += old[i];
        }
        store(dx.at(row, first + j), d);
    }
}

/* Threads of a block for a row of n elements, V at a time: pure. */
static unsigned row_threads(int64_t n, int V)
{
    unsigned threads = 32;
    while (threads < 512 && (int64_t)threads * V < n) threads *= 2;
    return threads;
}

static plim_status check_norm(plim_device *d, const char *op, const plim_rmsnorm_args *a, int64_t *groups)
{
    int64_t n = a->w.cols, cols = a->x.cols;
    TRY(plim_cuda_act(d, op, a->x.dtype));
    TRY(plim_cuda_view(d, op, "x", a->x, PLIM_BF16, a->x.rows, cols));
    TRY(plim_cuda_view(d, op, "w", a->w, PLIM_F32, 1, n));
    if (n < 1 || cols % n || a->x.rows * (cols / n) > INT32_MAX)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %lld columns in groups of %lld", op, (long long)cols,
                         (long long)n);
    *groups = cols / n;
    return PLIM_OK;
}

plim_status plim_cuda_rmsnorm_fwd(plim_device *d, const plim_rmsnorm_args *a)
{
    int64_t groups = 0, rows = a->x.rows, n = a->w.cols;
    TRY(check_norm(d, "rmsnorm_fwd", a, &groups));
    TRY(plim_cuda_view(d, "rmsnorm_fwd", "y", a->y, PLIM_BF16, rows, a->x.cols));
    if (rows == 0 || groups == 0) return PLIM_OK;
    bool wide = plim_cuda_wide(a->x) && plim_cuda_wide(a->y) && plim_cuda_wide(a->w);
    float offset = a->unit_offset ? 1.0f : 0.0f;
    unsigned blocks = (unsigned)(rows * groups);
    rows_of<const bf16> x = rows_view<const bf16>(a->x);
    if (wide) {
        PLIM_LAUNCH(rmsnorm_fwd_kernel<8>, blocks, row_threads(n, 8), 0, d->compute)
        (x, (const float *)a->w.data, rows_view<bf16>(a->y), n, (int)groups, (float)a->eps, offset);
    } else {
        PLIM_LAUNCH(rmsnorm_fwd_kernel<1>, blocks, row_threads(n, 1), 0, d->compute)
        (x, (const float *)a->w.data, rows_view<bf16>(a->y), n, (int)groups, (float)a->eps, offset);
    }
    return plim_cuda_launched(d, "rmsnorm_fwd");
}

plim_status plim_cuda_rmsnorm_bwd(plim_device *d, const plim_rmsnorm_args *a)
{
    int64_t groups = 0, rows = a->x.rows, n = a->w.cols;
    TRY(check_norm(d, "rmsnorm_bwd", a, &groups));
    TRY(plim_cuda_view(d, "rmsnorm_bwd", "dy", a->dy, PLIM_BF16, rows, a->x.cols));
    TRY(plim_cuda_view(d, "rmsnorm_bwd", "dx", a->dx, PLIM_BF16, rows, a->x.cols));
    if (rows == 0 || groups == 0) return PLIM_OK;
    bool wide =
        plim_cuda_wide(a->x) && plim_cuda_wide(a->dy) && plim_cuda_wide(a->dx) && plim_cuda_wide(a->w);
    float offset = a->unit_offset ? 1.0f : 0.0f;
    unsigned blocks = (unsigned)(rows * groups);
    rows_of<const bf16> x = rows_view<const bf16>(a->x), dy = rows_view<const bf16>(a->dy);
    rows_of<bf16> dx = rows_view<bf16>(a->dx);
    if (wide) {
        PLIM_LAUNCH(rmsnorm_bwd_kernel<8>, blocks, row_threads(n, 8), 0, d->compute)
        (x, (const float *)a->w.data, dy, dx, n, (int)groups, (float)a->eps, offset, a->accumulate);
    } else {
        PLIM_LAUNCH(rmsnorm_bwd_kernel<1>, blocks, row_threads(n, 1), 0, d->compute)
        (x, (const float *)a->w.data, dy, dx, n, (int)groups, (float)a->eps, offset, a->accumulate);
    }
    return plim_cuda_launched(d, "rmsnorm_bwd");
}

/* ---- head norm and rotary ------------------------------------------------------------------------------ */

struct head_rope {
    rows_of<const bf16> x;
    const float *w; /* NULL: no norm */
    rows_of<const float> cos, sin;
    rows_of<const bf16> dy;
    rows_of<bf16> out; /* y; bwd: dx */
    int64_t stride, rows;
    int heads, dim, half;
    float eps, offset;
};

#define HEAD_MOST 256 /* columns of a head */
#define PER_LANE  (HEAD_MOST / 32)

/* Column of a lane's i-th element: both halves of a rotary pair must meet, so a lane owns column j < half and
 * j + half together.  The rotary block is columns 0 .. 2 half - 1; pairs are dealt out first, then the
 * rest. */
static __device__ inline float partner(const float *row, int j, int half)
{
    return row[j < half ? j + half : j - half];
}

/* y = rotate(x r (offset + w)) a head; bf16 in and out.
 * Launch: a warp a row and head; the head lies in shared memory between norm and rotation.  Moves 4 B an
 * element. */
static __global__ void head_rope_fwd_kernel(head_rope a)
{
    __shared__ float heads[8][HEAD_MOST];
    int64_t item = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int lane = threadIdx.x & 31, head = (int)(item % a.heads);
    int64_t row = item / a.heads;
    if (row >= a.rows) return;
    float *mine = heads[threadIdx.x >> 5], sum = 0;
    const bf16 *x = a.x.at(row, head * a.stride);
    for (int j = lane; j < a.dim; j += 32) {
        float v = __bfloat162float(x[j]);
        mine[j] = v;
        sum += v * v;
    }
    float r = a.w ? 1.0f / sqrtf(warp_sum(sum) / (float)a.dim + a.eps) : 1.0f;
    for (int j = lane; j < a.dim; j += 32)
        if (a.w) mine[j] *= r * (a.offset + a.w[j]);
    __syncwarp();
    bf16 *y = a.out.at(row, (int64_t)head * a.dim);
    for (int j = lane; j < a.dim; j += 32) {
        float v = mine[j];
        if (j < 2 * a.half) {
            int m = j < a.half ? j : j - a.half;
            float c = *a.cos.at(row, m), s = *a.sin.at(row, m), other = partner(mine, j, a.half);
            v = j < a.half ? v * c - other * s : v * c + other * s;
        }
        y[j] = __float2bfloat16_rn(v);
    }
}

/* dx = r (g - x r^2 mean(g x)), g = unrotate(dy) (offset + w); dx may be x: a warp reads its head before it
 * writes. Launch: as above.  Moves 6 B an element. */
static __global__ void head_rope_bwd_kernel(head_rope a)
{
    __shared__ float heads[8][HEAD_MOST];
    int64_t item = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int lane = threadIdx.x & 31, head = (int)(item % a.heads);
    int64_t row = item / a.heads;
    if (row >= a.rows) return;
    float *mine = heads[threadIdx.x >> 5], square = 0, dot = 0, g[PER_LANE], v[PER_LANE];
    const bf16 *x = a.x.at(row, head * a.stride), *dy = a.dy.at(row, (int64_t)head * a.dim);
    for (int j = lane; j < a.dim; j += 32) mine[j] = __bfloat162float(dy[j]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        int j = lane + 32 * i;
        g[i] = v[i] = 0;
        if (j >= a.dim) continue;
        float d = mine[j];
        if (j < 2 * a.half) {
            int m = j < a.half ? j : j - a.half;
            float c = *a.cos.at(row, m), s = *a.sin.at(row, m), other = partner(mine, j, a.half);
            d = j < a.half ? d * c + other * s : d * c - other * s;
        }
        g[i] = a.w ? d * (a.offset + a.w[j]) : d;
        v[i] = a.w ? __bfloat162float(x[j]) : 0;
        square += v[i] * v[i];
        dot += g[i] * v[i];
    }
    float r = 1, pull = 0;
    if (a.w) {
        r = 1.0f / sqrtf(warp_sum(square) / (float)a.dim + a.eps);
        pull = warp_sum(dot) * r * r / (float)a.dim;
    }
    bf16 *dx = a.out.at(row, head * a.stride);
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        int j = lane + 32 * i;
        if (j < a.dim) dx[j] = __float2bfloat16_rn(r * (g[i] - v[i] * pull));
    }
}

static plim_status head_args(plim_device *d, const char *op, const plim_head_rope_args *a, bool backward,
                             head_rope *out)
{
    plim_tensor packed = backward ? a->dy : a->y, strided = a->x;
    int64_t rows = strided.rows, need = a->heads > 0 ? (a->heads - 1) * a->head_stride + a->head_dim : 0;
    TRY(plim_cuda_act(d, op, strided.dtype));
    TRY(plim_cuda_view(d, op, backward ? "dy" : "y", packed, PLIM_BF16, rows, a->heads * a->head_dim));
    TRY(plim_cuda_view(d, op, "cos", a->cos, PLIM_F32, rows, a->cos.cols));
    TRY(plim_cuda_view(d, op, "sin", a->sin, PLIM_F32, rows, a->cos.cols));
    if (backward) TRY(plim_cuda_view(d, op, "dx", a->dx, PLIM_BF16, rows, strided.cols));
    if (a->heads < 1 || a->head_dim < 1 || a->head_dim > HEAD_MOST || a->head_stride < a->head_dim ||
        strided.cols < need || 2 * a->cos.cols > a->head_dim ||
        (a->w.data && (a->w.cols != a->head_dim || a->w.dtype != PLIM_F32)))
        return plim_fail(
            d->ctx, PLIM_E_SHAPE,
            "%s: %lld heads of %lld (at most %d) at stride %lld in %lld columns, %lld rotary pairs", op,
            (long long)a->heads, (long long)a->head_dim, HEAD_MOST, (long long)a->head_stride,
            (long long)strided.cols, (long long)a->cos.cols);
    *out = head_rope{rows_view<const bf16>(strided),
                     (const float *)a->w.data,
                     rows_view<const float>(a->cos),
                     rows_view<const float>(a->sin),
                     rows_view<const bf16>(a->dy),
                     rows_view<bf16>(backward ? a->dx : a->y),
                     a->head_stride,
                     rows,
                     (int)a->heads,
                     (int)a->head_dim,
                     (int)a->cos.cols,
                     (float)a->eps,
                     a->unit_offset ? 1.0f : 0.0f};
    return PLIM_OK;
}

plim_status plim_cuda_head_rope_fwd(plim_device *d, const plim_head_rope_args *a)
{
    head_rope h;
    TRY(head_args(d, "head_rope_fwd", a, false, &h));
    if (h.rows == 0) return PLIM_OK;
    PLIM_LAUNCH(head_rope_fwd_kernel, plim_cuda_blocks(h.rows * h.heads, 8), 256, 0, d->compute)(h);
    return plim_cuda_launched(d, "head_rope_fwd");
}

plim_status plim_cuda_head_rope_bwd(plim_device *d, const plim_head_rope_args *a)
{
    head_rope h;
    TRY(head_args(d, "head_rope_bwd", a, true, &h));
    if (h.rows == 0) return PLIM_OK;
    PLIM_LAUNCH(head_rope_bwd_kernel, plim_cuda_blocks(h.rows * h.heads, 8), 256, 0, d->compute)(h);
    return plim_cuda_launched(d, "head_rope_bwd");
}
