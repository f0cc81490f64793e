// conv_silu.cu - the causal depthwise convolution of the delta mixer with its SiLU, tile by tile.
//
// A thread walks down a run of rows with the last K - 1 rows of its columns in registers; where a document
// starts it forgets them.  The gradient walks down as well and adds each row's pre-activation gradient to the
// rows before it, so that its first K - 1 gradients are computed again instead of exchanged.  What is
// computed for a row does not depend on the run or the tile it lies in.
#include "ops/cuda/groups.h"

/* Four columns a thread where rows are aligned: eight would leave too few registers for the rows in flight.
 */
enum { WIDE = 4 };

template <int V> __device__ static inline void read(const bf16 *p, float (&v)[V])
{
    if constexpr (V == WIDE) {
        const uint2 raw = *reinterpret_cast<const uint2 *>(p);
        const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 &>(raw.x)),
                     b = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 &>(raw.y));
        v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
    } else {
        load(p, v);
    }
}

template <int V> __device__ static inline void read(const float *p, float (&v)[V])
{
    if constexpr (V == WIDE) {
        const float4 a = *reinterpret_cast<const float4 *>(p);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    } else {
        load(p, v);
    }
}

template <int V> __device__ static inline void write(bf16 *p, const float (&v)[V])
{
    if constexpr (V == WIDE) {
        uint2 raw;
        reinterpret_cast<__nv_bfloat162 &>(raw.x) = __floats2bfloat162_rn(v[0], v[1]);
        reinterpret_cast<__nv_bfloat162 &>(raw.y) = __floats2bfloat162_rn(v[2], v[3]);
        *reinterpret_cast<uint2 *>(p) = raw;
    } else {
        store(p, v);
    }
}

/* Rows of a thread; rows read before the first of them is used. */
enum { THREADS = 128, RUN = 32, BATCH = 4, MOST_TAPS = 8 };

struct conv_view {
    rows_of<const bf16> m, history;
    rows_of<const float> w;
    const int64_t *start; /* of documents */
    int64_t documents, first_row, cols;
    int rows;
};

/* The document a walk is in: starts at row `first` of the tile, ends before row `end`; what lies further away
 * than the taps reach is as good as any. */
struct conv_document {
    int64_t n;
    int first, end;
};

__device__ static inline int near_tile(const conv_view &c, int64_t row)
{
    const int64_t low = -MOST_TAPS, high = (int64_t)c.rows + MOST_TAPS, at = row - c.first_row;
    return (int)(at < low ? low : at > high ? high : at);
}

__device__ static conv_document document_at(const conv_view &c, int row)
{
    int64_t low = 0, high = c.documents - 1, at = c.first_row + row;
    while (low < high) { /* the last document that starts at or before the row */
        int64_t middle = (low + high + 1) / 2;
        if (c.start[middle] <= at) low = middle;
        else high = middle - 1;
    }
    return {low, near_tile(c, c.start[low]), near_tile(c, c.start[low + 1])};
}

__device__ static inline void document_follow(const conv_view &c, conv_document &x, int row)
{
    while (row >= x.end && x.n + 1 < c.documents) { /* empty documents are passed over */
        x.n++;
        x.first = x.end;
        x.end = near_tile(c, c.start[x.n + 1]);
    }
}

