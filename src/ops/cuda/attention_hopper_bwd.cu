// attention_hopper_bwd.cu - the gradients of attention on capability 9.0: dk and dv by key blocks, dq by row
// blocks.
#include "ops/cuda/attention_hopper.cuh"

#include <limits.h>

#define SIDE HOPPER_TILE

/* dv = sum over rows of P^T dout, dk = scale sum of (P (dP - delta))^T q, over the heads of the group;
 * P = exp(scale q k^T - lse), dP = dout v^T.  bf16 in and out, fp32 inside; P and P (dP - delta) are rounded
 * to bf16 before the products. Launch: grid (key heads, key blocks of 64), the first keys first; 256 threads;
 * K, V and two each of Q and dout in shared memory.  Scores are made transposed, so that they are a left
 * operand where they are: warp group 0 makes P^T and sums dv, warp group 1 makes dP^T and sums dk, and gets P
 * through shared memory in fp32. Traffic: k, v, dk, dv once; q, dout once per key block, mostly from L2.
 * Numerics: same bits every run; sums in fp32 over the group's heads in order, then over rows in order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2. */
template <int DP> static __global__ void HOPPER_BOUNDS hopper_attention_dkv_kernel(own_attention p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr uint32_t TILE = SIDE * DP * 2;
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ float exchange[SIDE * SIDE], lse_of[2][SIDE], delta_of[2][SIDE];
    const uint32_t k_tile = smem_address(memory), v_tile = k_tile + TILE, streams = v_tile + TILE;
    const int kv_head = blockIdx.x, group = p.heads / p.kv_heads, block = blockIdx.y * SIDE;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + SIDE, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, mine = threadIdx.x & 127;
    const bool makes_p = threadIdx.x < 128;
    const int key[2] = {block + mine / 32 * 16 + lane / 4, block + mine / 32 * 16 + lane / 4 + 8};
    const int end[2] = {document_of(p, key[0]).end, document_of(p, key[1]).end};
    const int first_end = first == block ? document_of(p, first).end : 0;
    const int row_end = document_of(p, last).end;
    const int row_blocks = (row_end - block + SIDE - 1) / SIDE, steps = group * row_blocks;
    auto load_rows = [&](int step) {
        const uint32_t q_tile = streams + step % 2 * 2 * TILE;
        const int head = kv_head * group + step / row_blocks, row = block + step % row_blocks * SIDE;
        const int64_t column = (int64_t)head * p.dim;
        load_panels<DP, SIDE>(q_tile, p.q.data + column, p.q.pitch, row, p.rows, p.dim);
        load_panels<DP, SIDE>(q_tile + TILE, p.dout.data + column, p.dout.pitch, row, p.rows, p.dim);
        copies_commit();
        if (threadIdx.x >= 2 * SIDE) return;
        const int i = threadIdx.x % SIDE;
        const bool there = row + i < row_end;
        if (threadIdx.x < SIDE)
            lse_of[step % 2][i] = there ? p.lse[head * p.lse_pitch + row + i] * OWN_LOG2E : 0;
        else delta_of[step % 2][i] = there ? p.delta[head * p.delta_pitch + row + i] : 0;
    };
    const int64_t kv_column = (int64_t)kv_head * p.dim;
    load_panels<DP, SIDE>(k_tile, p.k.data + kv_column, p.k.pitch, block, p.rows, p.dim);
    load_panels<DP, SIDE>(v_tile, p.v.data + kv_column, p.v.pitch, block, p.rows, p.dim);
    load_rows(0);
    const float scale = p.scale * OWN_LOG2E;
    const uint32_t left = makes_p ? k_tile : v_tile;
    float sums[DP / 128][64], s[32];
    uint32_t packed[4][4];
    clear_sums(sums);
    for (int step = 0; step < steps; step++) {
        const uint32_t q_tile = streams + step % 2 * 2 * TILE, dout_tile = q_tile + TILE;
        const int row_0 = block + step % row_blocks * SIDE;
        panels_ready();
        if (step + 1 < steps) load_rows(step + 1);
        group_begin();
        group_scores<DP, SIDE>(s, left, 0, makes_p ? q_tile : dout_tile);
        group_commit();
        group_wait<0>();
        settle(s);
        const float *statistic = makes_p ? lse_of[step % 2] : delta_of[step % 2];
        if (makes_p) {
            const bool whole = row_0 >= block + SIDE && row_0 + SIDE <= first_end;
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const int at = i / 4 * 8 + (lane & 3) * 2 + (i & 1), r = (i >> 1) & 1;
                const bool seen = whole || (key[r] <= row_0 + at && row_0 + at < end[r]);
                s[i] = seen ? exp2_fast(s[i] * scale - statistic[at]) : 0;
                exchange[i * 128 + mine] = s[i];
            }
            asm volatile("bar.arrive 1, 256;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll
            for (int i = 0; i < 32; i++) {
                const int at = i / 4 * 8 + (lane & 3) * 2 + (i & 1);
                s[i] = exchange[i * 128 + mine] * (s[i] - statistic[at]);
            }
        }
        pack_scores(packed, s);
        group_begin();
        group_sum<DP>(sums, packed, makes_p ? dout_tile : q_tile);
        group_commit();
        group_wait<0>();
#pragma unroll
        for (int half = 0; half < DP / 128; half++) settle(sums[half]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (end[r] > 0)
            store_sums<DP>(makes_p ? p.dv : p.dk, key[r], kv_head, p.dim, sums, r, makes_p ? 1 : p.scale);
#endif
}

/* dq = scale sum over keys of P (dP - delta) k;  P = exp(scale q k^T - lse), dP = dout v^T.
 * bf16 in and out, fp32 inside; P (dP - delta) is rounded to bf16 before the last product.
 * Launch: grid (heads, row blocks of 128), the last rows first; 256 threads, 64 rows a warp group; Q, dout, V
 * and two of K in shared memory. Traffic: q, dout, dq once; k, v once per row block and head, mostly from L2.
 * Numerics: same bits every run; sums in fp32, in key order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2, split so that nothing is added atomically. */
template <int DP> static __global__ void HOPPER_BOUNDS hopper_attention_dq_kernel(own_attention p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr uint32_t TILE = SIDE * DP * 2;
    extern __shared__ __align__(1024) unsigned char memory[];
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
    const int64_t column = (int64_t)head * p.dim;
    const bf16 *k = p.k.data + (int64_t)kv_head * p.dim, *v = p.v.data + (int64_t)kv_head * p.dim;
    load_panels<DP, 128>(q_tile, p.q.data + column, p.q.pitch, block, p.rows, p.dim);
    load_panels<DP, 128>(dout_tile, p.dout.data + column, p.dout.pitch, block, p.rows, p.dim);
    load_panels<DP, SIDE>(k_tiles, k, p.k.pitch, key_first, p.rows, p.dim);
    load_panels<DP, SIDE>(v_tile, v, p.v.pitch, key_first, p.rows, p.dim);
    copies_commit();
    const float scale = p.scale * OWN_LOG2E;
    float lse[2], delta[2], dq[DP / 128][64], s[32], dp[32];
    uint32_t packed[4][4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool there = low[r] != INT_MAX;
        lse[r] = there ? p.lse[head * p.lse_pitch + row[r]] * OWN_LOG2E : 0;
        delta[r] = there ? p.delta[head * p.delta_pitch + row[r]] : 0;
    }
    clear_sums(dq);
    for (int key = key_first, step = 0; key <= last; key += SIDE, step++) {
        const uint32_t k_tile = k_tiles + step % 2 * TILE;
        const bool more = key + SIDE <= last;
        panels_ready();
        if (more)
            load_panels<DP, SIDE>(k_tiles + (step + 1) % 2 * TILE, k, p.k.pitch, key + SIDE, p.rows, p.dim);
        copies_commit();
        group_begin();
        group_scores<DP, 128>(dp, dout_tile, group_row, v_tile);
        group_scores<DP, 128>(s, q_tile, group_row, k_tile);
        group_commit();
        group_wait<0>();
        settle(dp);
        settle(s);
        __syncthreads(); /* V is done with */
        if (more) load_panels<DP, SIDE>(v_tile, v, p.v.pitch, key + SIDE, p.rows, p.dim);
        copies_commit();
        const bool whole = key >= last_low && key + SIDE - 1 <= block + warp_row;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int at = key + i / 4 * 8 + (lane & 3) * 2 + (i & 1), r = (i >> 1) & 1;
            const bool seen = whole || (at >= low[r] && at <= row[r]);
            s[i] = seen ? exp2_fast(s[i] * scale - lse[r]) * (dp[i] - delta[r]) : 0;
        }
        pack_scores(packed, s);
        group_begin();
        group_sum<DP>(dq, packed, k_tile);
        group_commit();
        group_wait<0>();
#pragma unroll
        for (int half = 0; half < DP / 128; half++) settle(dq[half]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (low[r] != INT_MAX) store_sums<DP>(p.dq, row[r], head, p.dim, dq, r, p.scale);
#endif
}

own_kernel *hopper_dkv_kernel(int padded_dim)
{
    return padded_dim == 128 ? hopper_attention_dkv_kernel<128> : hopper_attention_dkv_kernel<256>;
}

own_kernel *hopper_dq_kernel(int padded_dim)
{
    return padded_dim == 128 ? hopper_attention_dq_kernel<128> : hopper_attention_dq_kernel<256>;
}
