/* delta.h - what the kernels of the gated delta rule share: arguments, tiles of a chunk, decays.
 *
 * A head of Dk or Dv columns (multiples of 8, 128 at most) is padded with zeros to D = 32, 64 or 128, a chunk
 * to 64 rows; padded rows have q = k = v = 0, beta = 0, g = 0 (docs/maths.md 4.1).
 *
 * S, D, dS', dR and P^T dO live transposed in their regions of the scratch, [Dv, Dk] or [Dv, 64], cut into
 * blocks of 8 x 8 elements of 128 neighbouring bytes: the scans hold their accumulators that way round, so a
 * warp stores a block with one full line, and a block can be read as either operand of a product without bank
 * conflicts. */
#ifndef PLIM_OPS_CUDA_DELTA_H
#define PLIM_OPS_CUDA_DELTA_H

#include "ops/cuda/elements.h"
#include "ops/cuda/instructions.h"

enum { DELTA_ROWS = PLIM_CHUNK_TOKENS, DELTA_SOLVE_PITCH = DELTA_ROWS + 8 };

struct delta_view {
    rows_of<const bf16> q, k, v, dout;
    rows_of<const float> g, beta;
    rows_of<bf16> o, dq, dk, dv;
    rows_of<float> state, dstate, dg, dbl;
    bf16 *s, *t, *d, *ds, *dr, *pdo; /* regions of the scratch */
    const plim_chunk *chunks;
    int chunk_count, value_heads, group, key_dim, value_dim;
};

/* Phases, each in a file of its own; padded: D.  They check their launch. */
plim_status plim_cuda_delta_solve(plim_device *d, const delta_view &a, int padded);
plim_status plim_cuda_delta_scan_fwd(plim_device *d, const delta_view &a, int padded, bool write_state);
plim_status plim_cuda_delta_output(plim_device *d, const delta_view &a, int padded);
plim_status plim_cuda_delta_inner(plim_device *d, const delta_view &a, int padded);
plim_status plim_cuda_delta_scan_bwd(plim_device *d, const delta_view &a, int padded);
plim_status plim_cuda_delta_gradients(plim_device *d, const delta_view &a, int padded);

/* Lets a kernel use bytes of shared memory; PLIM_E_UNSUPPORTED names the card that has less. */
static inline plim_status plim_cuda_delta_shared(plim_device *d, const void *kernel, size_t bytes,
                                                 const char *op)
{
    if (bytes > d->prop.sharedMemPerBlockOptin)
        return plim_fail(d->ctx, PLIM_E_UNSUPPORTED,
                         "%s needs %zu bytes of shared memory a block; %s has %zu", op, bytes, d->prop.name,
                         d->prop.sharedMemPerBlockOptin);
    CUDA_TRY(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), op);
    return PLIM_OK;
}

/* ---- addresses of fragments ------------------------------------------------------------------------------
 */

/* Where a lane's row lies when a 16 x 16 piece at (r, c) is fetched by ldsm: `along` gives blocks in the
 * order (0,0) (8,0) (0,8) (8,8), `across` (0,0) (0,8) (8,0) (8,8). A stored [m, k]: ldsm of along; A stored
 * [k, m]: ldsm_t of across; B stored [n, k]: ldsm of across; B stored [k, n]: ldsm_t of along; words 0, 1 are
 * columns 0 .. 7, 2, 3 the next. Row-major, PITCH elements a row (16 bytes more than its columns, against
 * bank conflicts). */
template <int PITCH> __device__ static inline const bf16 *along(const bf16 *p, int r, int c)
{
    const int lane = threadIdx.x & 31;
    return p + (r + (lane & 15)) * PITCH + c + (lane >> 4) * 8;
}

template <int PITCH> __device__ static inline const bf16 *across(const bf16 *p, int r, int c)
{
    const int lane = threadIdx.x & 31;
    return p + (r + (lane & 7) + (lane >> 4) * 8) * PITCH + c + ((lane >> 3) & 1) * 8;
}

/* The same in blocks of 8 x 8, COLS of them side by side; r and c are multiples of 16. */
template <int COLS> __device__ static inline const bf16 *along_blocks(const bf16 *p, int r, int c)
{
    const int lane = threadIdx.x & 31;
    return p + (r / 8 + ((lane >> 3) & 1)) * (COLS * 64) + (c / 8 + (lane >> 4)) * 64 + (lane & 7) * 8;
}

template <int COLS> __device__ static inline const bf16 *across_blocks(const bf16 *p, int r, int c)
{
    const int lane = threadIdx.x & 31;
    return p + (r / 8 + (lane >> 4)) * (COLS * 64) + (c / 8 + ((lane >> 3) & 1)) * 64 + (lane & 7) * 8;
}

template <int N> __device__ static inline void clear(float (&x)[N][4])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 4; j++) x[i][j] = 0.0f;
}

/* ---- loading ---------------------------------------------------------------------------------------------
 */

/* Columns col .. col + D - 1 (those below limit) of rows `row` on, `rows` of them, to 64 x D with pitch D +
 * 8, by THREADS threads: each keeps its column and steps down. */
