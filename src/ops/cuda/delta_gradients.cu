// delta_gradients.cu - phase B3 of the delta rule: dQ, dK, dV, dbl and dg of a chunk, key head by key head.
#include "ops/cuda/delta.h"

enum { SCORE_PITCH = DELTA_ROWS + 8 };

/* A chunk's 64 rows are four tiles of 16; COLS warps share the columns of each. */
template <int D> struct gradient_shape {
    static constexpr int COLS = D < 64 ? 2 : 4, THREADS = 128 * COLS;
};

/* Per value head, in shared memory: partial sums of the slope of b, each written by one warp. */
struct delta_slopes {
    float row[4][DELTA_ROWS], column[4][DELTA_ROWS], write[4][DELTA_ROWS], states[16], dot[2][DELTA_ROWS];
};

template <int D> struct __align__(16) gradient_tiles
{
    bf16 q[DELTA_ROWS * (D + 8)], k[DELTA_ROWS * (D + 8)], dout[DELTA_ROWS * (D + 8)];
    bf16 de[DELTA_ROWS * D], d[DELTA_ROWS * D], s[D * D],
        ds[D * D];         /* in blocks, value columns first; de: dR at first */
    delta_decays decay[2]; /* of this value head and the next */
    delta_slopes slope;
    bf16 scores[2 * DELTA_ROWS * SCORE_PITCH]; /* N, M: last, for a card that lays them over s */
};

template <int D>
__device__ static inline void load_states(gradient_tiles<D> *x, const delta_view &a, int chunk, int head)
{
    const int size = a.key_dim * a.value_dim, rows = a.value_dim / 8, cols = a.key_dim / 8;
    load_blocks<D / 8, D / 8, gradient_shape<D>::THREADS>(x->s, region(a.s, a, chunk, head, size), rows, cols,
                                                          threadIdx.x);
    load_blocks<D / 8, D / 8, gradient_shape<D>::THREADS>(x->ds, region(a.ds, a, chunk, head, size), rows,
                                                          cols, threadIdx.x);
    cp_commit();
}

template <int D>
__device__ static inline void load_rows_of_head(gradient_tiles<D> *x, const delta_view &a,
                                                const plim_chunk &c, int chunk, int head)
{
    const int size = DELTA_ROWS * a.value_dim;
    load_rows<D, gradient_shape<D>::THREADS>(x->dout, a.dout, c.first, c.rows, (int64_t)head * a.value_dim,
                                             a.value_dim, threadIdx.x);
    load_blocks<D / 8, 8, gradient_shape<D>::THREADS>(x->de, region(a.dr, a, chunk, head, size),
                                                      a.value_dim / 8, 8, threadIdx.x);
    load_blocks<D / 8, 8, gradient_shape<D>::THREADS>(x->d, region(a.d, a, chunk, head, size),
                                                      a.value_dim / 8, 8, threadIdx.x);
    cp_commit();
}

/* dE = diag(beta) dR in place, <dR_i, D_i>, and dV = dE: a warp takes 8 rows of the chunk and half of the
 * columns, or all of them where there are 8 warps. */
template <int D>
__device__ static inline void finish_solve(gradient_tiles<D> *x, const delta_view &a, const plim_chunk &c,
                                           int head, const delta_decays *decay)
{
    constexpr int PARTS = gradient_shape<D>::THREADS / 256, BLOCKS = D / 8 / PARTS;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 7, part = threadIdx.x >> 8, g = lane >> 2,
              t = lane & 3;
    const float2 beta = pair_at(decay->beta, 8 * warp + 2 * t);
    float2 dot = make_float2(0.0f, 0.0f);
    uint32_t *de = reinterpret_cast<uint32_t *>(x->de) + 32 * warp + lane;
    const uint32_t *d = reinterpret_cast<const uint32_t *>(x->d) + 32 * warp + lane;
    const bool there = 8 * warp + g < c.rows;
#pragma unroll
    for (int n = part * BLOCKS; n < (part + 1) * BLOCKS;
         n += 2) { /* lane (g, t): value column 8 n + g, rows 2t and 2t + 1 of the warp's 8 */
        uint32_t out[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float2 r = unpack(de[256 * (n + i)]), w = unpack(d[256 * (n + i)]);
            dot.x += r.x * w.x;
            dot.y += r.y * w.y;
            const uint32_t e = pack(beta.x * r.x, beta.y * r.y);
            de[256 * (n + i)] = e;
            out[i] = transpose8(e); /* row g, value columns 8 (n + i) + 2t and the next */
        }
        const bool odd = t & 1;
        const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? out[0] : out[1], 1);
        const int col =
            8 * (n + odd) + 2 * (t & 2); /* four columns: even lanes of block n, odd ones of n + 1 */
        const uint2 four = odd ? make_uint2(other, out[1]) : make_uint2(out[0], other);
        if (there && col < a.value_dim)
            *reinterpret_cast<uint2 *>(
                a.dv.at((int64_t)c.first + 8 * warp + g, (int64_t)head * a.value_dim + col)) = four;
    }
    for (int i = 4; i < 32; i *= 2) {
        dot.x += __shfl_xor_sync(0xffffffffu, dot.x, i);
        dot.y += __shfl_xor_sync(0xffffffffu, dot.y, i);
    }
    if (g == 0) reinterpret_cast<float2 *>(x->slope.dot[part] + 8 * warp)[t] = dot;
}

