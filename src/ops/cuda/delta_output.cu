// delta_output.cu - phases F3 and B1 of the delta rule: the products inside a chunk, outside the scans.
#include "ops/cuda/delta.h"

/* Rows 16 tile .. of left right^T, columns below 16 (last + 1) and from 16 first, both 64 x D with pitch D
 * + 8. */
template <int D>
__device__ static inline void scores(float (&acc)[8][4], const bf16 *left, const bf16 *right, int tile,
                                     int first, int last)
{
    clear(acc);
#pragma unroll
    for (int x = 0; x < D; x += 16) {
        uint32_t l[4], r[4];
        ldsm(l, along<D + 8>(left, 16 * tile, x));
#pragma unroll
        for (int n = 0; n < 4; n++)
            if (n >= first && n <= last) {
                ldsm(r, across<D + 8>(right, 16 * n, x));
                mma(acc[2 * n], l, r[0], r[1]);
                mma(acc[2 * n + 1], l, r[2], r[3]);
            }
    }
}

/* O = diag(e^b) Q S + P D, P = tril((Q K^T) Gamma).
 * Launch: 4 warps of 16 rows a chunk and value head; D takes K's place once P is made.
 * Traffic: Q, K, S, D in, O out: 2 Dk Dv + 256 Dk + 256 Dv B a chunk and head (Q, K shared in L2 by a group).
 * Numerics: operands bf16, P rounded once; e^b scales the fp32 product; one rounding on store.  Same bits
 * every run. */
template <int D> static __global__ void __launch_bounds__(128, 3) delta_output_kernel(delta_view a)
{
    unsigned char *shared = dynamic_shared();
    bf16 *q = (bf16 *)shared, *k = q + DELTA_ROWS * (D + 8), *s = k + DELTA_ROWS * (D + 8), *d = k;
    delta_decays *decay = (delta_decays *)(s + D * D);
    const int chunk = blockIdx.x / a.value_heads, head = blockIdx.x % a.value_heads;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const plim_chunk c = a.chunks[chunk];
    const int64_t key_column = (int64_t)(head / a.group) * a.key_dim;
    load_rows<D, 128>(q, a.q, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    load_rows<D, 128>(k, a.k, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    cp_commit();
    load_blocks<D / 8, D / 8, 128>(s, region(a.s, a, chunk, head, a.key_dim * a.value_dim), a.value_dim / 8,
                                   a.key_dim / 8, threadIdx.x);
    cp_commit();
    if (warp == 0) write_decays(decay, load_gates(a, c.first, c.rows, head));
    cp_wait<1>();
    __syncthreads();

    uint32_t p[4][4]; /* P, as left operand */
    const int row = 16 * warp + g;
    {
        float acc[8][4];
        scores<D>(acc, q, k, warp, 0, warp);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int y = 0; y < 2; y++) {
                const int i = row + 8 * y, j = 8 * n + 2 * t;
                const float2 b = pair_at(decay->b, j);
                const float bi = decay->b[i];
                p[n / 2][2 * (n & 1) + y] = pack(i >= j ? acc[n][2 * y] * __expf(bi - b.x) : 0.0f,
                                                 i >= j + 1 ? acc[n][2 * y + 1] * __expf(bi - b.y) : 0.0f);
            }
    }
    __syncthreads(); /* K has been read */
    load_blocks<D / 8, 8, 128>(d, region(a.d, a, chunk, head, DELTA_ROWS * a.value_dim), a.value_dim / 8, 8,
                               threadIdx.x);
    cp_commit();
    cp_wait<1>();
    __syncthreads();

    float o[D / 8][4];
    clear(o);
#pragma unroll
    for (int x = 0; x < D; x += 16) {
        uint32_t left[4], right[4];
        ldsm(left, along<D + 8>(q, 16 * warp, x));
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            ldsm(right, across_blocks<D / 8>(s, 16 * n, x));
            mma(o[2 * n], left, right[0], right[1]);
            mma(o[2 * n + 1], left, right[2], right[3]);
        }
    }
    const float begin[2] = {decay->begin[row], decay->begin[row + 8]};
    for (int n = 0; n < D / 8; n++)
        for (int i = 0; i < 4; i++) o[n][i] *= begin[i >> 1];
    cp_wait<0>();
    __syncthreads();
#pragma unroll
    for (int x = 0; x < 4; x++)
        if (x <= warp) {
            uint32_t right[4];
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                ldsm(right, across_blocks<8>(d, 16 * n, 16 * x));
                mma(o[2 * n], p[x], right[0], right[1]);
                mma(o[2 * n + 1], p[x], right[2], right[3]);
            }
        }

    /* A warp's rows of Q have had their last reader: itself. */
    for (int n = 0; n < D / 8; n++)
        for (int y = 0; y < 2; y++)
            *reinterpret_cast<uint32_t *>(q + (row + 8 * y) * (D + 8) + 8 * n + 2 * t) =
                pack(o[n][2 * y], o[n][2 * y + 1]);
    __syncwarp();
    for (int u = lane; u < 2 * D; u += 32) {
        const int r = 16 * warp + u / (D / 8), col = u % (D / 8) * 8;
        if (r < c.rows && col < a.value_dim)
            *reinterpret_cast<uint4 *>(a.o.at((int64_t)c.first + r, (int64_t)head * a.value_dim + col)) =
                *reinterpret_cast<const uint4 *>(q + r * (D + 8) + col);
    }
}

