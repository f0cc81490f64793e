// optimiser.cu - AdamW with 8- or 32-bit states, and the square of a gradient's norm.
#include "ops/cuda/elements.h"

extern "C" {
#include "ops/adam_codebook.h"
}

#include <math.h>

struct adam {
    float *param;
    const float *grad;
    float *m, *v; /* 32-bit states */
    uint8_t *code_m, *code_v;
    float *max_m, *max_v;
    int64_t n;
    float rate, beta1, beta2, eps, decay, scale, c1, c2;
};

/* One element: the step with the fresh moments; returns them. */
static __device__ inline void update(const adam &a, int64_t i, float *m, float *v)
{
    float g = a.grad[i] * a.scale, p = a.param[i];
    *m = a.beta1 * *m + (1.0f - a.beta1) * g;
    *v = a.beta2 * *v + (1.0f - a.beta2) * g * g;
    p = p - a.rate * (a.c2 / a.c1) * *m / (sqrtf(*v) + a.c2 * a.eps);
    a.param[i] = p * (1.0f - a.rate * a.decay);
}

/* States in 32 bits.  Launch: a thread an element.  Moves 28 B an element. */
static __global__ void adam32_kernel(adam a)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n) return;
    float m = a.m[i], v = a.v[i];
    update(a, i, &m, &v);
    a.m[i] = m;
    a.v[i] = v;
}

/* States in 8 bits: a block of 256 elements shares a maximum.  The code books lie in shared memory, made by
 * the host. A block whose old maximum is 0 holds zeros whatever its codes. Launch: 256 threads, one state
 * block each.  Moves 16 B an element.  Same bits every run. */
static __global__ void adam8_kernel(adam a, const plim_adam_book *books)
{
    __shared__ plim_adam_book book_m, book_v;
    __shared__ float shared[33];
    for (unsigned i = threadIdx.x; i < sizeof(plim_adam_book) / 4; i += blockDim.x) {
        ((float *)&book_m)[i] = ((const float *)&books[0])[i];
        ((float *)&book_v)[i] = ((const float *)&books[1])[i];
    }
    __syncthreads();
    int64_t i = (int64_t)blockIdx.x * PLIM_ADAM_BLOCK + threadIdx.x;
    float m = 0, v = 0;
    bool live = i < a.n;
    if (live) {
        float max_m = a.max_m[blockIdx.x], max_v = a.max_v[blockIdx.x];
        m = max_m == 0 ? 0 : book_m.value[a.code_m[i]] * max_m;
        v = max_v == 0 ? 0 : book_v.value[a.code_v[i]] * max_v;
        update(a, i, &m, &v);
    }
    float max_m = block_max(live ? fabsf(m) : 0.0f, shared), max_v = block_max(live ? v : 0.0f, shared);
    if (live) {
        a.code_m[i] = max_m > 0 ? plim_adam_code_m(&book_m, m, max_m) : PLIM_ADAM_ZERO_SIGNED;
        a.code_v[i] = max_v > 0 ? plim_adam_code_v(&book_v, v, max_v) : PLIM_ADAM_ZERO_UNSIGNED;
    }
    if (threadIdx.x == 0) {
        a.max_m[blockIdx.x] = max_m;
        a.max_v[blockIdx.x] = max_v;
    }
}

