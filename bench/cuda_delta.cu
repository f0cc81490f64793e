/* cuda_delta.cu - the gated delta rule and its neighbours on a card: ms a layer, and GB/s of what has to
 * move. Built by bench/cuda_delta.sh from the kernels' own files.  Random data; median of repeats by CUDA
 * events. */
#include "ops/cuda/delta.h"

#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include "ops/chunk_table.h"
#include "ops/delta_scratch.h"
}

enum { HV = 48, HK = 16, DK = 128, DV = 128, TAPS = 4, REPEATS = 11 };

plim_status plim_cuda_fail(plim_device *d, cudaError_t e, const char *what)
{
    return plim_fail(d->ctx, PLIM_E_CUDA, "%s: %s", what, cudaGetErrorString(e));
}

plim_status plim_cuda_view(plim_device *d, const char *op, const char *name, plim_tensor t, plim_dtype dtype,
                           int64_t rows, int64_t cols)
{
    if (t.dtype == dtype && t.rows == rows && t.cols == cols) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s", op, name);
}

static void must(plim_device *d, plim_status st)
{
    if (!st) return;
    fprintf(stderr, "%s\n", plim_ctx_message(d->ctx));
    exit(1);
}

static void cuda(cudaError_t e)
{
    if (!e) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(e));
    exit(1);
}

/* low + (high - low) u, u from a hash of the index. */
template <typename T>
static __global__ void random_kernel(T *x, int64_t n, uint32_t seed, float low, float high)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u ^ seed ^ (uint32_t)(i >> 32);
        h = (h ^ (h >> 16)) * 0x7feb352du;
        h = (h ^ (h >> 15)) * 0x846ca68bu;
        h ^= h >> 16;
        x[i] = from_float<T>(low + (high - low) * ((float)(h >> 8) * (1.0f / 16777216.0f)));
    }
}

static plim_tensor make(plim_dtype type, int64_t rows, int64_t cols, double low, double high)
{
    static uint32_t seed = 1;
    plim_tensor t = {NULL, type, rows, cols, cols};
    const int64_t n = rows * cols;
    cuda(cudaMalloc(&t.data, (size_t)n * plim_dtype_bytes(type) + 256));
    seed = seed * 1664525u + 1013904223u;
    if (type == PLIM_BF16) random_kernel<<<1024, 256>>>((bf16 *)t.data, n, seed, (float)low, (float)high);
    else random_kernel<<<1024, 256>>>((float *)t.data, n, seed, (float)low, (float)high);
    cuda(cudaDeviceSynchronize());
    return t;
}

static int by_size(const void *a, const void *b)
{
    return (*(const float *)a > *(const float *)b) - (*(const float *)a < *(const float *)b);
}

typedef struct work {
    plim_device *d;
    plim_delta_args a;
    plim_conv_silu_args conv;
    plim_l2norm_args l2;
    plim_decay_args decay;
    plim_gated_norm_args norm;
    delta_view view;
    int64_t tokens, tile;
    plim_chunk *tables; /* of all tiles, one after another */
    int64_t chunks;     /* of a tile */
} work;

static plim_delta_args tile_of(const work *w, int64_t i)
{
    plim_delta_args a = w->a;
    plim_tensor *const views[] = {&a.q,    &a.k,  &a.v,  &a.g,  &a.beta, &a.o,
                                  &a.dout, &a.dq, &a.dk, &a.dv, &a.dg,   &a.dbl};
    for (plim_tensor *t : views) *t = plim_tensor_rows(*t, i * w->tile, w->tile);
    a.chunks = w->tables + i * w->chunks;
    a.chunk_count = w->chunks;
    return a;
}

static void run_fwd(work *w)
{
    for (int64_t i = 0; i < w->tokens / w->tile; i++) {
        const plim_delta_args a = tile_of(w, i);
        must(w->d, plim_cuda_delta_fwd(w->d, &a));
    }
}

static void run_bwd(work *w)
{
    for (int64_t i = w->tokens / w->tile - 1; i >= 0; i--) {
        const plim_delta_args a = tile_of(w, i);
        must(w->d, plim_cuda_delta_bwd(w->d, &a));
    }
}

