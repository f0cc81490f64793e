// delta_scan_fwd.cu - phase F2 of the delta rule: the states before all chunks, and what each chunk writes.
#include "ops/cuda/delta_walk.h"

enum { STAGES = 3 };

template <int D> struct __align__(16) scan_fwd_stage
{
    static constexpr int WARPS = D / 16 < 4 ? D / 16 : 4, SLICE = 16 * WARPS;
    bf16 k[DELTA_ROWS * (D + 8)], t[DELTA_ROWS * DELTA_SOLVE_PITCH], v[DELTA_ROWS * (SLICE + 8)];
    delta_decays decay;
    delta_step step;
};

/* Four warps keep the stages filled: chunk n + 2 while the others work on chunk n. */
template <int D>
__device__ static void feed(const delta_view &a, scan_fwd_stage<D> *stage, int head, int first_column)
{
    constexpr int SLICE = scan_fwd_stage<D>::SLICE;
    const int thread = threadIdx.x - 32 * scan_fwd_stage<D>::WARPS;
    delta_walk<false> walk;
    walk.open(a, blockIdx.z, gridDim.z);
    delta_step s = walk.next(a);
    for (int n = 0;; n++) {
        scan_fwd_stage<D> *to = stage + n % STAGES;
        if (thread == 0) to->step = s;
        if (s.position >= 0) {
            const delta_gates gates = load_gates(a, s.first, s.rows, head);
            load_rows<D, LOADERS>(to->k, a.k, s.first, s.rows, (int64_t)(head / a.group) * a.key_dim,
                                  a.key_dim, thread);
            load_solve<LOADERS>(to->t, region(a.t, a, s.chunk, head, DELTA_ROWS * DELTA_ROWS), thread);
            load_rows<SLICE, LOADERS>(to->v, a.v, s.first, s.rows, (int64_t)head * a.value_dim + first_column,
                                      a.value_dim - first_column, thread);
            s = walk.next(a);
            if (thread < 32) write_decays(&to->decay, gates);
        }
        cp_commit();
        if (n == 0) continue;
        cp_wait<1>();
        __syncthreads(); /* stage n - 1 is there; stage n - 2 has been read */
        if (stage[(n - 1) % STAGES].step.position < 0) return;
    }
}

/* E = V - diag(e^b) K S, D = T diag(beta) E, S' = e^lambda S + (diag(e^(lambda - b)) K)^T D, chunk after
 * chunk; all transposed, so that a warp owns 16 value columns of a head and keeps its part of S in registers:
 * what one product leaves in the accumulators is the left operand of the next, and warps never wait for each
 * other's results. Launch: value heads x slices of up to 64 columns x documents; a warp for every 16 columns,
 * and four that load. Traffic: K, T and V in, S (bf16, before each chunk) and D out, 4 Dk Dv + 256 Dv + 128
 * Dk + 5 KiB at most a chunk. Numerics: operands bf16, sums and the carried S fp32; one rounding of R, D and
 * S as operands (4.7).  Same bits every run; documents do not change each other's bits. */
