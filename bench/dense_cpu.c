/* Products and attention of the CPU column beside plain sgemm of the same BLAS, in GFLOP/s.
 * Usage: dense_cpu [threads]   (0, the default: all cores)
 * Attention counts the causal half of its products only; the best and the median of 15 runs are printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cblas.h>

#include "ops/cpu/device.h"

enum { RUNS = 15 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static plim_tensor made(plim_device *d, plim_dtype dtype, int64_t rows, int64_t cols)
{
    plim_tensor x = {NULL, dtype, rows, cols, cols};
    if (plim_alloc(d->ctx, (size_t)(rows * cols), plim_dtype_bytes(dtype), "a matrix", &x.data)) exit(1);
    const plim_fill_args fill = {x, PLIM_FILL_NORMAL, 1, (uint64_t)rows, 0, 1};
    if (plim_ops_cpu.fill(d, &fill)) exit(1);
    return x;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, plim_dtype dtype, double flop, double *seconds)
{
    qsort(seconds, RUNS, sizeof *seconds, by_size);
    printf("%-44s %-4s best %7.1f  median %7.1f GFLOP/s  (%.2f ms)\n", what, plim_dtype_name(dtype),
           flop / seconds[0] / 1e9, flop / seconds[RUNS / 2] / 1e9, 1e3 * seconds[RUNS / 2]);
}

typedef struct product {
    plim_device *d;
    plim_gemm_args args;
} product;

static void plain(const product *p)
{
    const plim_gemm_args *a = &p->args;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)a->c.rows, (int)a->c.cols, (int)a->a.cols, 1,
                a->a.data, (int)a->a.pitch, a->b.data, (int)a->b.pitch, 0, a->c.data, (int)a->c.pitch);
}

static void ours(const product *p)
{
    if (plim_ops_cpu.gemm(p->d, &p->args)) exit(1);
}

static void products(plim_device *d, plim_dtype dtype, bool blas_alone)
{
    static const int64_t shapes[][3] = {
        {1024, 768, 768}, {1024, 2048, 768}, {1024, 768, 2048}, {1024, 16, 768}, {1024, 32000, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        const product p = {d,
                           {.a = made(d, dtype, m, k),
                            .b = made(d, dtype, n, k),
                            .c = made(d, dtype, m, n),
                            .transpose_b = true,
                            .alpha = 1}};
        double seconds[RUNS];
        for (int r = 0; r < RUNS; r++) {
            const double start = now_s();
            if (blas_alone) plain(&p);
            else ours(&p);
            seconds[r] = now_s() - start;
        }
        char what[80];
        snprintf(what, sizeof what, "%s %" PRId64 " x %" PRId64 " x %" PRId64,
                 blas_alone ? "plain sgemm" : "gemm", m, n, k);
        report(what, dtype, 2.0 * (double)(m * n * k), seconds);
        plim_release(d->ctx, p.args.a.data), plim_release(d->ctx, p.args.b.data),
            plim_release(d->ctx, p.args.c.data);
    }
}

static void attention(plim_device *d, plim_dtype dtype, int64_t tokens, int64_t heads, int64_t kv_heads,
                      int64_t dim)
{
    const int64_t start[] = {0, tokens}, cols = heads * dim, kv = kv_heads * dim;
    const plim_attention_args a = {.q = made(d, dtype, tokens, cols),
                                   .k = made(d, dtype, tokens, kv),
                                   .v = made(d, dtype, tokens, kv),
                                   .o = made(d, dtype, tokens, cols),
                                   .lse = made(d, PLIM_F32, heads, tokens),
                                   .dout = made(d, dtype, tokens, cols),
                                   .delta = made(d, PLIM_F32, heads, tokens),
                                   .dq = made(d, dtype, tokens, cols),
                                   .dk = made(d, dtype, tokens, kv),
                                   .dv = made(d, dtype, tokens, kv),
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = dim,
                                   .scale = 0.1,
                                   .docs = {1, tokens, tokens, start, start}};
    double seconds[2][RUNS];
    for (int r = 0; r < RUNS; r++) {
        const double t0 = now_s();
        if (plim_ops_cpu.attention_fwd(d, &a)) exit(1);
        const double t1 = now_s();
        if (plim_ops_cpu.attention_bwd(d, &a)) exit(1);
        seconds[0][r] = t1 - t0, seconds[1][r] = now_s() - t1;
    }
    const double flop = 2.0 * (double)tokens * (double)(tokens + 1) * (double)cols;
    char what[80];
    snprintf(what, sizeof what, "attention fwd T %" PRId64 ", %" PRId64 "/%" PRId64 " heads of %" PRId64,
             tokens, heads, kv_heads, dim);
    report(what, dtype, flop, seconds[0]);
    snprintf(what, sizeof what, "attention bwd");
    report(what, dtype, 2.5 * flop, seconds[1]);
    const plim_tensor all[] = {a.q, a.k, a.v, a.o, a.lse, a.dout, a.delta, a.dq, a.dk, a.dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) plim_release(d->ctx, all[i].data);
}

int main(int argc, char **argv)
{
    plim_ctx *c = NULL;
    plim_device *d = NULL;
    if (plim_ctx_open(NULL, &c) || plim_cpu_open(c, argc > 1 ? atoi(argv[1]) : 0, &d)) return 1;
    printf("%d threads, OpenBLAS kernels for %s\n", d->threads, openblas_get_corename());
    for (int i = 0; i < 2; i++) {
        const plim_dtype dtype = i ? PLIM_BF16 : PLIM_F32;
        products(d, dtype, false);
        attention(d, dtype, 1024, 12, 12, 64), attention(d, dtype, 1024, 4, 1, 256),
            attention(d, dtype, 4096, 12, 4, 64);
    }
    /* last, because BLAS's own threads spin beside ours for a while */
    openblas_set_num_threads(d->threads);
    products(d, PLIM_F32, true);
    plim_cpu_close(d);
    plim_ctx_close(c);
    return 0;
}