static void run_solve(work *w)
{
    must(w->d, plim_cuda_delta_solve(w->d, w->view, 128));
}
static void run_scan_fwd(work *w)
{
    must(w->d, plim_cuda_delta_scan_fwd(w->d, w->view, 128, true));
}
static void run_output(work *w)
{
    must(w->d, plim_cuda_delta_output(w->d, w->view, 128));
}
static void run_inner(work *w)
{
    must(w->d, plim_cuda_delta_inner(w->d, w->view, 128));
}
static void run_scan_bwd(work *w)
{
    must(w->d, plim_cuda_delta_scan_bwd(w->d, w->view, 128));
}
static void run_gradients(work *w)
{
    must(w->d, plim_cuda_delta_gradients(w->d, w->view, 128));
}
static void run_conv_fwd(work *w)
{
    must(w->d, plim_cuda_conv_silu_fwd(w->d, &w->conv));
}
static void run_conv_bwd(work *w)
{
    must(w->d, plim_cuda_conv_silu_bwd(w->d, &w->conv));
}
static void run_l2_fwd(work *w)
{
    must(w->d, plim_cuda_l2norm_fwd(w->d, &w->l2));
}
static void run_l2_bwd(work *w)
{
    must(w->d, plim_cuda_l2norm_bwd(w->d, &w->l2));
}
static void run_decay_fwd(work *w)
{
    must(w->d, plim_cuda_decay_fwd(w->d, &w->decay));
}
static void run_decay_bwd(work *w)
{
    must(w->d, plim_cuda_decay_bwd(w->d, &w->decay));
}
static void run_norm_fwd(work *w)
{
    must(w->d, plim_cuda_gated_norm_fwd(w->d, &w->norm));
}
static void run_norm_bwd(work *w)
{
    must(w->d, plim_cuda_gated_norm_bwd(w->d, &w->norm));
}

/* bytes_per_token: read and written once. */
static void measure(work *w, const char *name, void (*run)(work *), double bytes_per_token)
{
    cudaEvent_t a, b;
    float ms[REPEATS];
    cuda(cudaEventCreate(&a));
    cuda(cudaEventCreate(&b));
    run(w);
    run(w);
    for (int i = 0; i < REPEATS; i++) {
        cuda(cudaEventRecord(a, w->d->compute));
        run(w);
        cuda(cudaEventRecord(b, w->d->compute));
        cuda(cudaEventSynchronize(b));
        cuda(cudaEventElapsedTime(ms + i, a, b));
    }
    qsort(ms, REPEATS, sizeof *ms, by_size);
    printf("%6lld tokens, tiles of %6lld  %-22s %8.3f ms (%.3f .. %.3f) %7.0f GB/s\n", (long long)w->tokens,
           (long long)w->tile, name, ms[REPEATS / 2], ms[0], ms[REPEATS - 1],
           bytes_per_token * (double)w->tokens / ms[REPEATS / 2] / 1e6);
    fflush(stdout);
    cudaEventDestroy(a);
    cudaEventDestroy(b);
}

static void cut(work *w, int64_t tile)
{
    const int64_t start[2] = {0, w->tokens};
    const plim_docs docs = {1, w->tokens, w->tokens, start, start};
    const int64_t tiles = w->tokens / tile, bound = plim_chunk_bound(tile, 1);
    plim_chunk *host = (plim_chunk *)malloc((size_t)(tiles * bound) * sizeof *host);
    w->tile = tile;
    w->chunks = 0;
    for (int64_t i = 0; i < tiles; i++)
        w->chunks = plim_chunk_table(&docs, i * tile, tile, host + i * w->chunks);
    if (w->tables) cudaFree(w->tables);
    cuda(cudaMalloc(&w->tables, (size_t)(tiles * bound) * sizeof *host));
    cuda(cudaMemcpy(w->tables, host, (size_t)(tiles * w->chunks) * sizeof *host, cudaMemcpyHostToDevice));
    free(host);
}