/* Sum over the four lanes of a row. */
__device__ static inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* <row of tile, accumulators> of rows row and row + 8, this lane's columns from first on. */
template <int D, int N>
__device__ static inline void row_dots(float (&sum)[2], const bf16 *tile, const float (&acc)[N][4], int row,
                                       int first)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int y = 0; y < 2; y++) {
            const float2 v =
                unpack(*reinterpret_cast<const uint32_t *>(tile + (row + 8 * y) * (D + 8) + first + 8 * n));
            sum[y] += v.x * acc[n][2 * y] + v.y * acc[n][2 * y + 1];
        }
}

/* left right^T over 16 rows and 8 N columns from 16 tile, first on: both 64 x D, pitch D + 8. */
template <int D, int N>
__device__ static inline void pair_scores(float (&acc)[N][4], const bf16 *left, const bf16 *right, int tile,
                                          int first)
{
    clear(acc);
#pragma unroll
    for (int x = 0; x < D; x += 16) {
        uint32_t l[4], r[4];
        ldsm(l, along<D + 8>(left, 16 * tile, x));
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            ldsm(r, across<D + 8>(right, first + 8 * n, x));
            mma(acc[n], l, r[0], r[1]);
            mma(acc[n + 1], l, r[2], r[3]);
        }
    }
}

/* dg, dbl of a value head from the partial sums; a warp, lane l with rows 2l and 2l + 1. */
template <int COLS>
__device__ static inline void store_slopes(const delta_slopes *x, const delta_view &a, const plim_chunk &c,
                                           int head, const delta_decays *decay)
{
    const int lane = threadIdx.x & 31, row = 2 * lane;
    float slope[2], write = 0.0f, states = 0.0f;
    for (int i = 0; i < 2; i++) {
        const int r = row + i;
        float rows = 0.0f, columns = 0.0f, y = 0.0f;
        for (int w = 0; w < COLS; w++) rows += x->row[w][r], y += x->write[w][r];
        for (int w = 0; w < 4; w++) columns += x->column[w][r];
        slope[i] = rows - columns - y;
        write += y;
    }
    write = warp_sum(write);
    for (int w = 0; w < 4 * COLS; w++) states += x->states[w];
    if (lane == 31) slope[1] += decay->whole * states + write;
    float sum = slope[0] + slope[1]; /* of this lane's rows and all after them */
    for (int i = 1; i < 32; i *= 2) {
        const float upper = __shfl_down_sync(0xffffffffu, sum, i);
        if (lane + i < 32) sum += upper;
    }
    float after = __shfl_down_sync(0xffffffffu, sum, 1);
    if (lane == 31) after = 0.0f;
    const float dg[2] = {sum, after + slope[1]};
    for (int i = 0; i < 2; i++)
        if (row + i < c.rows) {
            *a.dg.at((int64_t)c.first + row + i, head) = dg[i];
            const float dot = x->dot[0][row + i] + (COLS == 4 ? x->dot[1][row + i] : 0.0f);
            *a.dbl.at((int64_t)c.first + row + i, head) = (1.0f - decay->beta[row + i]) * dot;
        }
}

/* 16 rows x 8 N columns of a warp, to its part of a tile. */
template <int D, int N>
__device__ static inline void place(bf16 *tile, const float (&acc)[N][4], int row, int col)
{
    for (int n = 0; n < N; n++)
        for (int y = 0; y < 2; y++)
            *reinterpret_cast<uint32_t *>(tile + (row + 8 * y) * (D + 8) + col + 8 * n) =
                pack(acc[n][2 * y], acc[n][2 * y + 1]);
}