/* The taps of columns col .. col + V - 1 and the rows of m before the walk's next row, oldest first. */
template <int K, int V> struct conv_walk {
    float w[K][V], past[K][V]; /* past[K - 1] is the row itself */

    __device__ void open(const conv_view &c, int row, int64_t col, int document_first)
    {
        for (int j = 0; j < K; j++)
            for (int v = 0; v < V; v++) w[j][v] = *c.w.at(col + v, j);
        for (int j = 0; j < K; j++)
            for (int v = 0; v < V; v++) past[j][v] = 0.0f;
        for (int j = 1; j < K; j++) {
            const int at = row - K + j;
            if (at < document_first) continue;
            read(at >= 0 ? c.m.at(at, col) : c.history.at(K - 1 + at, col), past[j]);
        }
    }

    /* Takes the next row in and leaves its pre-activation in pre. */
    __device__ void step(const float (&row)[V], bool starts, float (&pre)[V])
    {
        for (int j = 0; j + 1 < K; j++)
            for (int v = 0; v < V; v++) past[j][v] = past[j + 1][v];
        if (starts)
            for (int j = 0; j + 1 < K; j++)
                for (int v = 0; v < V; v++) past[j][v] = 0.0f;
        for (int v = 0; v < V; v++) past[K - 1][v] = row[v];
        for (int v = 0; v < V; v++) {
            pre[v] = 0.0f;
            for (int j = 0; j < K; j++) pre[v] = fmaf(w[j][v], past[j][v], pre[v]);
        }
    }
};

/* The same bits wherever it is compiled: no product is left to be fused. */
__device__ static inline float gradient_of(float pre, float dy)
{
    const float s = quick_sigmoid(pre), silu = __fmul_rn(pre, s);
    return __fmul_rn(dy, fmaf(silu, 1.0f - s, s));
}

/* y = silu(sum_j w_j m[t - K + 1 + j]) inside documents; bf16 in and out, w fp32, fp32 inside.
 * Launch: columns V a thread, runs of 32 rows.  Moves 4 B an element and 2 (K - 1) / 32 again.
 * One rounding on store. */
template <int K, int V>
static __global__ void __launch_bounds__(THREADS) conv_fwd_kernel(conv_view c, rows_of<bf16> y)
{
    const int64_t col = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const int row = (int)(blockIdx.y * blockDim.y + threadIdx.y) * RUN;
    if (col >= c.cols || row >= c.rows) return;
    conv_document doc = document_at(c, row);
    conv_walk<K, V> walk;
    walk.open(c, row, col, doc.first);
    const int end = row + RUN < c.rows ? row + RUN : c.rows;
    for (int first = row; first < end; first += BATCH) {
        float m[BATCH][V];
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (first + i < end) read(c.m.at(first + i, col), m[i]);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int t = first + i;
            float pre[V];
            if (t >= end) break;
            document_follow(c, doc, t);
            walk.step(m[i], t == doc.first, pre);
            for (int v = 0; v < V; v++) pre[v] *= quick_sigmoid(pre[v]);
            write(y.at(t, col), pre);
        }
    }
}

/* dm[t] = sum_s w[K - 1 - s] dp[t + s] inside documents, dp = dy silu'(pre); dp of rows after the tile from
 * carry. Launch: as above.  Moves 6 B an element and 4 (K - 1) / 32 again.  Sums in the order of s; one
 * rounding on store. */
template <int K, int V>
static __global__ void __launch_bounds__(THREADS)
    conv_bwd_kernel(conv_view c, rows_of<const bf16> dy, rows_of<const float> carry, rows_of<bf16> dm)
{
    const int64_t col = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const int row = (int)(blockIdx.y * blockDim.y + threadIdx.y) * RUN;
    if (col >= c.cols || row >= c.rows) return;
    conv_document doc = document_at(c, row);
    conv_walk<K, V> walk;
    float sum[K][V]; /* sum[s]: dm of row t - s, not yet complete */
    walk.open(c, row, col, doc.first);
    for (int s = 0; s < K; s++)
        for (int v = 0; v < V; v++) sum[s][v] = 0.0f;
    const int end = row + RUN < c.rows ? row + RUN : c.rows;
    for (int first = row; first < end + K - 1; first += BATCH) {
        float m[BATCH][V], g[BATCH][V];
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (first + i < c.rows && first + i < end + K - 1) {
                read(c.m.at(first + i, col), m[i]);
                read(dy.at(first + i, col), g[i]);
            }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            const int t = first + i;
            if (t >= end + K - 1) break;
            document_follow(c, doc, t);
            const bool later = t < doc.end; /* false after the last document of the sequence */
            if (t < c.rows) {
                float pre[V];
                walk.step(m[i], t == doc.first, pre);
                for (int v = 0; v < V; v++) g[i][v] = gradient_of(pre[v], g[i][v]);
            } else {
                for (int v = 0; v < V; v++) g[i][v] = 0.0f;
                if (later) read(carry.at(t - c.rows, col), g[i]);
            }
            for (int s = K - 1; s > 0; s--)
                for (int v = 0; v < V; v++) sum[s][v] = sum[s - 1][v];
            for (int v = 0; v < V; v++) sum[0][v] = 0.0f;
            for (int s = 0; s < K; s++)
                if (later && t - s >= doc.first)
                    for (int v = 0; v < V; v++) sum[s][v] = fmaf(walk.w[K - 1 - s][v], g[i][v], sum[s][v]);
            const int done = t - (K - 1);
            if (done >= row) write(dm.at(done, col), sum[K - 1]);
        }
    }
}

