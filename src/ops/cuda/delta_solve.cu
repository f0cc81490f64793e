// delta_solve.cu - phase F1 of the delta rule: T = (I + A)^-1 of every chunk and value head.
#include "ops/cuda/delta.h"

enum { SYSTEM_PITCH = DELTA_ROWS + 4 };

/* K, or the system that takes its place. */
__host__ __device__ static constexpr size_t tile_bytes(int D)
{
    return sizeof(bf16) * DELTA_ROWS * (D + 8) > sizeof(float) * DELTA_ROWS * SYSTEM_PITCH
               ? sizeof(bf16) * DELTA_ROWS * (D + 8)
               : sizeof(float) * DELTA_ROWS * SYSTEM_PITCH;
}

/* Column `column` of the inverse, by substitution from row FROM on: x_i = [i = column] - sum_(m < i) A_im
 * x_m. */
template <int FROM> __device__ static inline void solve_column(const float *system, bf16 *t, int column)
{
    float x[DELTA_ROWS - FROM];
#pragma unroll
    for (int i = FROM; i < DELTA_ROWS; i++) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int m = FROM; m < i; m += 4) {
            const float4 row = *reinterpret_cast<const float4 *>(system + i * SYSTEM_PITCH + m);
            sum[0] = fmaf(row.x, x[m - FROM], sum[0]);
            if (m + 1 < i) sum[1] = fmaf(row.y, x[m + 1 - FROM], sum[1]);
            if (m + 2 < i) sum[2] = fmaf(row.z, x[m + 2 - FROM], sum[2]);
            if (m + 3 < i) sum[3] = fmaf(row.w, x[m + 3 - FROM], sum[3]);
        }
        x[i - FROM] = (i == column ? 1.0f : 0.0f) - ((sum[0] + sum[1]) + (sum[2] + sum[3]));
        t[i * DELTA_ROWS + column] = __float2bfloat16_rn(x[i - FROM]);
    }
}

/* A = stril(diag(beta) (K K^T) Gamma) from bf16 keys in fp32, T = (I + A)^-1 in fp32, rounded to bf16 on
 * store. Launch: two warps a chunk and value head; each makes half of K K^T, then a lane solves for a column
 * of T: 32 columns start at row 0, 32 at row 32, and the long half alternates between the warps. Traffic:
 * reads 128 Dk B, writes 8 KiB, per chunk and head.  Bound by fp32 arithmetic (about 1,300 FMA a lane).
 * Numerics: substitution in fp32, which docs/maths.md 4.2 asks for (its blocks are another order of the same
 * sums); blocks of T above the diagonal are not written.  Fixed order of sums. */
template <int D> static __global__ void __launch_bounds__(64) delta_solve_kernel(delta_view a)
{
    unsigned char *shared = dynamic_shared();
    bf16 *k = (bf16 *)shared;
    float *system = (float *)shared; /* over K, once K K^T is there */
    delta_decays *decay = (delta_decays *)(shared + tile_bytes(D));
    const int chunk = blockIdx.x / a.value_heads, head = blockIdx.x % a.value_heads;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const plim_chunk c = a.chunks[chunk];
    load_rows<D, 64>(k, a.k, c.first, c.rows, (int64_t)(head / a.group) * a.key_dim, a.key_dim, threadIdx.x);
    cp_commit();
    if (warp == 0) write_decays(decay, load_gates(a, c.first, c.rows, head));
    cp_wait<0>();
    __syncthreads();
    float products[2][8][4]; /* of rows 16 warp .. and 16 (3 - warp) .. */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int tile = half ? 3 - warp : warp;
        float(&acc)[8][4] = products[half];
        clear(acc);
#pragma unroll
        for (int x = 0; x < D; x += 16) {
            uint32_t left[4], right[4];
            ldsm(left, along<D + 8>(k, 16 * tile, x));
#pragma unroll
            for (int n = 0; n < 4; n++)
                if (n <= tile) {
                    ldsm(right, across<D + 8>(k, 16 * n, x));
                    mma(acc[2 * n], left, right[0], right[1]);
                    mma(acc[2 * n + 1], left, right[2], right[3]);
                }
        }
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int tile = half ? 3 - warp : warp, row = 16 * tile + g;
        float(&acc)[8][4] = products[half];
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (n <= 2 * tile + 1)
                for (int y = 0; y < 2; y++) {
                    const int i = row + 8 * y, j = 8 * n + 2 * t;
                    const float2 b = pair_at(decay->b, j);
                    const float beta = decay->beta[i], bi = decay->b[i];
                    const float low = i > j ? beta * acc[n][2 * y] * __expf(bi - b.x) : 0.0f;
                    const float high = i > j + 1 ? beta * acc[n][2 * y + 1] * __expf(bi - b.y) : 0.0f;
                    *reinterpret_cast<float2 *>(system + i * SYSTEM_PITCH + j) = make_float2(low, high);
                }
    }
    __syncthreads();
    bf16 *out = region(a.t, a, chunk, head, DELTA_ROWS * DELTA_ROWS);
    if (((unsigned)warp ^ blockIdx.x) & 1) solve_column<32>(system, out, 32 + lane);
    else solve_column<0>(system, out, lane);
}

template <int D> static plim_status launch(plim_device *d, const delta_view &a)
{
    const size_t bytes = tile_bytes(D) + sizeof(delta_decays);
    TRY(plim_cuda_delta_shared(d, (const void *)delta_solve_kernel<D>, bytes, "delta rule"));
    PLIM_LAUNCH(delta_solve_kernel<D>, (unsigned)(a.chunk_count * a.value_heads), 64, bytes, d->compute)(a);
    return plim_cuda_launched(d, "delta rule: solve");
}

plim_status plim_cuda_delta_solve(plim_device *d, const delta_view &a, int padded)
{
    return padded == 128 ? launch<128>(d, a) : padded == 64 ? launch<64>(d, a) : launch<32>(d, a);
}
