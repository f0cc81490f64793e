// attention_hopper_dq.cu - the gradient of attention by its queries, on capability 9.0.
#include "ops/cuda/attention_hopper.cuh"

#include <limits.h>

#define KEYS HOPPER_TILE

/* dq = scale sum over keys of P (dP - delta) k;  P = exp(scale q k^T - lse), dP = dout v^T. bf16 in and
 * out, fp32 inside; P (dP - delta) is rounded to bf16 before the last product.
 * Launch: grid (heads, row blocks of 128), the last rows first; 256 threads, 64 rows a warp group; Q, dout,
 * V and two of K in shared memory.
 * Traffic: q, dout, dq once; k, v once per row block and head, mostly from L2.
 * Numerics: same bits every run; sums in fp32, in key order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2, split so that nothing is added atomically. */
template <int DP> static __global__ void HOPPER_BOUNDS hopper_attention_dq_kernel(own_attention p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr uint32_t TILE = KEYS * DP * 2;
    unsigned char *memory = dynamic_panels();
    const uint32_t q_tile = smem_address(memory), dout_tile = q_tile + 2 * TILE,
                   v_tile = dout_tile + 2 * TILE, k_tiles = v_tile + TILE;
    const int head = blockIdx.x, kv_head = head / (p.heads / p.kv_heads);
    const int block = (int)(gridDim.y - 1 - blockIdx.y) * 128;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + 128, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, warp_row = (threadIdx.x >> 5) * 16;
    const int group_row = (threadIdx.x >> 7) * 64;
    const int row[2] = {block + warp_row + lane / 4, block + warp_row + lane / 4 + 8};
    const int low[2] = {document_of(p, row[0]).first, document_of(p, row[1]).first};
    const int key_first = document_of(p, first).first, last_low = document_of(p, last).first;
    const int tiles = (last - key_first) / KEYS + 1;
    const int64_t column = (int64_t)head * p.dim;
    const bf16 *k = p.k.data + (int64_t)kv_head * p.dim, *v = p.v.data + (int64_t)kv_head * p.dim;
    auto load = [&](uint32_t to, const bf16 *from, int64_t pitch, int tile) {
        if (tile < tiles) load_panels<DP, KEYS>(to, from, pitch, key_first + tile * KEYS, p.rows, p.dim);
        cp_commit();
    };
    load_panels<DP, 128>(q_tile, p.q.data + column, p.q.pitch, block, p.rows, p.dim);
    load_panels<DP, 128>(dout_tile, p.dout.data + column, p.dout.pitch, block, p.rows, p.dim);
    load(k_tiles, k, p.k.pitch, 0);
    load(v_tile, v, p.v.pitch, 0);
    load(k_tiles + TILE, k, p.k.pitch, 1);
    const float scale = p.scale * OWN_LOG2E;
    float lse[2], delta[2], dq[DP / 128][64], s[32], dp[32];
    uint32_t packed[4][4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool there = low[r] != INT_MAX;
        lse[r] = there ? p.lse[head * p.lse_pitch + row[r]] * OWN_LOG2E : 0;
        delta[r] = there ? p.delta[head * p.delta_pitch + row[r]] : 0;
    }
    auto gradient = [&](int tile) { /* s becomes P (dP - delta) */
                                    const int key = key_first + tile * KEYS;
#pragma unroll
                                    for (int i = 0; i < 32; i++)
                                        s[i] = exp2_fast(s[i] * scale - lse[(i >> 1) & 1]) *
                                               (dp[i] - delta[(i >> 1) & 1]);
                                    if (key >= last_low && key + KEYS - 1 <= block + warp_row) return;
#pragma unroll
                                    for (int i = 0; i < 32; i++) {
                                        const int at = key + i / 4 * 8 + (lane & 3) * 2 + (i & 1),
                                                  r = (i >> 1) & 1;
                                        if (at < low[r] || at > row[r]) s[i] = 0;
                                    }
    };
    clear_sums(dq);
    panels_ready<1>();
    group_begin();
    group_scores<DP, 128>(dp, dout_tile, group_row, v_tile);
    group_scores<DP, 128>(s, q_tile, group_row, k_tiles);
    group_commit();
    group_wait<0>();
    settle(dp);
    settle(s);
    __syncthreads(); /* V is done with */
    load(v_tile, v, p.v.pitch, 1);
    gradient(0);
    pack_scores(packed, s);
    for (int tile = 0; tile + 1 < tiles; tile++) {
        const uint32_t k_tile = k_tiles + tile % 2 * TILE, k_next = k_tiles + (tile + 1) % 2 * TILE;
        /* in flight: V and K of the next tile, in this order but for the first */
        if (tile == 0) panels_ready<0>();
        else panels_ready<1>();
        group_begin();
        group_scores<DP, 128>(dp, dout_tile, group_row, v_tile);
        group_commit();
        panels_ready<0>();
        group_scores<DP, 128>(s, q_tile, group_row, k_next);
        group_commit();
        group_sum<DP, KEYS>(dq, packed, k_tile);
        group_commit();
        group_wait<1>();
        settle(dp);
        settle(s);
        __syncthreads(); /* V is done with */
        load(v_tile, v, p.v.pitch, tile + 2);
        gradient(tile + 1);
        settle(s);
        group_wait<0>();
#pragma unroll
        for (int half = 0; half < DP / 128; half++) settle(dq[half]);
        __syncthreads(); /* K is done with */
        load(k_tile, k, p.k.pitch, tile + 2);
        pack_scores(packed, s);
    }
    group_begin();
    group_sum<DP, KEYS>(dq, packed, k_tiles + (tiles - 1) % 2 * TILE);
    group_commit();
    group_wait<0>();
#pragma unroll
    for (int half = 0; half < DP / 128; half++) settle(dq[half]);
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (low[r] != INT_MAX) store_sums<DP>(p.dq, row[r], head, p.dim, dq, r, p.scale);
#endif
}

own_kernel *hopper_dq_kernel(int padded_dim)
{
    return padded_dim == 128 ? hopper_attention_dq_kernel<128> : hopper_attention_dq_kernel<256>;
}
