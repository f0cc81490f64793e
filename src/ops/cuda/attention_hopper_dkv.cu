// attention_hopper_dkv.cu - the gradients of attention by its keys and values, on capability 9.0.
#include "ops/cuda/attention_hopper.cuh"
#include "ops/cuda/attention_own_choice.h"

#define KEYS   HOPPER_TILE
#define ROWS   32 /* of a tile of q and dout */
#define STAGES 4  /* such tiles in shared memory */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* This warp's 16 rows of a tile as left operands, all DP columns. */
template <int DP> __device__ static inline void hold(uint32_t (&a)[DP / 16][4], uint32_t tile)
{
    const int row = (threadIdx.x & 127) / 32 * 16 + (threadIdx.x & 15);
#pragma unroll
    for (int k = 0; k < DP / 16; k++) {
        const int chunk = k * 2 + ((threadIdx.x >> 4) & 1);
        ldsm(a[k], tile + chunk / 8 * KEYS * 128 + row * 128 + (((chunk & 7) ^ (row & 7)) << 4));
    }
}

/* c [64, ROWS] = a b^T over all DP columns. */
template <int DP>
__device__ static inline void held_scores(float (&c)[16], const uint32_t (&a)[DP / 16][4], uint32_t b_tile)
{
    const uint64_t b = afresh(operand(b_tile, 16));
#pragma unroll
    for (int k = 0; k < DP / 16; k++) group_multiply_held(c, a[k], next_columns<ROWS>(b, k), k > 0);
}

/* A tile of rows of one head of the group. */
struct place {
    int head, row;
};

__device__ static inline void advance(place *at, int first_row, int end_row)
{
    at->row += ROWS;
    if (at->row < end_row) return;
    at->row = first_row;
    at->head++;
}

#endif

/* dv = sum over rows of P^T dout, dk = scale sum of (P (dP - delta))^T q, over the heads of the group; P =
 * exp(scale q k^T - lse), dP = dout v^T.  bf16 in and out, fp32 inside; P and P (dP - delta) are rounded to
 * bf16 before the products.
 * Launch: grid (key heads, key blocks of 64), the first keys first; 256 threads; K and V in registers, four
 * tiles of 32 rows of Q and dout in shared memory.  Scores are made transposed, so that they are a left
 * operand where they are: warp group 0 makes P^T and sums dv, warp group 1 makes dP^T and sums dk, and gets
 * P through shared memory in fp32.  The scores of a tile are made beside the sums of the tile before.
 * Traffic: k, v, dk, dv once; q, dout once per key block, mostly from L2.
 * Numerics: same bits every run; sums in fp32 over the group's heads in order, then over rows in order.
 * Source: Dao 2023, arXiv:2307.08691, algorithm 2. */
