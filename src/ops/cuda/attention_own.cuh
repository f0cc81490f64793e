// attention_own.cuh - what our attention kernels share: tiles in shared memory, matrix instructions, masks.
//
// A tile is ROWS x DP bf16 in shared memory, DP a multiple of 64 (head sizes are zero-padded to it).  The
// 16-byte chunks of a row are exchanged by the row's last three bits, so that eight rows of one chunk column
// lie in different banks.
#ifndef PLIM_OPS_CUDA_ATTENTION_OWN_CUH
#define PLIM_OPS_CUDA_ATTENTION_OWN_CUH

#include <limits.h>

#include "ops/cuda/device.h"
#include "ops/cuda/instructions.h"

#define OWN_LOG2E 1.4426950408889634f
#define OWN_LN2   0.6931471805599453f

struct own_view {
    bf16 *data;
    int64_t pitch;
};

/* Arguments of every kernel.  Head h of a view is at column h * dim. */
struct own_attention {
    own_view q, k, v, o, dout, dq, dk, dv;
    float *lse;
    const float *delta;
    int64_t lse_pitch, delta_pitch;
    const int64_t *start;
    int64_t documents;
    int rows, heads, kv_heads, dim;
    int stages; /* buffers of the operand that streams by */
    float scale;
};

typedef void own_kernel(own_attention);
own_kernel *own_fwd_kernel(int padded_dim, int warps);
own_kernel *own_dkv_kernel(int padded_dim, int rows);
own_kernel *own_dq_kernel(int padded_dim, int warps, int keys);

/* Byte offset of a chunk of 8 elements of a tile. */
template <int DP> __device__ static inline uint32_t tile_at(int row, int chunk)
{
    return (uint32_t)(row * DP * 2 + ((chunk ^ (row & 7)) << 4));
}

/* Rows first .. of one head to a tile; rows past the sequence and columns past the head are zero. */
template <int DP, int ROWS, int THREADS>
__device__ static inline void load_tile(uint32_t tile, const bf16 *head, int64_t pitch, int first, int rows,
                                        int dim)
{
    constexpr int CHUNKS = DP / 8;
    static_assert(ROWS * CHUNKS % THREADS == 0, "whole passes");
    int chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS;
    const bool inside = chunk * 8 < dim;
    const bf16 *from = head + (int64_t)(first + row) * pitch + chunk * 8;
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / THREADS; i++) {
        const bool there = inside && first + row < rows;
        cp16(tile + tile_at<DP>(row, chunk), there ? from : head, there);
        row += THREADS / CHUNKS;
        from += THREADS / CHUNKS * pitch;
    }
}

/* Operand a: 16 rows, 16 columns from chunk on. */
template <int DP> __device__ static inline void load_a(uint32_t r[4], uint32_t tile, int row, int chunk)
{
    const int lane = threadIdx.x & 31;
    ldsm(r, tile + tile_at<DP>(row + (lane & 15), chunk + (lane >> 4)));
}

/* Operand a = tile^T: 16 columns from chunk on become its rows. */
template <int DP> __device__ static inline void load_a_t(uint32_t r[4], uint32_t tile, int row, int chunk)
{
    const int lane = threadIdx.x & 31;
    ldsm_t(r, tile + tile_at<DP>(row + (lane >> 4) * 8 + (lane & 7), chunk + ((lane >> 3) & 1)));
}

/* Operand b = tile^T: two b of 8 columns, that is 16 rows of the tile, over 16 of its columns. */
template <int DP> __device__ static inline void load_b_t(uint32_t r[4], uint32_t tile, int row, int chunk)
{
    const int lane = threadIdx.x & 31;
    ldsm(r, tile + tile_at<DP>(row + (lane >> 4) * 8 + (lane & 7), chunk + ((lane >> 3) & 1)));
}

/* Operand b = tile: two b of 8 columns, 16 rows of the tile deep. */
template <int DP> __device__ static inline void load_b(uint32_t r[4], uint32_t tile, int row, int chunk)
{
    const int lane = threadIdx.x & 31;
    ldsm_t(r, tile + tile_at<DP>(row + (lane & 15), chunk + (lane >> 4)));
}

/* c [16, N] += rows of a times rows of b, over all DP columns. */
template <int DP, int N>
__device__ static inline void multiply_rows(float c[N / 8][4], uint32_t a_tile, int a_row, uint32_t b_tile,
                                            int b_row)
{
#pragma unroll
    for (int k = 0; k < DP / 16; k++) {
        uint32_t a[4];
        load_a<DP>(a, a_tile, a_row, k * 2);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t b[4];
            load_b_t<DP>(b, b_tile, b_row + n * 16, k * 2);
            mma(c[n * 2], a, b[0], b[1]);
            mma(c[n * 2 + 1], a, b[2], b[3]);
        }
    }
}

/* c [16, DP] += p b: p [16, K] as sums of products hold it, rounded to bf16; b a tile of K rows. */
template <int DP, int K>
__device__ static inline void multiply_own(float c[DP / 8][4], const float p[K / 8][4], uint32_t b_tile)
{
#pragma unroll
    for (int k = 0; k < K / 16; k++) {
        const uint32_t a[4] = {pack(p[k * 2][0], p[k * 2][1]), pack(p[k * 2][2], p[k * 2][3]),
                               pack(p[k * 2 + 1][0], p[k * 2 + 1][1]),
                               pack(p[k * 2 + 1][2], p[k * 2 + 1][3])};
#pragma unroll
        for (int n = 0; n < DP / 16; n++) {
            uint32_t b[4];
            load_b<DP>(b, b_tile, k * 16, n * 2);
            mma(c[n * 2], a, b[0], b[1]);
            mma(c[n * 2 + 1], a, b[2], b[3]);
        }
    }
}

template <int N> __device__ static inline void clear(float c[N][4])
{
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) c[i][j] = 0;
}

/* The document of a row: rows first .. end - 1.  A row of none gets an empty one that no key is in. */
struct own_document {
    int first, end;
};

__device__ static inline own_document document_of(const own_attention &p, int row)
{
    if (row >= p.rows || row < p.start[0] || row >= p.start[p.documents]) return {INT_MAX, 0};
    int64_t low = 0, high = p.documents; /* start[low] <= row < start[high] */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (p.start[middle] <= row) low = middle;
        else high = middle;
    }
    return {(int)p.start[low], (int)p.start[low + 1]};
}

/* Two neighbouring columns of a row of one head, rounded. */
__device__ static inline void store_pair(const own_view &v, int row, int head, int dim, int col, float a,
                                         float b)
{
    if (col < dim) *(uint32_t *)(v.data + (int64_t)row * v.pitch + (int64_t)head * dim + col) = pack(a, b);
}

#endif
