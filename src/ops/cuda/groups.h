/* groups.h - what the delta mixer's small kernels share: groups of neighbouring columns, of which a few lanes
 * of a warp take one, and a sigmoid. */
#ifndef PLIM_OPS_CUDA_GROUPS_H
#define PLIM_OPS_CUDA_GROUPS_H

#include "ops/cuda/elements.h"

/* Without the slow path of an exact division: within 4 units in the last place, 0 where e^-x overflows. */
__device__ static inline float quick_sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* Lanes that share a group of dim columns read V at a time: a power of two, 32 at most. */
static inline int plim_cuda_group_lanes(int64_t dim, int V)
{
    int lanes = 1;
    while (lanes < 32 && (int64_t)lanes * V < dim) lanes *= 2;
    return lanes;
}

/* What a thread works on: columns first, first + step, ... below dim of the group at row, col. */
struct group_part {
    int64_t row, col;
    int first, step;
    bool inside; /* false: takes part in the sums only */
};

template <int V>
__device__ static inline group_part group_part_of(int64_t rows, int64_t cols, int64_t dim, int lanes)
{
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, item = thread / lanes,
            groups = cols / dim;
    group_part p;
    p.row = item / groups;
    p.col = (item - p.row * groups) * dim;
    p.first = (int)(thread % lanes) * V;
    p.step = lanes * V;
    p.inside = p.row < rows;
    return p;
}

/* Sum over the lanes of a group; every one of them gets it. */
__device__ static inline float group_sum(float x, int lanes)
{
    for (int i = lanes >> 1; i > 0; i >>= 1) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

/* Launches kernel<8> or kernel<1> with a group's lanes side by side; the kernel takes rows, cols, dim, lanes
 * last. */
#define PLIM_CUDA_LAUNCH_GROUPS(d, wide, kernel, rows, cols, dim, ...)                                       \
    do {                                                                                                     \
        int lanes_ = plim_cuda_group_lanes((dim), (wide) ? 8 : 1);                                           \
        unsigned blocks_ = plim_cuda_blocks((rows) * ((cols) / (dim)) * lanes_, PLIM_CUDA_THREADS);          \
        if (wide) {                                                                                          \
            PLIM_LAUNCH(kernel<8>, blocks_, PLIM_CUDA_THREADS, 0, (d)->compute)                              \
            (__VA_ARGS__, (rows), (cols), (dim), lanes_);                                                    \
        } else {                                                                                             \
            PLIM_LAUNCH(kernel<1>, blocks_, PLIM_CUDA_THREADS, 0, (d)->compute)                              \
            (__VA_ARGS__, (rows), (cols), (dim), lanes_);                                                    \
        }                                                                                                    \
    } while (0)

#endif