template <int DP> static __global__ void HOPPER_BOUNDS hopper_attention_dkv_kernel(own_attention p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr uint32_t TILE = ROWS * DP * 2, STAGE = 2 * TILE;
    unsigned char *memory = dynamic_panels();
    __shared__ float exchange[KEYS * ROWS], lse_of[STAGES][ROWS], delta_of[STAGES][ROWS];
    static_assert(sizeof exchange + sizeof lse_of + sizeof delta_of <= HOPPER_DKV_STATIC_BYTES,
                  "the choice counts this");
    const uint32_t stages = smem_address(memory);
    const int kv_head = blockIdx.x, group = p.heads / p.kv_heads, block = blockIdx.y * KEYS;
    const int first = max(block, (int)p.start[0]);
    const int last = min(min(block + KEYS, p.rows), (int)p.start[p.documents]) - 1;
    if (first > last) return;
    const int lane = threadIdx.x & 31, mine = threadIdx.x & 127;
    const bool makes_p = threadIdx.x < 128;
    const int key[2] = {block + mine / 32 * 16 + lane / 4, block + mine / 32 * 16 + lane / 4 + 8};
    const int end[2] = {document_of(p, key[0]).end, document_of(p, key[1]).end};
    const int first_end = first == block ? document_of(p, first).end : 0;
    const int row_end = document_of(p, last).end;
    const int steps = group * ((row_end - block + ROWS - 1) / ROWS);
    place next = {kv_head * group, block}, now = next; /* of the next load, and of the scores */
    auto load_rows = [&](int step) {
        if (step < steps) {
            const uint32_t q_tile = stages + step % STAGES * STAGE;
            const int64_t column = (int64_t)next.head * p.dim;
            load_panels<DP, ROWS>(q_tile, p.q.data + column, p.q.pitch, next.row, p.rows, p.dim);
            load_panels<DP, ROWS>(q_tile + TILE, p.dout.data + column, p.dout.pitch, next.row, p.rows, p.dim);
            const int row = next.row + threadIdx.x % ROWS;
            const bool there = row < row_end;
            if (threadIdx.x < ROWS)
                lse_of[step % STAGES][threadIdx.x] =
                    there ? p.lse[next.head * p.lse_pitch + row] * OWN_LOG2E : 0;
            else if (threadIdx.x < 2 * ROWS)
                delta_of[step % STAGES][threadIdx.x - ROWS] =
                    there ? p.delta[next.head * p.delta_pitch + row] : 0;
            advance(&next, block, row_end);
        }
        cp_commit();
    };
    const float scale = p.scale * OWN_LOG2E;
    float sums[DP / 128][64], s[16];
    uint32_t held[DP / 16][4], packed[2][4];
    {
        const uint32_t k_tile = stages + 2 * STAGE, v_tile = stages + 3 * STAGE;
        const int64_t column = (int64_t)kv_head * p.dim;
        load_panels<DP, KEYS>(k_tile, p.k.data + column, p.k.pitch, block, p.rows, p.dim);
        load_panels<DP, KEYS>(v_tile, p.v.data + column, p.v.pitch, block, p.rows, p.dim);
        load_rows(0);
        load_rows(1);
        panels_ready<0>();
        hold<DP>(held, makes_p ? k_tile : v_tile);
        __syncthreads();
        load_rows(2);
    }
    auto exchange_scores =
        [&](int step) { /* s: scores become P, or dP becomes P (dP - delta) */
                        if (makes_p) {
                            const float *lse = lse_of[step % STAGES] + (lane & 3) * 2;
#pragma unroll
                            for (int i = 0; i < 16; i++)
                                s[i] = exp2_fast(s[i] * scale - lse[i / 4 * 8 + (i & 1)]);
                            if (now.row < block + KEYS || now.row + ROWS > first_end) {
#pragma unroll
                                for (int i = 0; i < 16; i++) {
                                    const int row = now.row + i / 4 * 8 + (lane & 3) * 2 + (i & 1),
                                              r = (i >> 1) & 1;
                                    if (row < key[r] || row >= end[r]) s[i] = 0;
                                }
                            }
#pragma unroll
                            for (int i = 0; i < 16; i++) exchange[i * 128 + mine] = s[i];
                            pair_arrive();
                        } else {
                            const float *delta = delta_of[step % STAGES] + (lane & 3) * 2;
                            pair_sync();
#pragma unroll
                            for (int i = 0; i < 16; i++)
                                s[i] = exchange[i * 128 + mine] * (s[i] - delta[i / 4 * 8 + (i & 1)]);
                        }
                        advance(&now, block, row_end);
        };
    const uint32_t score_at = makes_p ? 0 : TILE, sum_at = TILE - score_at; /* P: q, dout; dP: dout, q */
    clear_sums(sums);
    group_begin();
    held_scores<DP>(s, held, stages + score_at);
    group_commit();
    group_wait<0>();
    settle(s);
    exchange_scores(0);
    pack_scores(packed, s);
    for (int step = 0; step + 1 < steps; step++) {
        panels_ready<1>();
        load_rows(step + 3);
        group_begin();
        held_scores<DP>(s, held, stages + (step + 1) % STAGES * STAGE + score_at);
        group_commit();
        group_sum<DP, ROWS>(sums, packed, stages + step % STAGES * STAGE + sum_at);
        group_commit();
        group_wait<1>();
        settle(s);
        exchange_scores(step + 1);
        settle(s);
        group_wait<0>();
#pragma unroll
        for (int half = 0; half < DP / 128; half++) settle(sums[half]);
        pack_scores(packed, s);
    }
    group_begin();
    group_sum<DP, ROWS>(sums, packed, stages + (steps - 1) % STAGES * STAGE + sum_at);
    group_commit();
    group_wait<0>();
#pragma unroll
    for (int half = 0; half < DP / 128; half++) settle(sums[half]);
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (end[r] > 0)
            store_sums<DP>(makes_p ? p.dv : p.dk, key[r], kv_head, p.dim, sums, r, makes_p ? 1 : p.scale);
#endif
}

own_kernel *hopper_dkv_kernel(int padded_dim)
{
    return padded_dim == 128 ? hopper_attention_dkv_kernel<128> : hopper_attention_dkv_kernel<256>;
}
