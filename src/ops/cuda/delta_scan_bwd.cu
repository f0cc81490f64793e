// delta_scan_bwd.cu - phase B2 of the delta rule: gradients of the states, from the last chunk to the first.
#include "ops/cuda/delta_walk.h"

template <int D> struct __align__(16) scan_bwd_stage
{
    static constexpr int WARPS = D / 16 < 4 ? D / 16 : 4, SLICE = 16 * WARPS;
    bf16 q[DELTA_ROWS * (D + 8)], k[DELTA_ROWS * (D + 8)], t[DELTA_ROWS * DELTA_SOLVE_PITCH];
    bf16 dout[DELTA_ROWS * (SLICE + 8)], pdo[DELTA_ROWS * SLICE]; /* pdo in blocks */
    delta_decays decay;
    delta_step step;
};

/* Four warps keep the stages filled, stages - 1 chunks ahead of the others. */
template <int D>
__device__ static void feed(const delta_view &a, scan_bwd_stage<D> *stage, int stages, int head,
                            int first_column)
{
    constexpr int SLICE = scan_bwd_stage<D>::SLICE;
    const int thread = threadIdx.x - 32 * scan_bwd_stage<D>::WARPS, left = a.value_dim - first_column;
    const int64_t key_column = (int64_t)(head / a.group) * a.key_dim;
    delta_walk<true> walk;
    walk.open(a, blockIdx.z, gridDim.z);
    delta_step s = walk.next(a);
    for (int n = 0;; n++) {
        scan_bwd_stage<D> *to = stage + n % stages;
        if (thread == 0) to->step = s;
        if (s.position >= 0) {
            const delta_gates gates = load_gates(a, s.first, s.rows, head);
            load_rows<D, LOADERS>(to->k, a.k, s.first, s.rows, key_column, a.key_dim, thread);
            load_solve<LOADERS>(to->t, region(a.t, a, s.chunk, head, DELTA_ROWS * DELTA_ROWS), thread);
            load_blocks<SLICE / 8, 8, LOADERS>(to->pdo,
                                               region(a.pdo, a, s.chunk, head, DELTA_ROWS * a.value_dim) +
                                                   first_column * DELTA_ROWS,
                                               left / 8, 8, thread);
            load_rows<D, LOADERS>(to->q, a.q, s.first, s.rows, key_column, a.key_dim, thread);
            load_rows<SLICE, LOADERS>(to->dout, a.dout, s.first, s.rows,
                                      (int64_t)head * a.value_dim + first_column, left, thread);
            s = walk.next(a);
            if (thread < 32) write_decays(&to->decay, gates);
        }
        cp_commit();
        const int ready = n - (stages - 2);
        if (ready < 0) continue;
        if (stages == 3) cp_wait<1>();
        else cp_wait<0>();
        __syncthreads(); /* stage `ready` is there; the one before it has been read */
        if (stage[ready % stages].step.position < 0) return;
    }
}

/* dD = P^T dO + diag(e^(lambda - b)) K dS', dR = T^T dD, dE = diag(beta) dR,
 * dS = e^lambda dS' + (diag(e^b) Q)^T dO - (diag(e^b) K)^T dE, chunk after chunk from the end; transposed as
 * in the forward scan: a warp owns 16 value columns of a head and keeps its part of dS in registers. Launch:
 * as the forward scan. Traffic: Q, K, T, dO, P^T dO in, dS' (bf16, after each chunk) and dR out. Numerics:
 * operands bf16, sums and the carried dS fp32; rows are scaled in fp32 before the one rounding.  Same bits
 * every run. */