template <int D>
__device__ static inline void store_rows(const rows_of<bf16> &to, const bf16 *tile, const plim_chunk &c,
                                         int64_t col, int limit)
{
    for (int u = threadIdx.x; u < DELTA_ROWS * D / 8; u += gradient_shape<D>::THREADS) {
        const int r = u / (D / 8), x = u % (D / 8) * 8;
        if (r < c.rows && x < limit)
            *reinterpret_cast<uint4 *>(to.at((int64_t)c.first + r, col + x)) =
                *reinterpret_cast<const uint4 *>(tile + r * (D + 8) + x);
    }
}

/* N = tril(dO D^T) Gamma, M = -stril(dE D^T) Gamma,
 * dQ = diag(e^b) dO S^T + N K, dK = M K - diag(e^b) dE S^T + N^T Q + M^T K + diag(e^(lambda - b)) D dS'^T,
 * summed over the value heads of a key head in their order; dV = dE; dbl, dg by the x form of
 * docs/maths.md 4.5. Launch: 4 x COLS warps a chunk and key head, 16 rows by a part of the columns each; the
 * next value head's tiles come in as soon as their places have had their last reader (overlap; without it N
 * and M lie over S, and loads wait). Traffic: per value head dO, dR, D, S, dS' in, dV out: 4 Dk Dv + 512 Dv
 * B; per key head Q, K in, dQ, dK out. Numerics: operands bf16 (dE, N, M rounded once), sums fp32, rows
 * scaled in fp32 after the product; slopes of b, dg, dbl fp32.  Fixed order of sums. */
