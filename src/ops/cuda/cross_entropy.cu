// cross_entropy.cu - loss of rows of logits and, in the same visit, its gradient over the same memory.
#include "ops/cuda/elements.h"

#define THREADS 512

struct entropy {
    float *logits;
    int64_t rows, pitch, vocab; /* pitch in floats */
    const int32_t *labels;
    const float *weights;
    float scale;
    bool gradient;
    bool half;    /* the gradient is bf16 */
    double *part; /* of the loss, one a block */
};

/* What a thread has seen of its row: the largest logit, and the sum of e^(z - most) without the label's term,
 * which is kept apart so that softmax - 1 does not cancel. */
struct softmax_sum {
    float most, others;
};

template <int V>
__device__ static inline void see(softmax_sum &s, const float (&z)[V], int64_t j, int32_t label)
{
    float most = s.most;
    for (int i = 0; i < V; i++) most = fmaxf(most, z[i]);
    if (most > s.most) {
        s.others *= __expf(s.most - most);
        s.most = most;
    }
    for (int i = 0; i < V; i++)
        if (j + i != label && z[i] != -INFINITY) s.others += __expf(z[i] - most);
}

/* Rows blockIdx.x, + gridDim.x, ...: max and sum in one read, then dlogit = weight scale (softmax - onehot)
 * over the logits' own bytes.  A bf16 gradient is written in place piece by piece: a piece's lower bytes hold
 * logits of this piece or of earlier ones, which the whole block has read when it writes.
 * Launch: at most PLIM_CUDA_PARTS blocks of 512 threads, V columns each.  Moves 8 B an element in, 2 or 4 B
 * out. Numerics: fp32, the rows' losses in double, both in a fixed order. */
template <int V> static __global__ void __launch_bounds__(THREADS) entropy_kernel(entropy a)
{
    __shared__ float shared[33];
    const int64_t thread = (int64_t)threadIdx.x * V;
    double loss_sum = 0;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float *z = a.logits + row * a.pitch, x[V];
        const int32_t label = a.labels[row];
        softmax_sum s = {-INFINITY, 0.0f};
        for (int64_t j = thread; j < a.vocab; j += V * THREADS) {
            load<V>(z + j, x);
            see<V>(s, x, j, label);
        }
        const float most = block_max(s.most, shared);
        if (s.most < most) s.others *= __expf(s.most - most);
        const float others = block_sum(s.others, shared);
        const float at_label = label >= 0 && label < a.vocab ? z[label] : NAN, weight = a.weights[row];
        const float all = others + __expf(at_label - most);
        if (threadIdx.x == 0)
            loss_sum += weight * (at_label == most && most > -INFINITY
                                      ? log1p((double)others)
                                      : log((double)all) - ((double)at_label - (double)most));
        if (!a.gradient) continue;
        const float factor = weight * a.scale, share = factor / all, wrong = -(others / all) * factor;
        bf16 *half = (bf16 *)z;
        __syncthreads(); /* everybody has z[label] */
        for (int64_t first = 0; first < a.vocab; first += V * THREADS) {
            const int64_t j = first + thread;
            const bool mine = j < a.vocab;
            if (mine) load<V>(z + j, x);
            if (a.half) __syncthreads(); /* the piece is read */
            if (!mine) continue;
            for (int i = 0; i < V; i++) x[i] = j + i == label ? wrong : __expf(x[i] - most) * share;
            if (a.half) store<V>(half + j, x);
            else store<V>(z + j, x);
        }
    }
    if (threadIdx.x == 0) a.part[blockIdx.x] = loss_sum;
}

/* *sum += part[0] + ... in order.  Launch: one warp. */
static __global__ void add_losses_kernel(const double *part, int count, double *sum)
{
    double total = 0;
    for (int i = threadIdx.x; i < count; i += 32) total += part[i];
    for (int i = 16; i > 0; i >>= 1) total += __shfl_xor_sync(0xffffffffu, total, i);
    if (threadIdx.x == 0) *sum += total;
}

plim_status plim_cuda_cross_entropy(plim_device *d, const plim_cross_entropy_args *a)
{
    plim_tensor z = a->logits, g = a->dlogits;
    TRY(plim_cuda_view(d, "cross_entropy", "logits", z, PLIM_F32, z.rows, z.cols));
    bool half = g.dtype == PLIM_BF16;
    if (a->want_gradient) {
        TRY(plim_cuda_view(d, "cross_entropy", "dlogits", g, half ? PLIM_BF16 : PLIM_F32, z.rows, z.cols));
        if (g.data != z.data || g.pitch != z.pitch * (half ? 2 : 1))
            return plim_fail(d->ctx, PLIM_E_SHAPE,
                             "cross_entropy: dlogits must be a view of logits, row by row");
    }
    if (z.rows == 0) return PLIM_OK;
    if (!a->labels || !a->weights || !a->loss_sum || z.cols == 0)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "cross_entropy: %lld rows without columns, labels, weights or a loss",
                         (long long)z.rows);
    entropy e = {.logits = (float *)z.data,
                 .rows = z.rows,
                 .pitch = z.pitch,
                 .vocab = z.cols,
                 .labels = a->labels,
                 .weights = a->weights,
                 .scale = (float)a->scale,
                 .gradient = a->want_gradient,
                 .half = half,
                 .part = d->partial_sums};
    const unsigned blocks = (unsigned)(z.rows < PLIM_CUDA_PARTS ? z.rows : PLIM_CUDA_PARTS);
    if (plim_cuda_wide(z)) PLIM_LAUNCH(entropy_kernel<8>, blocks, THREADS, 0, d->compute)(e);
    else PLIM_LAUNCH(entropy_kernel<1>, blocks, THREADS, 0, d->compute)(e);
    TRY(plim_cuda_launched(d, "cross_entropy"));
    PLIM_LAUNCH(add_losses_kernel, 1, 32, 0, d->compute)(d->partial_sums, (int)blocks, a->loss_sum);
    return plim_cuda_launched(d, "cross_entropy");
}
