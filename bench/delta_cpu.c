/* delta_cpu.c - speed of the delta rule on the CPU against a plain sgemm in the same run.
 * Usage: delta_cpu THREADS.  Shape: 2,048 tokens, 4 key heads, 12 value heads, 128 x 128, one document.
 * Counts a chunk's products as docs/maths.md 4.9 does; best of 9 runs, taken in turns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cblas.h>

#include "ops/chunk_table.h"
#include "ops/cpu/cpu.h"

enum { T = 2048, HK = 4, HV = 12, D = 128, RUNS = 9, N = 1024 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static plim_tensor make(plim_dtype dtype, int64_t rows, int64_t cols)
{
    return (plim_tensor){calloc((size_t)(rows * cols), plim_dtype_bytes(dtype)), dtype, rows, cols, cols};
}

static void fill(plim_device *d, plim_tensor t, plim_fill_kind kind, double a, double b, uint64_t stream)
{
    if (plim_cpu_fill(d,
                      &(plim_fill_args){.x = t, .kind = kind, .seed = 1, .stream = stream, .a = a, .b = b}))
        abort();
}

static void measure(plim_device *d, plim_dtype act, int threads)
{
    static const int64_t start[2] = {0, T};
    const plim_docs docs = {1, T, T, start, start};
    plim_chunk chunks[T / PLIM_CHUNK_TOKENS];
    const int64_t count = plim_chunk_table(&docs, 0, T, chunks);
    plim_delta_args a = {.q = make(act, T, HK * D),
                         .k = make(act, T, HK * D),
                         .v = make(act, T, HV * D),
                         .g = make(PLIM_F32, T, HV),
                         .beta = make(PLIM_F32, T, HV),
                         .o = make(act, T, HV * D),
                         .state = make(PLIM_F32, HV * D, D),
                         .dout = make(act, T, HV * D),
                         .dstate = make(PLIM_F32, HV * D, D),
                         .dq = make(act, T, HK * D),
                         .dk = make(act, T, HK * D),
                         .dv = make(act, T, HV * D),
                         .dg = make(PLIM_F32, T, HV),
                         .dbl = make(PLIM_F32, T, HV),
                         .key_heads = HK,
                         .value_heads = HV,
                         .key_dim = D,
                         .value_dim = D,
                         .chunks = chunks,
                         .chunk_count = count,
                         .scratch_bytes = plim_delta_scratch_bytes(act, PLIM_F32, HV, HK, D, D, count, true)};
    a.scratch = malloc(a.scratch_bytes);
    fill(d, a.q, PLIM_FILL_NORMAL, 0, 1.0 / D, 1);
    fill(d, a.k, PLIM_FILL_NORMAL, 0, 1 / sqrt(D), 2);
    fill(d, a.v, PLIM_FILL_NORMAL, 0, 1, 3);
    fill(d, a.dout, PLIM_FILL_NORMAL, 0, 1, 4);
    fill(d, a.g, PLIM_FILL_UNIFORM, -0.1, 0, 5);
    fill(d, a.beta, PLIM_FILL_UNIFORM, 0, 1, 6);
    float *x = calloc(N * N, sizeof *x), *y = calloc(N * N, sizeof *y);
    double best_s[3] = {1e9, 1e9, 1e9};
    for (int run = 0; run < RUNS; run++) {
        const double at = now_s();
        if (plim_cpu_delta_fwd(d, &a)) abort();
        const double forward = now_s();
        if (plim_cpu_delta_bwd(d, &a)) abort();
        const double backward = now_s();
        openblas_set_num_threads(threads);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, x, N, x, N, 0, y, N);
        openblas_set_num_threads(1);
        const double end = now_s();
        best_s[0] = fmin(best_s[0], forward - at);
        best_s[1] = fmin(best_s[1], backward - forward);
        best_s[2] = fmin(best_s[2], end - backward);
    }
    const double chunk = PLIM_CHUNK_TOKENS, heads = (double)T * HV;
    const double fwd_flop = heads * (6.0 * D * D + 4 * chunk * 2 * D + chunk * chunk / 3);
    const double again_flop = heads * (4.0 * D * D + 2 * chunk * 2 * D + chunk * chunk / 3);
    const double bwd_flop = heads * (12.0 * D * D + 18 * chunk * D);
    const double gemm = 2.0 * N * N * N / best_s[2], fwd = fwd_flop / best_s[0];
    const double bwd = (again_flop + bwd_flop) / best_s[1];
    printf("%s, %d threads: forward %.1f GFLOP/s (%.0f %% of sgemm), backward with recomputation %.1f (%.0f "
           "%%), sgemm "
           "%.1f\n",
           plim_dtype_name(act), threads, fwd / 1e9, 100 * fwd / gemm, bwd / 1e9, 100 * bwd / gemm,
           gemm / 1e9);
    plim_tensor all[] = {a.q,    a.k,      a.v,  a.g,  a.beta, a.o,  a.state,
                         a.dout, a.dstate, a.dq, a.dk, a.dv,   a.dg, a.dbl};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i].data);
    free(a.scratch), free(x), free(y);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    plim_ctx *c = NULL;
    plim_device *d = NULL;
    if (plim_ctx_open(NULL, &c) || plim_cpu_open(c, threads, &d)) {
        fprintf(stderr, "delta_cpu: %s\n", c ? plim_ctx_message(c) : "out of memory");
        return 1;
    }
    measure(d, PLIM_F32, threads);
    measure(d, PLIM_BF16, threads);
    plim_cpu_close(d);
    plim_ctx_close(c);
    return 0;
}