template <int D>
static __global__ void __launch_bounds__(32 * scan_bwd_stage<D>::WARPS + LOADERS, 1)
    delta_scan_bwd_kernel(delta_view a, int stages)
{
    unsigned char *shared = dynamic_shared();
    constexpr int WARPS = scan_bwd_stage<D>::WARPS, SLICE = scan_bwd_stage<D>::SLICE;
    scan_bwd_stage<D> *stage = (scan_bwd_stage<D> *)shared;
    const int head = blockIdx.x, slice = blockIdx.y * SLICE;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, t = lane & 3;
    if (warp >= WARPS) {
        feed<D>(a, stage, stages, head, slice);
        return;
    }
    const int column = slice + 16 * warp, key_blocks = a.key_dim / 8;
    const bool low_there = column < a.value_dim, high_there = column + 8 < a.value_dim;
    float s[D / 8][4];
    bool last = false;
    clear(s);
    if (blockIdx.z == 0 && !a.chunks[a.chunk_count - 1].ends_document)
        move_state<D, false>(s, a.dstate, a, head, column);
    for (int n = 0;; n++) {
        __syncthreads();
        const scan_bwd_stage<D> *in = stage + n % stages;
        const delta_step step = in->step;
        if (step.position < 0) break;
        last = step.position == a.chunk_count - 1;
        if (step.restarts) clear(s);

        float e[8][4]; /* (K dS')^T, then dD^T */
        clear(e);
        bf16 *kept = region(a.ds, a, step.chunk, head, a.key_dim * a.value_dim);
#pragma unroll
        for (int x = 0; x < D / 16; x++) {
            const uint32_t left[4] = {pack(s[2 * x][0], s[2 * x][1]), pack(s[2 * x][2], s[2 * x][3]),
                                      pack(s[2 * x + 1][0], s[2 * x + 1][1]),
                                      pack(s[2 * x + 1][2], s[2 * x + 1][3])};
#pragma unroll
            for (int i = 0; i < 4; i++)
                if ((i & 1 ? high_there : low_there) && 2 * x + (i >> 1) < key_blocks)
                    reinterpret_cast<uint32_t *>(
                        kept + ((int64_t)(column / 8 + (i & 1)) * key_blocks + 2 * x + (i >> 1)) * 64)[lane] =
                        left[i];
#pragma unroll
            for (int p = 0; p < 4; p++) {
                uint32_t right[4];
                ldsm(right, across<D + 8>(in->k, 16 * p, 16 * x));
                mma(e[2 * p], left, right[0], right[1]);
                mma(e[2 * p + 1], left, right[2], right[3]);
            }
        }

        uint32_t r[4][4]; /* dD^T */
        const uint32_t *inner = reinterpret_cast<const uint32_t *>(in->pdo) + 2 * warp * 256 + lane;
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int y = 2 * p + (i >> 1);
                const float2 end = pair_at(in->decay.end, 8 * y + 2 * t),
                             x = unpack(inner[256 * (i & 1) + 32 * y]);
                r[p][i] = pack(x.x + end.x * e[y][2 * (i & 1)], x.y + end.y * e[y][2 * (i & 1) + 1]);
            }

        float d[8][4]; /* dR^T = dD^T T */
        clear(d);
#pragma unroll
        for (int x = 3; x >= 0; x--)
#pragma unroll
            for (int p = 0; p <= x; p++) {
                uint32_t right[4];
                ldsm_t(right, along<DELTA_SOLVE_PITCH>(in->t, 16 * x, 16 * p));
                mma(d[2 * p], r[x], right[0], right[1]);
                mma(d[2 * p + 1], r[x], right[2], right[3]);
            }

        const float whole = in->decay.whole;
        for (int x = 0; x < D / 8; x++)
            for (int i = 0; i < 4; i++) s[x][i] *= whole;
#pragma unroll
        for (int p = 0; p < 4; p++) { /* + (diag(e^b) Q)^T dO */
            uint32_t left[4];
            ldsm_t(left, across<SLICE + 8>(in->dout, 16 * p, 16 * warp));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 begin = pair_at(in->decay.begin, 8 * (2 * p + (i >> 1)) + 2 * t),
                             x = unpack(left[i]);
                left[i] = pack(begin.x * x.x, begin.y * x.y);
            }
#pragma unroll
            for (int x = 0; x < D / 16; x++) {
                uint32_t right[4];
                ldsm_t(right, along<D + 8>(in->q, 16 * p, 16 * x));
                mma(s[2 * x], left, right[0], right[1]);
                mma(s[2 * x + 1], left, right[2], right[3]);
            }
        }

        uint32_t *written =
            reinterpret_cast<uint32_t *>(region(a.dr, a, step.chunk, head, DELTA_ROWS * a.value_dim)) +
            (column / 8) * 256 + lane;
#pragma unroll
        for (int y = 0; y < 8; y++) {
            if (low_there) written[32 * y] = pack(d[y][0], d[y][1]);
            if (high_there) written[256 + 32 * y] = pack(d[y][2], d[y][3]);
        }
#pragma unroll
        for (int p = 0; p < 4; p++) { /* - (diag(e^b) K)^T dE */
            uint32_t left[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int y = 2 * p + (i >> 1);
                const float2 begin = pair_at(in->decay.begin, 8 * y + 2 * t),
                             beta = pair_at(in->decay.beta, 8 * y + 2 * t);
                left[i] = pack(-begin.x * (beta.x * d[y][2 * (i & 1)]),
                               -begin.y * (beta.y * d[y][2 * (i & 1) + 1]));
            }
#pragma unroll
            for (int x = 0; x < D / 16; x++) {
                uint32_t right[4];
                ldsm_t(right, along<D + 8>(in->k, 16 * p, 16 * x));
                mma(s[2 * x], left, right[0], right[1]);
                mma(s[2 * x + 1], left, right[2], right[3]);
            }
        }
    }
    if (last) {
        if (a.chunks[0].starts_document) clear(s);
        move_state<D, true>(s, a.dstate, a, head, column);
    }
}

/* Three stages where they fit, two elsewhere. */
template <int D> static plim_status launch(plim_device *d, const delta_view &a)
{
    const int stages = 3 * sizeof(scan_bwd_stage<D>) <= d->prop.sharedMemPerBlockOptin ? 3 : 2;
    const size_t bytes = (size_t)stages * sizeof(scan_bwd_stage<D>);
    const dim3 grid((unsigned)a.value_heads, plim_cuda_blocks(a.value_dim, scan_bwd_stage<D>::SLICE),
                    plim_cuda_delta_owners(a.chunk_count));
    TRY(plim_cuda_delta_shared(d, (const void *)delta_scan_bwd_kernel<D>, bytes, "delta rule, backward"));
    PLIM_LAUNCH(delta_scan_bwd_kernel<D>, grid, 32 * scan_bwd_stage<D>::WARPS + LOADERS, bytes, d->compute)
    (a, stages);
    return plim_cuda_launched(d, "delta rule: gradients of states");
}

plim_status plim_cuda_delta_scan_bwd(plim_device *d, const delta_view &a, int padded)
{
    return padded == 128 ? launch<128>(d, a) : padded == 64 ? launch<64>(d, a) : launch<32>(d, a);
}