/* P^T dO, kept transposed: (P^T dO)^T = dO^T P.
 * Launch: 4 warps of 16 rows (of P^T) a chunk and value head.
 * Traffic: Q, K, dO in, P^T dO out: 256 Dk + 256 Dv B a chunk and head (Q, K shared in L2 by a group).
 * Numerics: as above; one rounding on store. */
template <int D> static __global__ void __launch_bounds__(128, 3) delta_inner_kernel(delta_view a)
{
    unsigned char *shared = dynamic_shared();
    bf16 *q = (bf16 *)shared, *k = q + DELTA_ROWS * (D + 8), *dout = k + DELTA_ROWS * (D + 8);
    delta_decays *decay = (delta_decays *)(dout + DELTA_ROWS * (D + 8));
    const int chunk = blockIdx.x / a.value_heads, head = blockIdx.x % a.value_heads;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const plim_chunk c = a.chunks[chunk];
    const int64_t key_column = (int64_t)(head / a.group) * a.key_dim;
    load_rows<D, 128>(q, a.q, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    load_rows<D, 128>(k, a.k, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    cp_commit();
    load_rows<D, 128>(dout, a.dout, c.first, c.rows, (int64_t)head * a.value_dim, a.value_dim, threadIdx.x);
    cp_commit();
    if (warp == 0) write_decays(decay, load_gates(a, c.first, c.rows, head));
    cp_wait<1>();
    __syncthreads();

    uint32_t p[4][2][2]; /* P as right operand: rows 16 x .., columns 16 warp + 8 y .. */
    {
        float acc[8][4];
        scores<D>(acc, k, q, warp, warp, 3);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int y = 0; y < 2; y++) {
                const int j = 16 * warp + g + 8 * y, i = 8 * n + 2 * t;
                const float2 b = pair_at(decay->b, i);
                const float bj = decay->b[j];
                p[n / 2][y][n & 1] = pack(i >= j ? acc[n][2 * y] * __expf(b.x - bj) : 0.0f,
                                          i + 1 >= j ? acc[n][2 * y + 1] * __expf(b.y - bj) : 0.0f);
            }
    }
    cp_wait<0>();
    __syncthreads();
    float out[D / 16][2][4];
    for (int m = 0; m < D / 16; m++) clear(out[m]);
#pragma unroll
    for (int x = 0; x < 4; x++)
        if (x >= warp) {
            uint32_t left[4];
#pragma unroll
            for (int m = 0; m < D / 16; m++) {
                ldsm_t(left, across<D + 8>(dout, 16 * x, 16 * m));
                mma(out[m][0], left, p[x][0][0], p[x][0][1]);
                mma(out[m][1], left, p[x][1][0], p[x][1][1]);
            }
        }
    uint32_t *to =
        reinterpret_cast<uint32_t *>(region(a.pdo, a, chunk, head, DELTA_ROWS * a.value_dim)) + lane;
#pragma unroll
    for (int m = 0; m < D / 16; m++)
#pragma unroll
        for (int y = 0; y < 2; y++) {
            const int block = 2 * m * 8 + 2 * warp + y;
            if (16 * m < a.value_dim) to[32 * block] = pack(out[m][y][0], out[m][y][1]);
            if (16 * m + 8 < a.value_dim) to[32 * (block + 8)] = pack(out[m][y][2], out[m][y][3]);
        }
}

template <int D> static plim_status launch_output(plim_device *d, const delta_view &a)
{
    const size_t bytes = sizeof(bf16) * (2 * DELTA_ROWS * (D + 8) + D * D) + sizeof(delta_decays);
    TRY(plim_cuda_delta_shared(d, (const void *)delta_output_kernel<D>, bytes, "delta rule"));
    PLIM_LAUNCH(delta_output_kernel<D>, (unsigned)(a.chunk_count * a.value_heads), 128, bytes, d->compute)(a);
    return plim_cuda_launched(d, "delta rule: output");
}

template <int D> static plim_status launch_inner(plim_device *d, const delta_view &a)
{
    const size_t bytes = sizeof(bf16) * 3 * DELTA_ROWS * (D + 8) + sizeof(delta_decays);
    TRY(plim_cuda_delta_shared(d, (const void *)delta_inner_kernel<D>, bytes, "delta rule"));
    PLIM_LAUNCH(delta_inner_kernel<D>, (unsigned)(a.chunk_count * a.value_heads), 128, bytes, d->compute)(a);
    return plim_cuda_launched(d, "delta rule: inner products");
}

plim_status plim_cuda_delta_output(plim_device *d, const delta_view &a, int padded)
{
    return padded == 128  ? launch_output<128>(d, a)
           : padded == 64 ? launch_output<64>(d, a)
                          : launch_output<32>(d, a);
}

plim_status plim_cuda_delta_inner(plim_device *d, const delta_view &a, int padded)
{
    return padded == 128  ? launch_inner<128>(d, a)
           : padded == 64 ? launch_inner<64>(d, a)
                          : launch_inner<32>(d, a);
}
