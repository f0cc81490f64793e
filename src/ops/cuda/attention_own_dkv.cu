// attention_own_dkv.cu - the gradients of attention by its keys and values, on any card from 8.0 on.
#include "ops/cuda/attention_own.cuh"
#include "ops/cuda/attention_own_choice.h"

#include <limits.h>

/* c [32, COLS] += x^T y over the ROWS rows of the tiles: 32 columns of x from x_col on, COLS of y. */
template <int DP, int ROWS, int COLS>
__device__ static inline void multiply_columns(float c[2][COLS / 8][4], uint32_t x_tile, int x_col,
                                               uint32_t y_tile, int y_col)
{
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) {
        uint32_t a[2][4];
        load_a_t<64>(a[0], x_tile, k * 16, x_col / 8);
        load_a_t<64>(a[1], x_tile, k * 16, x_col / 8 + 2);
#pragma unroll
        for (int n = 0; n < COLS / 16; n++) {
            uint32_t b[4];
            load_b<DP>(b, y_tile, k * 16, y_col / 8 + n * 2);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma(c[m][n * 2], a[m], b[0], b[1]);
                mma(c[m][n * 2 + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* dv = sum over rows of P^T dout, dk = scale sum of (P (dP - delta))^T q, over the heads of the group; P =
 * exp(scale q k^T - lse), dP = dout v^T.  bf16 in and out, fp32 inside; P and P (dP - delta) are rounded to
 * bf16 before the products.
 * Launch: grid (key heads, key blocks of SIDE), the first keys first; 32 * WARPS threads; tiles of K, V, P
 * and P (dP - delta), and one or two of Q and dout, in shared memory.
 * Traffic: k, v, dk, dv once; q, dout once per key block, mostly from L2.
 * Numerics: same bits every run; sums in fp32 over the group's heads in order, then over rows in order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2. */
template <int DP, int SIDE, int WARPS>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_dkv_kernel(own_attention p)
{
    constexpr int THREADS = WARPS * 32, ACROSS = WARPS / (SIDE / 16), KEYS = SIDE / ACROSS;
    constexpr int COLS = DP / (WARPS / (SIDE / 32));
    constexpr uint32_t TILE = SIDE * DP * 2, SQUARE = SIDE * 128;
    unsigned char *memory = dynamic_panels();
    __shared__ int end_of[SIDE];
    static_assert(sizeof end_of <= OWN_DKV_STATIC_BYTES, "the choice counts this");
    const uint32_t k_tile = smem_address(memory), v_tile = k_tile + TILE, p_tile = v_tile + TILE,
                   ds_tile = p_tile + SQUARE, streams = ds_tile + SQUARE;
    const int kv_head = blockIdx.x, group = p.heads / p.kv_heads, block = blockIdx.y * SIDE;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + SIDE, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int i = threadIdx.x; i < SIDE; i += THREADS) end_of[i] = document_of(p, block + i).end;
    const int first_end = first == block ? document_of(p, first).end : 0;
    const int row_end = document_of(p, last).end;
    const int row_blocks = (row_end - block + SIDE - 1) / SIDE, steps = group * row_blocks;
    auto load_rows = [&](int step) {
        const uint32_t q_tile = streams + (p.stages == 2 ? step % 2 : 0) * 2 * TILE;
        const int64_t column = (int64_t)(kv_head * group + step / row_blocks) * p.dim;
        const int row = block + step % row_blocks * SIDE;
        load_tile<DP, SIDE, THREADS>(q_tile, p.q.data + column, p.q.pitch, row, p.rows, p.dim);
        load_tile<DP, SIDE, THREADS>(q_tile + TILE, p.dout.data + column, p.dout.pitch, row, p.rows, p.dim);
        cp_commit();
    };
    const int64_t kv_column = (int64_t)kv_head * p.dim;
    load_tile<DP, SIDE, THREADS>(k_tile, p.k.data + kv_column, p.k.pitch, block, p.rows, p.dim);
    load_tile<DP, SIDE, THREADS>(v_tile, p.v.data + kv_column, p.v.pitch, block, p.rows, p.dim);
    load_rows(0);
    const float scale = p.scale * OWN_LOG2E;
    const int row_in = warp / ACROSS * 16, key_in = warp % ACROSS * KEYS; /* of the square */
    const int sum_key = warp % (SIDE / 32) * 32, sum_col = warp / (SIDE / 32) * COLS;
    float dk[2][COLS / 8][4], dv[2][COLS / 8][4];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        clear<COLS / 8>(dk[m]);
        clear<COLS / 8>(dv[m]);
    }
    for (int step = 0; step < steps; step++) {
        const uint32_t q_tile = streams + (p.stages == 2 ? step % 2 : 0) * 2 * TILE;
        const int head = kv_head * group + step / row_blocks, row_0 = block + step % row_blocks * SIDE;
        const int row[2] = {row_0 + row_in + lane / 4, row_0 + row_in + lane / 4 + 8};
        float lse[2], delta[2], s[KEYS / 8][4], dp[KEYS / 8][4];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const bool there = row[r] < row_end;
            lse[r] = there ? p.lse[(int64_t)head * p.lse_pitch + row[r]] * OWN_LOG2E : 0;
            delta[r] = there ? p.delta[(int64_t)head * p.delta_pitch + row[r]] : 0;
        }
        clear<KEYS / 8>(s);
        clear<KEYS / 8>(dp);
        cp_wait<0>();
        __syncthreads();
        if (p.stages == 2 && step + 1 < steps) load_rows(step + 1);
        multiply_rows<DP, KEYS>(s, q_tile, row_in, k_tile, key_in);
        multiply_rows<DP, KEYS>(dp, q_tile + TILE, row_in, v_tile, key_in);
        const bool whole = row_0 >= block + SIDE && row_0 + SIDE <= first_end;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float x[2], y[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int key = key_in + n * 8 + (lane & 3) * 2 + i;
                    const bool seen = whole || (block + key <= row[r] && row[r] < end_of[key]);
                    x[i] = seen ? exp2_fast(s[n][2 * r + i] * scale - lse[r]) : 0;
                    y[i] = seen ? x[i] * (dp[n][2 * r + i] - delta[r]) : 0;
                }
                const int at_row = row_in + lane / 4 + 8 * r;
                const uint32_t at = tile_at<64>(at_row, key_in / 8 + n) + (lane & 3) * 4;
                store_shared(p_tile + at, pack(x[0], x[1]));
                store_shared(ds_tile + at, pack(y[0], y[1]));
            }
        __syncthreads();
        multiply_columns<DP, SIDE, COLS>(dv, p_tile, sum_key, q_tile + TILE, sum_col);
        multiply_columns<DP, SIDE, COLS>(dk, ds_tile, sum_key, q_tile, sum_col);
        if (p.stages == 1 && step + 1 < steps) {
            __syncthreads();
            load_rows(step + 1);
        }
    }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int key = sum_key + m * 16 + r * 8 + lane / 4;
            if (end_of[key] == 0) continue;
#pragma unroll
            for (int n = 0; n < COLS / 8; n++) {
                const int col = sum_col + n * 8 + (lane & 3) * 2;
                store_pair(p.dk, block + key, kv_head, p.dim, col, dk[m][n][2 * r] * p.scale,
                           dk[m][n][2 * r + 1] * p.scale);
                store_pair(p.dv, block + key, kv_head, p.dim, col, dv[m][n][2 * r], dv[m][n][2 * r + 1]);
            }
        }
}

own_kernel *own_dkv_kernel(int padded_dim, int rows)
{
    if (padded_dim == 64) return attention_dkv_kernel<64, 64, 8>;
    if (padded_dim == 128) return attention_dkv_kernel<128, 64, 8>;
    return rows == 64 ? attention_dkv_kernel<256, 64, 8> : attention_dkv_kernel<256, 32, 4>;
}