plim_status plim_cuda_adamw(plim_device *d, const plim_adamw_args *a)
{
    const char *op = "adamw";
    int64_t n = a->param.rows * a->param.cols;
    bool flat = (a->param.rows <= 1 || a->param.pitch == a->param.cols) &&
                (a->grad.rows <= 1 || a->grad.pitch == a->grad.cols);
    bool eight = a->m.dtype == PLIM_U8;
    if (a->param.dtype != PLIM_F32 || a->grad.dtype != PLIM_F32 || a->grad.rows * a->grad.cols != n ||
        !flat || a->m.rows * a->m.cols != n || a->v.rows * a->v.cols != n ||
        (eight && (!a->m_max.data || !a->v_max.data)))
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: parameters, gradients and states must be flat and of %lld elements", op,
                         (long long)n);
    if (a->step < 1 || !(a->beta1 >= 0 && a->beta1 < 1) || !(a->beta2 >= 0 && a->beta2 < 1))
        return plim_fail(d->ctx, PLIM_E_RANGE, "%s: step %lld, betas %g and %g", op, (long long)a->step,
                         a->beta1, a->beta2);
    if (n == 0) return PLIM_OK;
    adam k = {(float *)a->param.data,
              (const float *)a->grad.data,
              (float *)a->m.data,
              (float *)a->v.data,
              (uint8_t *)a->m.data,
              (uint8_t *)a->v.data,
              (float *)a->m_max.data,
              (float *)a->v_max.data,
              n,
              (float)a->learning_rate,
              (float)a->beta1,
              (float)a->beta2,
              (float)a->eps,
              (float)a->weight_decay,
              (float)a->grad_scale,
              (float)(1 - pow(a->beta1, (double)a->step)),
              (float)sqrt(1 - pow(a->beta2, (double)a->step))};
    if (eight) {
        PLIM_LAUNCH(adam8_kernel, plim_cuda_blocks(n, PLIM_ADAM_BLOCK), PLIM_ADAM_BLOCK, 0, d->compute)
        (k, (const plim_adam_book *)d->adam_books);
    } else {
        PLIM_LAUNCH(adam32_kernel, plim_cuda_blocks(n, 256), 256, 0, d->compute)(k);
    }
    return plim_cuda_launched(d, op);
}

plim_status plim_cuda_optimiser_open(plim_device *d)
{
    plim_adam_book books[2];
    plim_adam_book_make(&books[0], true);
    plim_adam_book_make(&books[1], false);
    CUDA_TRY(d, cudaMalloc(&d->adam_books, sizeof books), "the optimiser's code books");
    CUDA_TRY(d, cudaMalloc(&d->partial_sums, PLIM_CUDA_PARTS * sizeof(double)), "partial sums");
    CUDA_TRY(d, cudaMemcpy(d->adam_books, books, sizeof books, cudaMemcpyHostToDevice),
             "the optimiser's code books");
    return PLIM_OK;
}

void plim_cuda_optimiser_close(plim_device *d)
{
    if (d->adam_books) cudaFree(d->adam_books);
    if (d->partial_sums) cudaFree(d->partial_sums);
}

/* ---- square sum
 * -----------------------------------------------------------------------------------------------------------
 */

static __device__ inline double block_sum_double(double x, double *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    double sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++) sum += shared[i];
    return sum;
}

/* Part b of PLIM_CUDA_PARTS of the sum of squares.  Launch: one block a part.  Moves 4 B an element.  Fixed
 * order. */
static __global__ void squares_kernel(rows_of<const float> x, int64_t rows, int64_t cols, double *part)
{
    __shared__ double shared[32];
    double sum = 0;
    int64_t n = rows * cols;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = rows == 1 ? 0 : i / cols;
        double v = (double)*x.at(row, i - row * cols);
        sum += v * v;
    }
    sum = block_sum_double(sum, shared);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

static __global__ void add_parts_kernel(const double *part, double *sum)
{
    double total = 0;
    for (int i = 0; i < PLIM_CUDA_PARTS; i++) total += part[i];
    *sum += total;
}

plim_status plim_cuda_square_sum(plim_device *d, const plim_square_sum_args *a)
{
    TRY(plim_cuda_view(d, "square_sum", "x", a->x, PLIM_F32, a->x.rows, a->x.cols));
    if (a->x.rows == 0 || a->x.cols == 0) return PLIM_OK;
    PLIM_LAUNCH(squares_kernel, PLIM_CUDA_PARTS, 256, 0, d->compute)
    (rows_view<const float>(a->x), a->x.rows, a->x.cols, d->partial_sums);
    TRY(plim_cuda_launched(d, "square_sum"));
    PLIM_LAUNCH(add_parts_kernel, 1, 1, 0, d->compute)(d->partial_sums, a->sum);
    return plim_cuda_launched(d, "square_sum");
}
