// attention_own_dq.cu - the gradient of attention by its queries, on any card from 8.0 on.
#include "ops/cuda/attention_own.cuh"

#include <limits.h>

/* dq = scale sum over keys of P (dP - delta) k;  P = exp(scale q k^T - lse), dP = dout v^T. bf16 in and
 * out, fp32 inside; P (dP - delta) is rounded to bf16 before the last product.
 * Launch: grid (heads, row blocks of 16 * WARPS), the last rows first; 32 * WARPS threads; tiles of Q,
 * dout, V and one or two of K in shared memory.
 * Traffic: q, dout, dq once; k, v once per row block and head, mostly from L2.
 * Numerics: same bits every run; sums in fp32, in key order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2, split so that nothing is added atomically. */
template <int DP, int WARPS, int KEYS>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_dq_kernel(own_attention p)
{
    constexpr int ROWS = WARPS * 16, THREADS = WARPS * 32;
    constexpr uint32_t KEY_BYTES = KEYS * DP * 2;
    unsigned char *memory = dynamic_panels();
    const uint32_t q_tile = smem_address(memory), dout_tile = q_tile + ROWS * DP * 2,
                   v_tile = dout_tile + ROWS * DP * 2, k_tiles = v_tile + KEY_BYTES;
    const int head = blockIdx.x, kv_head = head / (p.heads / p.kv_heads);
    const int block = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + ROWS, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int row[2] = {block + warp * 16 + lane / 4, block + warp * 16 + lane / 4 + 8};
    const int low[2] = {document_of(p, row[0]).first, document_of(p, row[1]).first};
    const int key_first = document_of(p, first).first, last_low = document_of(p, last).first;
    const int64_t column = (int64_t)head * p.dim;
    const bf16 *k = p.k.data + (int64_t)kv_head * p.dim, *v = p.v.data + (int64_t)kv_head * p.dim;
    load_tile<DP, ROWS, THREADS>(q_tile, p.q.data + column, p.q.pitch, block, p.rows, p.dim);
    load_tile<DP, ROWS, THREADS>(dout_tile, p.dout.data + column, p.dout.pitch, block, p.rows, p.dim);
    load_tile<DP, KEYS, THREADS>(k_tiles, k, p.k.pitch, key_first, p.rows, p.dim);
    load_tile<DP, KEYS, THREADS>(v_tile, v, p.v.pitch, key_first, p.rows, p.dim);
    cp_commit();
    const float scale = p.scale * OWN_LOG2E;
    float lse[2], delta[2], dq[DP / 8][4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool there = low[r] != INT_MAX;
        lse[r] = there ? p.lse[(int64_t)head * p.lse_pitch + row[r]] * OWN_LOG2E : 0;
        delta[r] = there ? p.delta[(int64_t)head * p.delta_pitch + row[r]] : 0;
    }
    clear<DP / 8>(dq);
    for (int key = key_first, step = 0; key <= last; key += KEYS, step++) {
        const uint32_t k_tile = k_tiles + (p.stages == 2 ? step % 2 : 0) * KEY_BYTES;
        const bool more = key + KEYS <= last;
        float s[KEYS / 8][4], dp[KEYS / 8][4];
        clear<KEYS / 8>(s);
        clear<KEYS / 8>(dp);
        cp_wait<0>();
        __syncthreads();
        if (p.stages == 2 && more)
            load_tile<DP, KEYS, THREADS>(k_tiles + (step + 1) % 2 * KEY_BYTES, k, p.k.pitch, key + KEYS,
                                         p.rows, p.dim);
        cp_commit();
        multiply_rows<DP, KEYS>(dp, dout_tile, warp * 16, v_tile, 0);
        __syncthreads(); /* V is done with */
        if (more) load_tile<DP, KEYS, THREADS>(v_tile, v, p.v.pitch, key + KEYS, p.rows, p.dim);
        cp_commit();
        multiply_rows<DP, KEYS>(s, q_tile, warp * 16, k_tile, 0);
        const bool whole = key >= last_low && key + KEYS - 1 <= block + warp * 16;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = key + n * 8 + (lane & 3) * 2 + (i & 1), r = i >> 1;
                const bool seen = whole || (at >= low[r] && at <= row[r]);
                s[n][i] = seen ? exp2_fast(s[n][i] * scale - lse[r]) * (dp[n][i] - delta[r]) : 0;
            }
        multiply_own<DP, KEYS>(dq, s, k_tile);
        if (p.stages == 1 && more) {
            __syncthreads();
            load_tile<DP, KEYS, THREADS>(k_tiles, k, p.k.pitch, key + KEYS, p.rows, p.dim);
            cp_commit();
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if (low[r] == INT_MAX) continue;
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
            store_pair(p.dq, row[r], head, p.dim, n * 8 + (lane & 3) * 2, dq[n][2 * r] * p.scale,
                       dq[n][2 * r + 1] * p.scale);
    }
}

own_kernel *own_dq_kernel(int padded_dim, int warps, int keys)
{
    if (padded_dim == 64) return attention_dq_kernel<64, 4, 64>;
    if (padded_dim == 128) return attention_dq_kernel<128, 4, 64>;
    if (warps == 4) return attention_dq_kernel<256, 4, 32>;
    return keys == 64 ? attention_dq_kernel<256, 8, 64> : attention_dq_kernel<256, 8, 32>;
}