template <int D>
static __global__ void __launch_bounds__(gradient_shape<D>::THREADS, 1)
    delta_gradients_kernel(delta_view a, bool overlap)
{
    unsigned char *shared = dynamic_shared();
    constexpr int COLS = gradient_shape<D>::COLS, N = D / 8 / COLS,
                  P = 8 / COLS; /* accumulators across key columns, rows */
    gradient_tiles<D> *x = (gradient_tiles<D> *)shared;
    bf16 *scores = overlap ? x->scores : x->s, *other_scores = scores + DELTA_ROWS * SCORE_PITCH; /* N, M */
    const int key_heads = a.value_heads / a.group;
    const int chunk = blockIdx.x / key_heads, key_head = blockIdx.x % key_heads,
              first_head = key_head * a.group;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int tile = warp & 3, part = warp >> 2, row = 16 * tile + g, col = part * (D / COLS),
              at = part * (64 / COLS);
    const plim_chunk c = a.chunks[chunk];
    const int64_t key_column = (int64_t)key_head * a.key_dim;
    load_rows<D, gradient_shape<D>::THREADS>(x->q, a.q, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    load_rows<D, gradient_shape<D>::THREADS>(x->k, a.k, c.first, c.rows, key_column, a.key_dim, threadIdx.x);
    load_rows_of_head(x, a, c, chunk, first_head);
    load_states(x, a, chunk, first_head);
    if (warp == 0) write_decays(&x->decay[0], load_gates(a, c.first, c.rows, first_head));
    cp_wait<1>();
    __syncthreads();
    float qk[P][4], kk[P][4]; /* Q K^T and K K^T at (row, at + 2t) */
    pair_scores<D, P>(qk, x->q, x->k, tile, at);
    pair_scores<D, P>(kk, x->k, x->k, tile, at);
    float dq[N][4], dk[N][4];
    clear(dq);
    clear(dk);

    for (int i = 0; i < a.group; i++) {
        const int head = first_head + i;
        const bool more = i + 1 < a.group;
        const delta_decays *decay = &x->decay[i & 1];
        cp_wait<0>();
        __syncthreads();
        finish_solve(x, a, c, head, decay);
        __syncthreads();

        float slope[2] = {0.0f, 0.0f}, write[2] = {0.0f, 0.0f};
        const float begin[2] = {decay->begin[row], decay->begin[row + 8]};
        {
            float read[N][4], solved[N][4]; /* dO S^T, dE S^T */
            clear(read);
            clear(solved);
#pragma unroll
            for (int v = 0; v < D; v += 16) {
                uint32_t left[4], left_e[4], right[4];
                ldsm(left, along<D + 8>(x->dout, 16 * tile, v));
                ldsm_t(left_e, across_blocks<8>(x->de, v, 16 * tile));
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    ldsm_t(right, along_blocks<D / 8>(x->s, v, col + 8 * n));
                    mma(read[n], left, right[0], right[1]);
                    mma(read[n + 1], left, right[2], right[3]);
                    mma(solved[n], left_e, right[0], right[1]);
                    mma(solved[n + 1], left_e, right[2], right[3]);
                }
            }
            float by_q[2] = {0.0f, 0.0f}, by_k[2] = {0.0f, 0.0f};
            row_dots<D, N>(by_q, x->q, read, row, col + 2 * t);
            row_dots<D, N>(by_k, x->k, solved, row, col + 2 * t);
            for (int y = 0; y < 2; y++) slope[y] += begin[y] * (by_q[y] - by_k[y]);
            for (int n = 0; n < N; n++)
                for (int y = 0; y < 4; y++) {
                    dq[n][y] += begin[y >> 1] * read[n][y];
                    dk[n][y] -= begin[y >> 1] * solved[n][y];
                }
        }
        {
            float written[N][4]; /* D dS'^T */
            clear(written);
#pragma unroll
            for (int v = 0; v < D; v += 16) {
                uint32_t left[4], right[4];
                ldsm_t(left, across_blocks<8>(x->d, v, 16 * tile));
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    ldsm_t(right, along_blocks<D / 8>(x->ds, v, col + 8 * n));
                    mma(written[n], left, right[0], right[1]);
                    mma(written[n + 1], left, right[2], right[3]);
                }
            }
            const float end[2] = {decay->end[row], decay->end[row + 8]};
            row_dots<D, N>(write, x->k, written, row, col + 2 * t);
            for (int y = 0; y < 2; y++) write[y] *= end[y];
            for (int n = 0; n < N; n++)
                for (int y = 0; y < 4; y++) dk[n][y] += end[y >> 1] * written[n][y];
        }
        {
            float sum = 0.0f; /* <S, dS'> */
            for (int u = threadIdx.x; u < D * D / 8; u += gradient_shape<D>::THREADS) {
                float s[8], ds[8];
                load(x->s + 8 * u, s);
                load(x->ds + 8 * u, ds);
                for (int y = 0; y < 8; y++) sum += s[y] * ds[y];
            }
            sum = warp_sum(sum);
            if (lane == 0) x->slope.states[warp] = sum;
        }
        __syncthreads(); /* S and dS' have been read */
        if (more && overlap) load_states(x, a, chunk, head + 1);

        {
            float low[P][4], low_e[P][4]; /* dO D^T, dE D^T */
            clear(low);
            clear(low_e);
#pragma unroll
            for (int v = 0; v < D; v += 16) {
                uint32_t left[4], left_e[4], right[4];
                ldsm(left, along<D + 8>(x->dout, 16 * tile, v));
                ldsm_t(left_e, across_blocks<8>(x->de, v, 16 * tile));
#pragma unroll
                for (int n = 0; n < P; n += 2) {
                    ldsm_t(right, along_blocks<8>(x->d, v, at + 8 * n));
                    mma(low[n], left, right[0], right[1]);
                    mma(low[n + 1], left, right[2], right[3]);
                    mma(low_e[n], left_e, right[0], right[1]);
                    mma(low_e[n + 1], left_e, right[2], right[3]);
                }
            }
#pragma unroll
            for (int n = 0; n < P; n++) {
                const int j = at + 8 * n + 2 * t;
                const float2 b = pair_at(decay->b, j);
                float columns[2] = {0.0f, 0.0f};
#pragma unroll
                for (int y = 0; y < 2; y++) {
                    const int r = row + 8 * y;
                    const float br = decay->b[r];
#pragma unroll
                    for (int z = 0; z < 2; z++) {
                        const float gamma = r >= j + z ? __expf(br - (z ? b.y : b.x)) : 0.0f;
                        float &o = low[n][2 * y + z], &e = low_e[n][2 * y + z];
                        o = r >= j + z ? o * gamma : 0.0f;
                        e = r > j + z ? -e * gamma : 0.0f;
                        const float pair = r > j + z ? o * qk[n][2 * y + z] + e * kk[n][2 * y + z] : 0.0f;
                        slope[y] += pair;
                        columns[z] += pair;
                    }
                    *reinterpret_cast<uint32_t *>(scores + r * SCORE_PITCH + j) =
                        pack(low[n][2 * y], low[n][2 * y + 1]);
                    *reinterpret_cast<uint32_t *>(other_scores + r * SCORE_PITCH + j) =
                        pack(low_e[n][2 * y], low_e[n][2 * y + 1]);
                }
                for (int z = 0; z < 2; z++) {
                    for (int y = 4; y < 32; y *= 2) columns[z] += __shfl_xor_sync(0xffffffffu, columns[z], y);
                    if (g == 0) x->slope.column[tile][j + z] = columns[z];
                }
            }
            for (int y = 0; y < 2; y++) {
                const float s = quad_sum(slope[y]), w = quad_sum(write[y]);
                if (t == 0) {
                    x->slope.row[part][row + 8 * y] = s;
                    x->slope.write[part][row + 8 * y] = w;
                }
            }
        }
        __syncthreads(); /* N, M and the partial sums are there; dO, dE, D have been read */
        if (more && overlap) load_rows_of_head(x, a, c, chunk, head + 1);
        if (warp == 0) store_slopes<COLS>(&x->slope, a, c, head, decay);
        if (warp == 4 && more) write_decays(&x->decay[(i + 1) & 1], load_gates(a, c.first, c.rows, head + 1));

#pragma unroll
        for (int v = 0; v < 4; v++) {
            uint32_t left[4], left_m[4], right[4];
            if (v <= tile) { /* rows of N and M end at the diagonal */
                ldsm(left, along<SCORE_PITCH>(scores, 16 * tile, 16 * v));
                ldsm(left_m, along<SCORE_PITCH>(other_scores, 16 * tile, 16 * v));
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    ldsm_t(right, along<D + 8>(x->k, 16 * v, col + 8 * n));
                    mma(dq[n], left, right[0], right[1]);
                    mma(dq[n + 1], left, right[2], right[3]);
                    mma(dk[n], left_m, right[0], right[1]);
                    mma(dk[n + 1], left_m, right[2], right[3]);
                }
            }
            if (v >= tile) { /* columns begin there */
                ldsm_t(left, across<SCORE_PITCH>(scores, 16 * v, 16 * tile));
                ldsm_t(left_m, across<SCORE_PITCH>(other_scores, 16 * v, 16 * tile));
#pragma unroll
                for (int n = 0; n < N; n += 2) {
                    ldsm_t(right, along<D + 8>(x->q, 16 * v, col + 8 * n));
                    mma(dk[n], left, right[0], right[1]);
                    mma(dk[n + 1], left, right[2], right[3]);
                    ldsm_t(right, along<D + 8>(x->k, 16 * v, col + 8 * n));
                    mma(dk[n], left_m, right[0], right[1]);
                    mma(dk[n + 1], left_m, right[2], right[3]);
                }
            }
        }
        if (more && !overlap) {
            __syncthreads();
            load_rows_of_head(x, a, c, chunk, head + 1);
            load_states(x, a, chunk, head + 1);
        }
    }

    __syncthreads(); /* Q and K have been read */
    place<D, N>(x->q, dq, row, col + 2 * t);
    place<D, N>(x->k, dk, row, col + 2 * t);
    __syncthreads();
    store_rows<D>(a.dq, x->q, c, key_column, a.key_dim);
    store_rows<D>(a.dk, x->k, c, key_column, a.key_dim);
}

template <int D> static plim_status launch(plim_device *d, const delta_view &a)
{
    const size_t all = sizeof(gradient_tiles<D>), less = all - sizeof(gradient_tiles<D>::scores);
    const bool overlap = all <= d->prop.sharedMemPerBlockOptin;
    /* N and M take 18 KiB: more than S below 128 columns, but there everything fits. */
    const bool over_s = D == 128 && !overlap;
    const size_t bytes = over_s ? less : all;
    TRY(plim_cuda_delta_shared(d, (const void *)delta_gradients_kernel<D>, bytes, "delta rule, backward"));
    PLIM_LAUNCH(delta_gradients_kernel<D>, (unsigned)(a.chunk_count * (a.value_heads / a.group)),
                gradient_shape<D>::THREADS, bytes, d->compute)
    (a, !over_s);
    return plim_cuda_launched(d, "delta rule: gradients");
}

plim_status plim_cuda_delta_gradients(plim_device *d, const delta_view &a, int padded)
{
    return padded == 128 ? launch<128>(d, a) : padded == 64 ? launch<64>(d, a) : launch<32>(d, a);
}