/* carry[i] = dp of row i, or of the row that carry held for it when the tile is shorter.
 * Launch: a thread a column, after the kernel above, which reads the old carry.  Moves 12 (K - 1) B a column.
 */
template <int K>
static __global__ void conv_carry_kernel(conv_view c, rows_of<const bf16> dy, rows_of<float> carry)
{
    const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= c.cols) return;
    float next[K];
    conv_document doc = document_at(c, 0);
    conv_walk<K, 1> walk;
    walk.open(c, 0, col, doc.first);
    for (int i = 0; i + 1 < K; i++) {
        if (i < c.rows) {
            float m[1], pre[1], g[1];
            document_follow(c, doc, i);
            read(c.m.at(i, col), m);
            walk.step(m, i == doc.first, pre);
            read(dy.at(i, col), g);
            next[i] = gradient_of(pre[0], g[0]);
        } else {
            next[i] = *carry.at(i - c.rows, col);
        }
    }
    for (int i = 0; i + 1 < K; i++) *carry.at(i, col) = next[i];
}

struct conv_launch {
    dim3 grid, block;
};

/* Columns over x, V a thread; runs of rows over y. */
static conv_launch launch_of(int64_t rows, int64_t cols, int V)
{
    unsigned x = 8;
    while (x < THREADS && x < cols / V) x *= 2;
    const dim3 block(x, THREADS / x);
    return {dim3(plim_cuda_blocks(cols / V, x), plim_cuda_blocks(rows, (int64_t)RUN * block.y)), block};
}

template <int K> static void launch_fwd(plim_device *d, const conv_view &c, rows_of<bf16> y, bool wide)
{
    const conv_launch l = launch_of(c.rows, c.cols, wide ? WIDE : 1);
    if (wide) PLIM_LAUNCH((conv_fwd_kernel<K, WIDE>), l.grid, l.block, 0, d->compute)(c, y);
    else PLIM_LAUNCH((conv_fwd_kernel<K, 1>), l.grid, l.block, 0, d->compute)(c, y);
}

template <int K>
static void launch_bwd(plim_device *d, const conv_view &c, rows_of<const bf16> dy, rows_of<float> carry,
                       rows_of<bf16> dm, bool wide)
{
    const conv_launch l = launch_of(c.rows, c.cols, wide ? WIDE : 1);
    const rows_of<const float> old = {carry.data, carry.pitch};
    if (wide) PLIM_LAUNCH((conv_bwd_kernel<K, WIDE>), l.grid, l.block, 0, d->compute)(c, dy, old, dm);
    else PLIM_LAUNCH((conv_bwd_kernel<K, 1>), l.grid, l.block, 0, d->compute)(c, dy, old, dm);
    if (K > 1)
        PLIM_LAUNCH(conv_carry_kernel<K>, plim_cuda_blocks(c.cols, 128), 128, 0, d->compute)(c, dy, carry);
}

