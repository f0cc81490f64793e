/* device.h - a CUDA card as a plim_device: three streams, events, libraries, and what launching a kernel
 * needs. For src/ops/cuda alone. */
#ifndef PLIM_OPS_CUDA_DEVICE_H
#define PLIM_OPS_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

extern "C" {
#include "base/context.h"
#include "ops/cuda/cuda.h"
#include "ops/machine.h"
}

#include "ops/cuda/libraries.h"

typedef __nv_bfloat16 bf16;

/* One cached choice of a matrix product's algorithm (gemm.cu). */
struct plim_gemm_cache;
/* Built attention plans (attention_cudnn.cu). */
struct plim_cudnn_plans;

/* PLIM_LAUNCH(kernel, grid, block, bytes of dynamic shared memory, stream)(arguments); a kernel with commas
 * in parentheses. */
#ifndef PLIM_LAUNCH
#define PLIM_LAUNCH(kernel, grid, block, bytes, stream) kernel<<<grid, block, bytes, stream>>>
#endif

#define PLIM_CUDA_PARTS 1024 /* of a sum over everything, added up in order */

struct plim_device {
    plim_ctx *ctx;
    int ordinal;
    cudaDeviceProp prop;
    cudaStream_t compute, out, in;
    cudaEvent_t ready;              /* compute reached a copy's start */
    cudaEvent_t event[PLIM_EVENTS]; /* a copy is done */
    plim_cuda_libraries lib;
    cublasLtHandle_t blas;
    void *gemm_workspace; /* the layout's */
    size_t gemm_workspace_bytes;
    struct plim_gemm_cache *gemm_cache;
    struct plim_cudnn_plans *cudnn;
    char libraries_text[160]; /* for the record of a run */
    void *adam_books;         /* two plim_adam_book (optimiser.cu) */
    double *partial_sums;     /* PLIM_CUDA_PARTS */
    bool deterministic;
    plim_attention_kernel attention;
    bool attention_hopper;   /* our attention kernels of capability 9.0 are built in and run here */
    char attention_why[160]; /* the attention engine in use, and why when it is not the one asked for */
};

/* Fails with what was being done and CUDA's own words; out of memory is PLIM_E_OOM_DEVICE and leaves no error
 * behind. */
plim_status plim_cuda_fail(plim_device *d, cudaError_t e, const char *what);

#define CUDA_TRY(d, call, what)                                                                              \
    do {                                                                                                     \
        cudaError_t cuda_try_e_ = (call);                                                                    \
        if (cuda_try_e_) return plim_cuda_fail((d), cuda_try_e_, (what));                                    \
    } while (0)

/* After a launch: what it reported. */
static inline plim_status plim_cuda_launched(plim_device *d, const char *kernel)
{
    cudaError_t e = cudaGetLastError();
    return e ? plim_cuda_fail(d, e, kernel) : PLIM_OK;
}

/* PLIM_E_SHAPE naming op and view unless t is rows x cols of dtype with pitch >= cols and memory. */
plim_status plim_cuda_view(plim_device *d, const char *op, const char *name, plim_tensor t, plim_dtype dtype,
                           int64_t rows, int64_t cols);

static inline unsigned plim_cuda_blocks(int64_t items, int64_t each)
{
    int64_t n = (items + each - 1) / each;
    return (unsigned)(n < 1 ? 1 : n > 2147483647 ? 2147483647 : n);
}

/* Conversions the kernels share. */
__device__ static inline float to_float(float x)
{
    return x;
}
__device__ static inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}
template <typename T> __device__ static inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* Two floats as neighbouring bf16 of one word, and back. */
__device__ static inline uint32_t pack(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t &>(pair);
}

__device__ static inline float2 unpack(uint32_t word)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

/* Sum over a warp, every lane gets it. */
__device__ static inline float warp_sum(float x)
{
    for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

__device__ static inline float warp_max(float x)
{
    for (int i = 16; i > 0; i >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

#endif
