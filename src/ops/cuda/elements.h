/* elements.h - how kernels read and write rows: V elements at a time, 16 bytes where the addresses allow. */
#ifndef PLIM_OPS_CUDA_ELEMENTS_H
#define PLIM_OPS_CUDA_ELEMENTS_H

#include "ops/cuda/device.h"

#define PLIM_CUDA_THREADS 256

template <int V> __device__ static inline void load(const bf16 *p, float (&v)[V])
{
    if constexpr (V == 8) {
        uint4 raw = *reinterpret_cast<const uint4 *>(p);
        const __nv_bfloat162 *pair = reinterpret_cast<const __nv_bfloat162 *>(&raw);
        for (int i = 0; i < 4; i++) {
            float2 f = __bfloat1622float2(pair[i]);
            v[2 * i] = f.x;
            v[2 * i + 1] = f.y;
        }
    } else {
        for (int i = 0; i < V; i++) v[i] = __bfloat162float(p[i]);
    }
}

template <int V> __device__ static inline void store(bf16 *p, const float (&v)[V])
{
    if constexpr (V == 8) {
        uint4 raw;
        __nv_bfloat162 *pair = reinterpret_cast<__nv_bfloat162 *>(&raw);
        for (int i = 0; i < 4; i++) pair[i] = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
        *reinterpret_cast<uint4 *>(p) = raw;
    } else {
        for (int i = 0; i < V; i++) p[i] = __float2bfloat16_rn(v[i]);
    }
}

template <int V> __device__ static inline void load(const float *p, float (&v)[V])
{
    if constexpr (V == 8) {
        float4 a = reinterpret_cast<const float4 *>(p)[0], b = reinterpret_cast<const float4 *>(p)[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
        for (int i = 0; i < V; i++) v[i] = p[i];
    }
}

template <int V> __device__ static inline void store(float *p, const float (&v)[V])
{
    if constexpr (V == 8) {
        reinterpret_cast<float4 *>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
        reinterpret_cast<float4 *>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        for (int i = 0; i < V; i++) p[i] = v[i];
    }
}

/* A row-major view inside a kernel. */
template <typename T> struct rows_of {
    T *data;
    int64_t pitch;
    __device__ T *at(int64_t row, int64_t col) const
    {
        return data + row * pitch + col;
    }
};

template <typename T> static inline rows_of<T> rows_view(plim_tensor t)
{
    return rows_of<T>{(T *)t.data, t.pitch};
}

/* Whether rows of a view can be read 8 elements (and so 16 bytes) at a time. */
static inline bool plim_cuda_wide(plim_tensor t)
{
    size_t bytes = plim_dtype_bytes(t.dtype);
    return !t.data || ((uintptr_t)t.data % 16 == 0 && (size_t)t.pitch * bytes % 16 == 0 && t.cols % 8 == 0);
}

/* Blocks of 256 threads: x walks units of a row, y the rows of the block. */
struct plim_rows_launch {
    dim3 grid, block;
};

static inline plim_rows_launch plim_cuda_rows_launch(int64_t rows, int64_t units)
{
    unsigned x = 8;
    while (x < PLIM_CUDA_THREADS && x < units) x *= 2;
    unsigned y = PLIM_CUDA_THREADS / x;
    return {dim3(plim_cuda_blocks(rows, y)), dim3(x, y)};
}

/* Sum over a block of up to 1,024 threads in a fixed order; every thread gets it.  shared: 33 floats. */
__device__ static inline float block_sum(float x, float *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = warp_sum(x);
    __syncthreads(); /* the last use of shared is over */
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    if (warp == 0) {
        float y = warp_sum(lane < warps ? shared[lane] : 0.0f);
        if (lane == 0) shared[32] = y;
    }
    __syncthreads();
    return shared[32];
}

__device__ static inline float block_max(float x, float *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    if (warp == 0) {
        float y = warp_max(lane < warps ? shared[lane] : -INFINITY);
        if (lane == 0) shared[32] = y;
    }
    __syncthreads();
    return shared[32];
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}

/* PLIM_E_SHAPE unless the dtype is the column's: activations are BF16 on a card. */
static inline plim_status plim_cuda_act(plim_device *d, const char *op, plim_dtype act)
{
    if (act == PLIM_BF16) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: activations in %s; a card computes in BF16", op,
                     plim_dtype_name(act));
}

/* Launches kernel<8> or kernel<1> over rows of `units` columns. */
#define PLIM_CUDA_LAUNCH_ROWS(d, wide, kernel, rows, cols, ...)                                              \
    do {                                                                                                     \
        if (wide) {                                                                                          \
            plim_rows_launch launch_ = plim_cuda_rows_launch((rows), (cols) / 8);                            \
            PLIM_LAUNCH(kernel<8>, launch_.grid, launch_.block, 0, (d)->compute)                             \
            (__VA_ARGS__, (rows), (cols));                                                                   \
        } else {                                                                                             \
            plim_rows_launch launch_ = plim_cuda_rows_launch((rows), (cols));                                \
            PLIM_LAUNCH(kernel<1>, launch_.grid, launch_.block, 0, (d)->compute)                             \
            (__VA_ARGS__, (rows), (cols));                                                                   \
        }                                                                                                    \
    } while (0)

/* Inside such a kernel: this thread's row, and its columns V at a time. */
#define PLIM_CUDA_EACH(row, col, rows, cols, V)                                                              \
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;                                            \
    if (row < (rows))                                                                                        \
        for (int64_t col = (int64_t)threadIdx.x * (V); col < (cols); col += (int64_t)blockDim.x * (V))

#endif