#define BY_TAPS(taps, call, ...)                                                                             \
    switch (taps) {                                                                                          \
    case 1: call<1>(__VA_ARGS__); break;                                                                     \
    case 2: call<2>(__VA_ARGS__); break;                                                                     \
    case 3: call<3>(__VA_ARGS__); break;                                                                     \
    case 4: call<4>(__VA_ARGS__); break;                                                                     \
    case 5: call<5>(__VA_ARGS__); break;                                                                     \
    case 6: call<6>(__VA_ARGS__); break;                                                                     \
    case 7: call<7>(__VA_ARGS__); break;                                                                     \
    default: call<8>(__VA_ARGS__); break;                                                                    \
    }

static plim_status check(plim_device *d, const char *op, const plim_conv_silu_args *a, conv_view *out)
{
    const int64_t rows = a->m.rows, cols = a->m.cols, taps = a->w.cols;
    TRY(plim_cuda_act(d, op, a->m.dtype));
    if (taps < 1 || taps > MOST_TAPS)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %lld taps; 1 to %d work", op, (long long)taps, MOST_TAPS);
    TRY(plim_cuda_view(d, op, "m", a->m, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, op, "w", a->w, PLIM_F32, cols, taps));
    if (rows && a->first_row > 0 && taps > 1)
        TRY(plim_cuda_view(d, op, "history", a->history, PLIM_BF16, taps - 1, cols));
    if (a->first_row < 0 || a->first_row > a->docs.tokens - rows ||
        (rows && (a->docs.count < 1 || !a->docs.start)))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %lld rows from row %lld do not lie in a sequence of %lld",
                         op, (long long)rows, (long long)a->first_row, (long long)a->docs.tokens);
    if (rows > (int64_t)RUN * 65535)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: a tile of %lld rows; %lld work", op, (long long)rows,
                         (long long)RUN * 65535);
    *out = {rows_view<const bf16>(a->m),
            rows_view<const bf16>(a->history),
            rows_view<const float>(a->w),
            a->docs.start,
            a->docs.count,
            a->first_row,
            cols,
            (int)rows};
    return PLIM_OK;
}

static bool wide_inputs(const plim_conv_silu_args *a)
{
    return plim_cuda_wide(a->m) && (a->first_row == 0 || plim_cuda_wide(a->history));
}

plim_status plim_cuda_conv_silu_fwd(plim_device *d, const plim_conv_silu_args *a)
{
    conv_view c;
    TRY(check(d, "conv_silu_fwd", a, &c));
    TRY(plim_cuda_view(d, "conv_silu_fwd", "y", a->y, PLIM_BF16, c.rows, c.cols));
    if (c.rows == 0 || c.cols == 0) return PLIM_OK;
    const bool wide = wide_inputs(a) && plim_cuda_wide(a->y);
    BY_TAPS(a->w.cols, launch_fwd, d, c, rows_view<bf16>(a->y), wide);
    return plim_cuda_launched(d, "conv_silu_fwd");
}

plim_status plim_cuda_conv_silu_bwd(plim_device *d, const plim_conv_silu_args *a)
{
    conv_view c;
    const char *op = "conv_silu_bwd";
    TRY(check(d, op, a, &c));
    TRY(plim_cuda_view(d, op, "dy", a->dy, PLIM_BF16, c.rows, c.cols));
    TRY(plim_cuda_view(d, op, "dm", a->dm, PLIM_BF16, c.rows, c.cols));
    if (a->w.cols > 1) TRY(plim_cuda_view(d, op, "carry", a->carry, PLIM_F32, a->w.cols - 1, c.cols));
    if (c.rows == 0 || c.cols == 0) return PLIM_OK;
    const bool wide =
        wide_inputs(a) && plim_cuda_wide(a->dy) && plim_cuda_wide(a->dm) && plim_cuda_wide(a->carry);
    BY_TAPS(a->w.cols, launch_bwd, d, c, rows_view<const bf16>(a->dy), rows_view<float>(a->carry),
            rows_view<bf16>(a->dm), wide);
    return plim_cuda_launched(d, op);
}
