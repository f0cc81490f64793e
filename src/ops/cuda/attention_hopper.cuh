// attention_hopper.cuh - what our attention kernels for capability 9.0 share: matrix products by a warp
// group, whose right operand, and mostly the left too, is read from shared memory by the tensor cores
// themselves.
//
// A tile is ROWS x DP bf16 in panels of 64 columns: ROWS x 128 bytes each, eight rows a 1,024-byte block
// whose 16-byte chunks are exchanged by the row's last three bits.  That is the hardware's 128-byte swizzle,
// so one tile serves as operand by rows and, transposed, by columns.
#ifndef PLIM_OPS_CUDA_ATTENTION_HOPPER_CUH
#define PLIM_OPS_CUDA_ATTENTION_HOPPER_CUH

#include "ops/cuda/attention_own.cuh"
#include "ops/cuda/instructions_hopper.h"

/* Built for another target, a kernel has no body; its limit of threads tells the host. */
#define HOPPER_THREADS 256
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER_BOUNDS __launch_bounds__(32)
#else
#define HOPPER_BOUNDS __launch_bounds__(HOPPER_THREADS, 1)
#endif

own_kernel *hopper_fwd_kernel(int padded_dim);
own_kernel *hopper_dkv_kernel(int padded_dim);
own_kernel *hopper_dq_kernel(int padded_dim);

#define HOPPER_TILE 64 /* keys of a tile */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int DP, int ROWS>
__device__ static inline void load_panels(uint32_t tile, const bf16 *head, int64_t pitch, int first, int rows,
                                          int dim)
{
    constexpr int CHUNKS = DP / 8, STEP = HOPPER_THREADS / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
    int row = threadIdx.x / CHUNKS;
    const bool inside = chunk * 8 < dim;
    const bf16 *from = head + (int64_t)(first + row) * pitch + chunk * 8;
    const uint32_t to = tile + chunk / 8 * ROWS * 128;
#pragma unroll
    for (int i = 0; i < ROWS / STEP; i++) {
        const bool there = inside && first + row < rows;
        cp16(to + row * 128 + (((chunk & 7) ^ (row & 7)) << 4), there ? from : head, there);
        row += STEP;
        from += STEP * pitch;
    }
}

/* The hardware's name for an operand: where it starts, bytes between panels, 1,024 between blocks of rows. */
__device__ static inline uint64_t operand(uint32_t at, int panel_bytes)
{
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* From the operand of a tile's first 16 columns to those of columns 16 k .. */
template <int ROWS> __device__ static inline uint64_t next_columns(uint64_t first, int k)
{
    return first + (uint64_t)((k / 4 * ROWS * 128 + k % 4 * 32) >> 4);
}

/* From the operand of a tile's first 16 rows to that of rows 16 k .., columns from panel on. */
template <int ROWS> __device__ static inline uint64_t next_rows(uint64_t first, int k, int panel)
{
    return first + (uint64_t)((panel * ROWS * 128 + k * 2048) >> 4);
}

/* c [64, 64] = rows of a times rows of b, over all DP columns. */
template <int DP, int A_ROWS>
__device__ static inline void group_scores(float (&c)[32], uint32_t a_tile, int a_row, uint32_t b_tile)
{
    const uint64_t a = afresh(operand(a_tile + (uint32_t)a_row * 128, 16)), b = afresh(operand(b_tile, 16));
#pragma unroll
    for (int k = 0; k < DP / 16; k++)
        group_multiply(c, next_columns<A_ROWS>(a, k), next_columns<HOPPER_TILE>(b, k), k > 0);
}

/* c [64, DP] += p b: p [64, ROWS] packed, b a tile of ROWS rows. */
template <int DP, int ROWS>
__device__ static inline void group_sum(float (&c)[DP / 128][64], const uint32_t (&p)[ROWS / 16][4],
                                        uint32_t b_tile)
{
    const uint64_t b = afresh(operand(b_tile, ROWS * 128));
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++)
#pragma unroll
        for (int half = 0; half < DP / 128; half++)
            group_multiply_own(c[half], p[k], next_rows<ROWS>(b, k, half * 2));
}

/* Scores as the left operand of the next product. */
template <int STEPS>
__device__ static inline void pack_scores(uint32_t (&p)[STEPS][4], const float (&s)[STEPS * 8])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) p[k][i] = pack(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
}

template <int N> __device__ static inline void clear_sums(float (&c)[N][64])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < 64; j++) c[i][j] = 0;
}

/* Row r (of two) of a sum, scaled and rounded, to a row of one head. */
template <int DP>
__device__ static inline void store_sums(const own_view &v, int row, int head, int dim,
                                         const float (&c)[DP / 128][64], int r, float scale)
{
#pragma unroll
    for (int half = 0; half < DP / 128; half++)
#pragma unroll
        for (int n = 0; n < 16; n++)
            store_pair(v, row, head, dim, half * 128 + n * 8 + (threadIdx.x & 3) * 2,
                       c[half][4 * n + 2 * r] * scale, c[half][4 * n + 2 * r + 1] * scale);
}

#endif
#endif