static void make_work(work *w, int64_t tokens)
{
    plim_delta_args *a = &w->a;
    const double unit = 1.7320508 / 11.3137085; /* heads of length about 1 */
    w->tokens = tokens;
    a->q = make(PLIM_BF16, tokens, HK * DK, -unit / 11.3, unit / 11.3);
    a->k = make(PLIM_BF16, tokens, HK * DK, -unit, unit);
    a->v = make(PLIM_BF16, tokens, HV * DV, -1.7, 1.7);
    a->g = make(PLIM_F32, tokens, HV, -0.1, 0);
    a->beta = make(PLIM_F32, tokens, HV, 0, 1);
    a->o = make(PLIM_BF16, tokens, HV * DV, 0, 0);
    a->state = make(PLIM_F32, HV * DK, DV, 0, 0);
    a->dstate = make(PLIM_F32, HV * DK, DV, 0, 0);
    a->dout = make(PLIM_BF16, tokens, HV * DV, -1, 1);
    a->dq = make(PLIM_BF16, tokens, HK * DK, 0, 0);
    a->dk = make(PLIM_BF16, tokens, HK * DK, 0, 0);
    a->dv = make(PLIM_BF16, tokens, HV * DV, 0, 0);
    a->dg = make(PLIM_F32, tokens, HV, 0, 0);
    a->dbl = make(PLIM_F32, tokens, HV, 0, 0);
    a->key_heads = HK, a->value_heads = HV, a->key_dim = DK, a->value_dim = DV;
    a->scratch_bytes = plim_delta_scratch_bytes(PLIM_BF16, PLIM_F32, HV, HK, DK, DV, 256, true);
    cuda(cudaMalloc(&a->scratch, a->scratch_bytes));
}

/* A tile of 16,384 rows as the phases see it. */
static void make_view(work *w)
{
    const plim_delta_args a = tile_of(w, 0);
    const plim_delta_layout l = plim_delta_layout_of(PLIM_BF16, HV, DK, DV, a.chunk_count, true);
    char *base = (char *)a.scratch;
    delta_view v = {};
    v.q = rows_view<const bf16>(a.q), v.k = rows_view<const bf16>(a.k), v.v = rows_view<const bf16>(a.v);
    v.dout = rows_view<const bf16>(a.dout), v.g = rows_view<const float>(a.g),
    v.beta = rows_view<const float>(a.beta);
    v.o = rows_view<bf16>(a.o), v.dq = rows_view<bf16>(a.dq), v.dk = rows_view<bf16>(a.dk),
    v.dv = rows_view<bf16>(a.dv);
    v.state = rows_view<float>(a.state), v.dstate = rows_view<float>(a.dstate);
    v.dg = rows_view<float>(a.dg), v.dbl = rows_view<float>(a.dbl);
    v.s = (bf16 *)(base + l.state), v.t = (bf16 *)(base + l.t), v.d = (bf16 *)(base + l.d);
    v.ds = (bf16 *)(base + l.dstate), v.dr = (bf16 *)(base + l.dr), v.pdo = (bf16 *)(base + l.pdo);
    v.chunks = a.chunks, v.chunk_count = (int)a.chunk_count;
    v.value_heads = HV, v.group = HV / HK, v.key_dim = DK, v.value_dim = DV;
    w->view = v;
}