template <int D, int THREADS>
__device__ static inline void load_rows(bf16 *to, const rows_of<const bf16> &from, int64_t row, int rows,
                                        int64_t col, int limit, int thread)
{
    constexpr int UNITS = D / 8, STEP = THREADS / UNITS;
    const int r = thread / UNITS, c = thread % UNITS * 8, end = c < limit ? rows : 0;
    const bf16 *source = from.at(row + r, col + c);
    to += r * (D + 8) + c;
#pragma unroll
    for (int i = 0; i < DELTA_ROWS / STEP; i++) {
        const bool valid = r + i * STEP < end;
        cp16(to + i * STEP * (D + 8), valid ? source : from.data, valid);
        source += STEP * from.pitch;
    }
}

/* T, without the blocks above its diagonal, which nobody reads. */
template <int THREADS> __device__ static inline void load_solve(bf16 *to, const bf16 *from, int thread)
{
    constexpr int UNITS = DELTA_ROWS / 8, STEP = THREADS / UNITS;
    const int r = thread / UNITS, c = thread % UNITS * 8;
#pragma unroll
    for (int i = 0; i < DELTA_ROWS; i += STEP)
        if (c <= ((r + i) | 15))
            cp16(to + (r + i) * DELTA_SOLVE_PITCH + c, from + (r + i) * DELTA_ROWS + c, true);
}

/* Blocks of a region: rows x cols of them lie in a grid of ROWS x COLS. */
template <int ROWS, int COLS, int THREADS>
__device__ static inline void load_blocks(bf16 *to, const bf16 *from, int rows, int cols, int thread)
{
    if (rows >= ROWS && cols == COLS) {
#pragma unroll
        for (int u = 0; u < ROWS * COLS * 8; u += THREADS)
            if (ROWS * COLS * 8 % THREADS == 0 || u + thread < ROWS * COLS * 8)
                cp16(to + (u + thread) * 8, from + (u + thread) * 8, true);
        return;
    }
    for (int u = thread; u < ROWS * COLS * 8; u += THREADS) {
        const int line = u & 7, block = u >> 3, r = block / COLS, c = block % COLS;
        const bool valid = r < rows && c < cols;
        cp16(to + u * 8, valid ? from + ((r * cols + c) * 8 + line) * 8 : from, valid);
    }
}

/* A chunk's block of a region: size elements for every chunk and value head. */
template <typename T>
__device__ static inline T *region(T *base, const delta_view &a, int chunk, int head, int size)
{
    return base + ((int64_t)chunk * a.value_heads + head) * size;
}

/* Moves the fp32 state of 16 value columns of a head between its view and a warp's accumulators. */
template <int D, bool STORE>
__device__ static inline void move_state(float (&s)[D / 8][4], const rows_of<float> &view,
                                         const delta_view &a, int head, int column)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = 8 * n + 2 * t + (i & 1), value = column + g + (i >> 1) * 8;
            const bool valid = key < a.key_dim && value < a.value_dim;
            float *at = valid ? view.at((int64_t)head * a.key_dim + key, value) : nullptr;
            if (STORE && valid) *at = s[n][i];
            if (!STORE) s[n][i] = valid ? *at : 0.0f;
        }
}

/* ---- decays ----------------------------------------------------------------------------------------------
 */

/* Of rows 2 lane and 2 lane + 1 of a chunk, held by a warp. */
struct delta_gates {
    float g[2], beta[2];
};

__device__ static inline delta_gates load_gates(const delta_view &a, int first, int rows, int head)
{
    const int row = 2 * (threadIdx.x & 31);
    delta_gates x;
    for (int i = 0; i < 2; i++) {
        const bool valid = row + i < rows;
        x.g[i] = valid ? *a.g.at((int64_t)first + row + i, head) : 0.0f;
        x.beta[i] = valid ? *a.beta.at((int64_t)first + row + i, head) : 0.0f;
    }
    return x;
}

/* What a chunk's decays are used as: b, e^b, e^(lambda - b), beta, e^lambda (4.2). */
struct delta_decays {
    float b[DELTA_ROWS], begin[DELTA_ROWS], end[DELTA_ROWS], beta[DELTA_ROWS];
    float whole, unused[3];
};

/* Sums g in a fixed order and writes the table; a whole warp calls it. */
__device__ static inline void write_decays(delta_decays *to, const delta_gates &x)
{
    const int lane = threadIdx.x & 31;
    float sum = x.g[0] + x.g[1];
    for (int i = 1; i < 32; i *= 2) {
        const float lower = __shfl_up_sync(0xffffffffu, sum, i);
        if (lane >= i) sum += lower;
    }
    float before = __shfl_up_sync(0xffffffffu, sum, 1);
    if (lane == 0) before = 0.0f;
    const float b0 = before + x.g[0], last = __shfl_sync(0xffffffffu, sum, 31);
    reinterpret_cast<float2 *>(to->b)[lane] = make_float2(b0, sum);
    reinterpret_cast<float2 *>(to->begin)[lane] = make_float2(__expf(b0), __expf(sum));
    reinterpret_cast<float2 *>(to->end)[lane] = make_float2(__expf(last - b0), __expf(last - sum));
    reinterpret_cast<float2 *>(to->beta)[lane] = make_float2(x.beta[0], x.beta[1]);
    if (lane == 0) to->whole = __expf(last);
}

__device__ static inline float2 pair_at(const float *x, int i)
{
    return *reinterpret_cast<const float2 *>(x + i);
}

#endif
