// cross_entropy.cu - loss of rows of logits and, in the same visit, its gradient over the same memory.
#include "ops/cuda/elements.h"

#define THREADS 512

struct entropy {
    float *logits;
    int64_t pitch, vocab; /* in floats */
    const int32_t *labels;
    const float *weights;
    float scale;
    bool gradient;
    bool half; /* the gradient is bf16 */
    double *loss_sum;
};

/* One row: running max and sum in one read, then dlogit = weight scale (softmax - onehot) over the logits'
 * own bytes. The label's term is kept apart, so that softmax - 1 does not cancel.  A bf16 gradient is written
 * in place piece by piece: a piece is read whole by the block before its (lower) bytes are written. Launch: a
 * block a row, 512 threads.  Moves 8 B an element in (the second read mostly from cache), 2 or 4 B out.
 * Numerics: fp32 in a fixed order; the rows' losses are added with double atomics, so their order may vary in
 * the last bits of a double. */
static __global__ void __launch_bounds__(THREADS) entropy_kernel(entropy a)
{
    __shared__ float shared[33];
    int64_t row = blockIdx.x;
    float *z = a.logits + row * a.pitch;
    int32_t label = a.labels[row];
    float weight = a.weights[row], most = -INFINITY, sum = 0;
    bool valid = label >= 0 && label < a.vocab;
    for (int64_t j = threadIdx.x; j < a.vocab; j += THREADS) most = fmaxf(most, z[j]);
    most = block_max(most, shared);
    for (int64_t j = threadIdx.x; j < a.vocab; j += THREADS)
        if (j != label) sum += __expf(z[j] - most);
    float others = block_sum(sum, shared), at_label = valid ? z[label] : NAN;
    float all = others + __expf(at_label - most);
    if (threadIdx.x == 0) {
        double loss =
            at_label == most ? log1p((double)others) : log((double)all) - ((double)at_label - (double)most);
        atomicAdd(a.loss_sum, (double)weight * loss);
    }
    if (!a.gradient) return;
    float factor = weight * a.scale, share = factor / all;
    bf16 *half = (bf16 *)z;
    for (int64_t first = 0; first < a.vocab; first += 4 * THREADS) {
        float g[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t j = first + threadIdx.x + i * THREADS;
            if (j >= a.vocab) continue;
            g[i] = j == label ? -(others / all) * factor : __expf(z[j] - most) * share;
        }
        __syncthreads(); /* this piece is read; writing it touches no byte beyond it */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t j = first + threadIdx.x + i * THREADS;
            if (j >= a.vocab) continue;
            if (a.half) half[j] = __float2bfloat16_rn(g[i]);
            else z[j] = g[i];
        }
        __syncthreads();
    }
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
    if (!a->labels || !a->weights || !a->loss_sum || z.cols == 0 || z.rows > INT32_MAX)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "cross_entropy: %lld rows without columns, labels, weights or a loss",
                         (long long)z.rows);
    entropy e = {(float *)z.data, z.pitch,          z.cols, a->labels,  a->weights,
                 (float)a->scale, a->want_gradient, half,   a->loss_sum};
    PLIM_LAUNCH(entropy_kernel, (unsigned)z.rows, THREADS, 0, d->compute)(e);
    return plim_cuda_launched(d, "cross_entropy");
}
