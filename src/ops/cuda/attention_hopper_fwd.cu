// attention_hopper_fwd.cu - causal attention inside documents, forward, on capability 9.0.
#include "ops/cuda/attention_hopper.cuh"

#include <limits.h>

#define KEYS HOPPER_TILE

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Scores of keys before a row's document or after the row itself become -inf. */
__device__ static inline void mask(float (&s)[32], int key, const int row[2], const int low[2])
{
    key += (threadIdx.x & 3) * 2;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int at = key + i / 4 * 8 + (i & 1), r = (i >> 1) & 1;
        if (at < low[r] || at > row[r]) s[i] = -INFINITY;
    }
}

/* s becomes exp2(scale s - max); running maxima and this lane's sums follow; shrink: what earlier sums are
 * multiplied by. */
__device__ static inline void softmax(float (&s)[32], float most[2], float sum[2], float shrink[2],
                                      float scale)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float now = most[r];
#pragma unroll
        for (int n = 0; n < 8; n++) now = fmaxf(now, fmaxf(s[4 * n + 2 * r], s[4 * n + 2 * r + 1]));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
        const float base = now == -INFINITY ? 0 : now * scale; /* a row that has seen nothing yet */
        shrink[r] = exp2_fast(most[r] * scale - base);
        most[r] = now;
        float total = 0;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 4 * n + 2 * r; i < 4 * n + 2 * r + 2; i++) {
                s[i] = exp2_fast(s[i] * scale - base);
                total += s[i];
            }
        sum[r] = sum[r] * shrink[r] + total;
    }
}

#endif

/* o = softmax(scale q k^T) v over the keys of a row's document up to itself; lse = its natural logarithm.
 * bf16 in and out, fp32 inside; P is rounded to bf16 before P v.
 * Launch: grid (heads, row blocks of 128), the last rows first; 256 threads, 64 rows a warp group; Q and
 * two each of K and V in shared memory.  The softmax of a tile runs beside P v of the tile before.
 * Traffic: q, o once; k, v once per row block and head, mostly from L2.
 * Numerics: same bits every run; running maximum and sum in fp32, in key order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 1; Shah et al. 2024, arXiv:2407.08608, section 3.2. */
template <int DP> static __global__ void HOPPER_BOUNDS hopper_attention_fwd_kernel(own_attention p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr uint32_t TILE = KEYS * DP * 2;
    unsigned char *memory = dynamic_panels();
    const uint32_t q_tile = smem_address(memory), k_tiles = q_tile + 128 * DP * 2,
                   v_tiles = k_tiles + 2 * TILE;
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
    const bf16 *k = p.k.data + (int64_t)kv_head * p.dim, *v = p.v.data + (int64_t)kv_head * p.dim;
    auto load = [&](uint32_t to, const bf16 *from, int64_t pitch, int tile) {
        if (tile < tiles)
            load_panels<DP, KEYS>(to + tile % 2 * TILE, from, pitch, key_first + tile * KEYS, p.rows, p.dim);
    };
    load_panels<DP, 128>(q_tile, p.q.data + (int64_t)head * p.dim, p.q.pitch, block, p.rows, p.dim);
    load(k_tiles, k, p.k.pitch, 0);
    cp_commit();
    const float scale = p.scale * OWN_LOG2E;
    float o[DP / 128][64], s[32], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, shrink[2];
    uint32_t probabilities[4][4];
    auto hide = [&](int tile) {
        const int key = key_first + tile * KEYS;
        if (key < last_low || key + KEYS - 1 > block + warp_row) mask(s, key, row, low);
    };
    clear_sums(o);
    panels_ready<0>();
    load(k_tiles, k, p.k.pitch, 1);
    load(v_tiles, v, p.v.pitch, 0);
    cp_commit();
    group_begin();
    group_scores<DP, 128>(s, q_tile, group_row, k_tiles);
    group_commit();
    group_wait<0>();
    settle(s);
    hide(0);
    softmax(s, most, sum, shrink, scale);
    pack_scores(probabilities, s);
    for (int tile = 0; tile + 1 < tiles; tile++) {
        panels_ready<0>(); /* V of this tile and K of the next are there; those before are done with */
        load(k_tiles, k, p.k.pitch, tile + 2);
        load(v_tiles, v, p.v.pitch, tile + 1);
        cp_commit();
        group_begin();
        group_scores<DP, 128>(s, q_tile, group_row, k_tiles + (tile + 1) % 2 * TILE);
        group_commit();
        group_sum<DP, KEYS>(o, probabilities, v_tiles + tile % 2 * TILE);
        group_commit();
        group_wait<1>();
        settle(s);
        hide(tile + 1);
        softmax(s, most, sum, shrink, scale);
        settle(s);
        /* A wait in each branch: one before them would be moved up, before the softmax. */
        if (__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) { /* rare once a row is long */
            group_wait_apart();
#pragma unroll
            for (int half = 0; half < DP / 128; half++) {
                settle(o[half]);
#pragma unroll
                for (int i = 0; i < 64; i++) o[half][i] *= shrink[(i >> 1) & 1];
            }
        } else {
            group_wait<0>();
#pragma unroll
            for (int half = 0; half < DP / 128; half++) settle(o[half]);
        }
        pack_scores(probabilities, s);
    }
    panels_ready<0>();
    group_begin();
    group_sum<DP, KEYS>(o, probabilities, v_tiles + (tiles - 1) % 2 * TILE);
    group_commit();
    group_wait<0>();
#pragma unroll
    for (int half = 0; half < DP / 128; half++) settle(o[half]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        if (low[r] == INT_MAX) continue;
        store_sums<DP>(p.o, row[r], head, p.dim, o, r, 1 / sum[r]);
        if ((lane & 3) == 0) p.lse[(int64_t)head * p.lse_pitch + row[r]] = most[r] * p.scale + logf(sum[r]);
    }
#endif
}

own_kernel *hopper_fwd_kernel(int padded_dim)
{
    return padded_dim == 128 ? hopper_attention_fwd_kernel<128> : hopper_attention_fwd_kernel<256>;
}