static void neighbours(work *w)
{
    const int64_t T = w->tokens, channels = 2 * HK * DK + HV * DV;
    const int64_t start[2] = {0, T};
    int64_t *start_dev;
    cuda(cudaMalloc(&start_dev, sizeof start));
    cuda(cudaMemcpy(start_dev, start, sizeof start, cudaMemcpyHostToDevice));
    w->conv.m = make(PLIM_BF16, T, channels, -1, 1);
    w->conv.y = make(PLIM_BF16, T, channels, 0, 0);
    w->conv.w = make(PLIM_F32, channels, TAPS, -1, 1);
    w->conv.dy = make(PLIM_BF16, T, channels, -1, 1);
    w->conv.dm = make(PLIM_BF16, T, channels, 0, 0);
    w->conv.carry = make(PLIM_F32, TAPS - 1, channels, 0, 0);
    w->conv.docs = {1, T, T, start_dev, start};
    w->l2.x = plim_tensor_cols(w->conv.m, 0, 2 * HK * DK),
    w->l2.y = plim_tensor_cols(w->conv.y, 0, 2 * HK * DK);
    w->l2.dy = plim_tensor_cols(w->conv.dy, 0, 2 * HK * DK),
    w->l2.dx = plim_tensor_cols(w->conv.dm, 0, 2 * HK * DK);
    w->l2.dim = DK, w->l2.scale = 1;
    w->decay.ba = make(PLIM_F32, T, 2 * HV, -4, 4);
    w->decay.a_log = make(PLIM_F32, 1, HV, -1, 1), w->decay.dt_bias = make(PLIM_F32, 1, HV, -1, 1);
    w->decay.g = w->a.g, w->decay.beta = w->a.beta, w->decay.dg = w->a.dg, w->decay.dbl = w->a.dbl;
    w->decay.dba = make(PLIM_BF16, T, 2 * HV, 0, 0);
    w->norm.o = w->a.v, w->norm.z = w->a.dout, w->norm.y = w->a.o, w->norm.w = make(PLIM_F32, 1, DV, 0, 1);
    w->norm.dy = w->a.o, w->norm.dout = w->a.dv, w->norm.dz = make(PLIM_BF16, T, HV * DV, 0, 0),
    w->norm.eps = 1e-6;
    measure(w, "conv_silu_fwd", run_conv_fwd, 4.0 * (double)channels);
    measure(w, "conv_silu_bwd", run_conv_bwd, 6.0 * (double)channels);
    measure(w, "l2norm_fwd (q and k)", run_l2_fwd, 4.0 * 2 * HK * DK);
    measure(w, "l2norm_bwd (q and k)", run_l2_bwd, 6.0 * 2 * HK * DK);
    measure(w, "gated_norm_fwd", run_norm_fwd, 6.0 * HV * DV);
    measure(w, "gated_norm_bwd", run_norm_bwd, 10.0 * HV * DV);
    measure(w, "decay_fwd", run_decay_fwd, 16.0 * HV);
    measure(w, "decay_bwd", run_decay_bwd, 20.0 * HV);
}

int main(void)
{
    plim_device device = {};
    cuda(cudaGetDeviceProperties(&device.prop, 0));
    cuda(cudaStreamCreate(&device.compute));
    if (plim_ctx_open(NULL, &device.ctx)) return 1;
    printf("%s; %d value heads, %d key heads, %d x %d; one document\n", device.prop.name, HV, HK, DK, DV);
    /* docs/maths.md 4.9 and the kernels' own comments, bytes a token */
    const double state = 2.0 * DK * DV / 64, keys = 2.0 * DK, values = 2.0 * DV, solve = 128;
    const double f1 = HK * keys + HV * solve, f2 = HK * keys + HV * (solve + 2 * values + state),
                 f3 = 2 * HK * keys + HV * (state + 2 * values), b1 = 2 * HK * keys + HV * 2 * values,
                 b2 = 2 * HK * keys + HV * (solve + 3 * values + state),
                 b3 = 4 * HK * keys + HV * (2 * state + 4 * values);
    const int64_t lengths[] = {16384, 65536}, tiles[] = {4096, 16384};
    for (int64_t tokens : lengths) {
        work w = {};
        w.d = &device;
        make_work(&w, tokens);
        for (int64_t tile : tiles) {
            cut(&w, tile);
            measure(&w, "delta_fwd", run_fwd, f1 + f2 + f3);
            measure(&w, "delta_bwd", run_bwd, f1 + f2 + b1 + b2 + b3);
        }
        if (tokens == 16384) {
            make_view(&w);
            measure(&w, "F1 solve", run_solve, f1);
            measure(&w, "F2 states", run_scan_fwd, f2);
            measure(&w, "F3 output", run_output, f3);
            measure(&w, "B1 inner products", run_inner, b1);
            measure(&w, "B2 gradients of states", run_scan_bwd, b2);
            measure(&w, "B3 gradients", run_gradients, b3);
            neighbours(&w);
        }
    }
    return 0;
}