template <int D>
static __global__ void __launch_bounds__(32 * scan_fwd_stage<D>::WARPS + LOADERS, 1)
    delta_scan_fwd_kernel(delta_view a, bool write_state)
{
    unsigned char *shared = dynamic_shared();
    constexpr int WARPS = scan_fwd_stage<D>::WARPS, SLICE = scan_fwd_stage<D>::SLICE;
    scan_fwd_stage<D> *stage = (scan_fwd_stage<D> *)shared;
    const int head = blockIdx.x, slice = blockIdx.y * SLICE;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, t = lane & 3;
    if (warp >= WARPS) {
        feed<D>(a, stage, head, slice);
        return;
    }
    const int column = slice + 16 * warp, key_blocks = a.key_dim / 8;
    const bool low_there = column < a.value_dim, high_there = column + 8 < a.value_dim;
    float s[D / 8][4];
    bool last = false;
    clear(s);
    if (blockIdx.z == 0 && !a.chunks[0].starts_document) move_state<D, false>(s, a.state, a, head, column);
    for (int n = 0;; n++) {
        __syncthreads();
        const scan_fwd_stage<D> *in = stage + n % STAGES;
        const delta_step step = in->step;
        if (step.position < 0) break;
        last = step.position == a.chunk_count - 1;
        if (step.restarts) clear(s);

        float e[8][4]; /* (K S)^T */
        clear(e);
        bf16 *kept = region(a.s, a, step.chunk, head, a.key_dim * a.value_dim);
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

        uint32_t r[4][4]; /* R^T = (diag(beta) E)^T */
#pragma unroll
        for (int p = 0; p < 4; p++) {
            uint32_t v[4];
            ldsm_t(v, across<SLICE + 8>(in->v, 16 * p, 16 * warp));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int y = 2 * p + (i >> 1), token = 8 * y + 2 * t;
                const float2 x = unpack(v[i]), begin = pair_at(in->decay.begin, token),
                             beta = pair_at(in->decay.beta, token);
                r[p][i] = pack(beta.x * (x.x - begin.x * e[y][2 * (i & 1)]),
                               beta.y * (x.y - begin.y * e[y][2 * (i & 1) + 1]));
            }
        }

        float d[8][4]; /* D^T = R^T T^T */
        clear(d);
#pragma unroll
        for (int x = 0; x < 4; x++)
#pragma unroll
            for (int p = x; p < 4; p++) {
                uint32_t right[4];
                ldsm(right, across<DELTA_SOLVE_PITCH>(in->t, 16 * p, 16 * x));
                mma(d[2 * p], r[x], right[0], right[1]);
                mma(d[2 * p + 1], r[x], right[2], right[3]);
            }

        uint32_t *written =
            reinterpret_cast<uint32_t *>(region(a.d, a, step.chunk, head, DELTA_ROWS * a.value_dim)) +
            (column / 8) * 256 + lane;
#pragma unroll
        for (int y = 0; y < 8; y++) {
            if (low_there) written[32 * y] = pack(d[y][0], d[y][1]);
            if (high_there) written[256 + 32 * y] = pack(d[y][2], d[y][3]);
        }

        const float whole = in->decay.whole;
        for (int x = 0; x < D / 8; x++)
            for (int i = 0; i < 4; i++) s[x][i] *= whole;
#pragma unroll
        for (int p = 0; p < 4; p++) {
            uint32_t left[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int y = 2 * p + (i >> 1);
                const float2 end = pair_at(in->decay.end, 8 * y + 2 * t);
                left[i] = pack(end.x * d[y][2 * (i & 1)], end.y * d[y][2 * (i & 1) + 1]);
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
    if (write_state && last) move_state<D, true>(s, a.state, a, head, column);
}

template <int D> static plim_status launch(plim_device *d, const delta_view &a, bool write_state)
{
    const size_t bytes = STAGES * sizeof(scan_fwd_stage<D>);
    const dim3 grid((unsigned)a.value_heads, plim_cuda_blocks(a.value_dim, scan_fwd_stage<D>::SLICE),
                    plim_cuda_delta_owners(a.chunk_count));
    TRY(plim_cuda_delta_shared(d, (const void *)delta_scan_fwd_kernel<D>, bytes, "delta rule"));
    PLIM_LAUNCH(delta_scan_fwd_kernel<D>, grid, 32 * scan_fwd_stage<D>::WARPS + LOADERS, bytes, d->compute)
    (a, write_state);
    return plim_cuda_launched(d, "delta rule: states");
}

plim_status plim_cuda_delta_scan_fwd(plim_device *d, const delta_view &a, int padded, bool write_state)
{
    return padded == 128  ? launch<128>(d, a, write_state)
           : padded == 64 ? launch<64>(d, a, write_state)
                          : launch<32>(d, a, write_state);
}
