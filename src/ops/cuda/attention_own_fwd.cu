// attention_own_fwd.cu - causal attention inside documents, forward, on any card from 8.0 on.
#include "ops/cuda/attention_own.cuh"

#include <limits.h>

#define KEYS 64

/* Scores of one tile that a row may not see become -inf: keys before its document or after itself. */
__device__ static inline void mask(float s[KEYS / 8][4], int key, const int row[2], const int low[2])
{
    key += (threadIdx.x & 3) * 2;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = key + n * 8 + (i & 1);
            if (at < low[i >> 1] || at > row[i >> 1]) s[n][i] = -INFINITY;
        }
}

/* s becomes exp2(scale s - max); the running maxima and sums (of this lane's columns) follow, and o with
 * them. */
template <int DP>
__device__ static inline void softmax(float s[KEYS / 8][4], float o[DP / 8][4], float most[2], float sum[2],
                                      float scale)
{
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float now = most[r];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) now = fmaxf(now, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
        const float base = now == -INFINITY ? 0 : now * scale; /* a row that has seen nothing yet */
        shrink[r] = exp2_fast(most[r] * scale - base);
        most[r] = now;
        float total = 0;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                s[n][i] = exp2_fast(s[n][i] * scale - base);
                total += s[n][i];
            }
        sum[r] = sum[r] * shrink[r] + total;
    }
    if (!__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) return;
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) o[n][i] *= shrink[i >> 1];
}

/* o = softmax(scale q k^T) v over the keys of a row's document up to itself; lse = its natural logarithm.
 * bf16 in and out, fp32 inside; P is rounded to bf16 before P v.
 * Launch: grid (heads, row blocks of 16 * WARPS), the last rows first; 32 * WARPS threads; Q, K and V tiles
 * in shared memory.  K of the next tile is fetched under P v, V under q k^T.
 * Traffic: q, o once; k, v once per row block and head, mostly from L2.
 * Numerics: same bits every run; running maximum and sum in fp32, in key order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 1. */
template <int DP, int WARPS>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_fwd_kernel(own_attention p)
{
    constexpr int ROWS = WARPS * 16, THREADS = WARPS * 32;
    unsigned char *memory = dynamic_panels();
    const uint32_t q_tile = smem_address(memory), k_tile = q_tile + ROWS * DP * 2,
                   v_tile = k_tile + KEYS * DP * 2;
    const int head = blockIdx.x, kv_head = head / (p.heads / p.kv_heads);
    const int block = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + ROWS, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int row[2] = {block + warp * 16 + lane / 4, block + warp * 16 + lane / 4 + 8};
    const int low[2] = {document_of(p, row[0]).first, document_of(p, row[1]).first};
    const int key_first = document_of(p, first).first, last_low = document_of(p, last).first;
    const bf16 *k = p.k.data + (int64_t)kv_head * p.dim, *v = p.v.data + (int64_t)kv_head * p.dim;
    load_tile<DP, ROWS, THREADS>(q_tile, p.q.data + (int64_t)head * p.dim, p.q.pitch, block, p.rows, p.dim);
    load_tile<DP, KEYS, THREADS>(k_tile, k, p.k.pitch, key_first, p.rows, p.dim);
    cp_commit();
    const float scale = p.scale * OWN_LOG2E;
    float o[DP / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    clear<DP / 8>(o);
    for (int key = key_first; key <= last; key += KEYS) {
        float s[KEYS / 8][4];
        clear<KEYS / 8>(s);
        cp_wait<0>();
        __syncthreads(); /* K is there; V of the tile before is done with */
        load_tile<DP, KEYS, THREADS>(v_tile, v, p.v.pitch, key, p.rows, p.dim);
        cp_commit();
        multiply_rows<DP, KEYS>(s, q_tile, warp * 16, k_tile, 0);
        cp_wait<0>();
        __syncthreads(); /* V is there; K is done with */
        if (key + KEYS <= last) load_tile<DP, KEYS, THREADS>(k_tile, k, p.k.pitch, key + KEYS, p.rows, p.dim);
        cp_commit();
        if (key < last_low || key + KEYS - 1 > block + warp * 16) mask(s, key, row, low);
        softmax<DP>(s, o, most, sum, scale);
        multiply_own<DP, KEYS>(o, s, v_tile);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        if (low[r] == INT_MAX) continue;
        const float each = 1 / sum[r];
        const int col = (lane & 3) * 2;
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
            store_pair(p.o, row[r], head, p.dim, n * 8 + col, o[n][2 * r] * each, o[n][2 * r + 1] * each);
        if ((lane & 3) == 0) p.lse[(int64_t)head * p.lse_pitch + row[r]] = most[r] * p.scale + logf(sum[r]);
    }
}

own_kernel *own_fwd_kernel(int padded_dim, int warps)
{
    if (padded_dim == 64) return attention_fwd_kernel<64, 4>;
    if (padded_dim == 128) return attention_fwd_kernel<128, 4>;
    return warps == 8 ? attention_fwd_kernel<256, 8> : attention_fwd_kernel<256, 4>;
}
