/* Products: every pair of transpositions, dtype, accumulation, awkward shapes, pitches; the BLAS
 * self-check. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/blas_check.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "reference/dense.h"
#include "reference/dense_case.h"
#include "reference/delta_ops.h"

typedef struct product {
    int64_t m, n, k, gap;
    plim_dtype a, b, c;
    int flags; /* 1: a transposed, 2: b transposed, 4: accumulate */
} product;

static void check_product(plim_device *d, const product *p)
{
    uint64_t seed = (uint64_t)(p->m * 7 + p->n * 11 + p->k * 13 + p->flags);
    const bool ta = p->flags & 1, tb = p->flags & 2, accumulate = p->flags & 4;
    const double alpha = p->flags & 1 ? 0.75 : 1.0;
    dense_input a = dense_random(&seed, p->a, ta ? p->k : p->m, ta ? p->m : p->k, p->gap, 1);
    dense_input b = dense_random(&seed, p->b, tb ? p->n : p->k, tb ? p->k : p->n, 2 * p->gap, 1);
    dense_input c = dense_random(&seed, p->c, p->m, p->n, p->gap, 1);
    const plim_tensor out = io_make(p->c, p->m, p->n, p->gap, accumulate ? c.values : NULL);
    double *size = calloc((size_t)(p->m * p->n) + 1, sizeof *size);
    const reference_gemm want = {p->m,     p->n,     p->k,     ta,  tb, alpha, accumulate ? 1.0 : 0.0,
                                 a.values, b.values, c.values, size};
    reference_gemm_run(&want);
    const plim_gemm_args args = {.a = a.view,
                                 .b = b.view,
                                 .c = out,
                                 .transpose_a = ta,
                                 .transpose_b = tb,
                                 .accumulate = accumulate,
                                 .alpha = alpha};
    CHECK_OK(d->ctx, plim_cpu_gemm(d, &args));
    const plim_dtype sums = p->a == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    double *got = io_copy(out);
    assert_true(io_guarded(out) && io_guarded(a.view) && io_guarded(b.view));
    for (int64_t i = 0; i < p->m * p->n; i++) {
        /* half a step a term and addition, at worst; and the step of the store */
        const double allowed =
            (double)(p->k + 3) * dense_step(sums) * size[i] + dense_step(p->c) * fabs(c.values[i]);
        if (!(fabs(got[i] - c.values[i]) <= allowed))
            fail_msg("%lld x %lld x %lld, flags %d, %s %s -> %s: element %lld is %.9g, wanted %.9g",
                     (long long)p->m, (long long)p->n, (long long)p->k, p->flags, plim_dtype_name(p->a),
                     plim_dtype_name(p->b), plim_dtype_name(p->c), (long long)i, got[i], c.values[i]);
    }
    free(got), free(size), io_free(out);
    dense_free(&a), dense_free(&b), dense_free(&c);
}

static const plim_dtype dtypes[][3] = {{PLIM_F64, PLIM_F64, PLIM_F64},    {PLIM_F32, PLIM_F32, PLIM_F32},
                                       {PLIM_BF16, PLIM_BF16, PLIM_BF16}, {PLIM_BF16, PLIM_BF16, PLIM_F32},
                                       {PLIM_BF16, PLIM_F32, PLIM_BF16},  {PLIM_F32, PLIM_F32, PLIM_BF16}};

TEST(small_products_match)
{
    UNUSED_STATE;
    static const int64_t sizes[] = {0, 1, 5, 16, 33};
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 6; t++)
        for (int flags = 0; flags < 8; flags++)
            for (int i = 0; i < 125; i++) {
                const product p = {sizes[i % 5], sizes[i / 5 % 5], sizes[i / 25], i % 3,
                                   dtypes[t][0], dtypes[t][1],     dtypes[t][2],  flags};
                check_product(f.d, &p);
            }
    ops_close(&f);
}

/* Around the tile of 128, past the tile and the panel of 512, thin and deep. */
TEST(tiled_products_match)
{
    UNUSED_STATE;
    static const int64_t shapes[][3] = {{127, 129, 128}, {128, 128, 513}, {300, 257, 64}, {3, 1030, 40},
                                        {1030, 3, 40},   {16, 130, 1100}, {1500, 700, 9}};
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 6; t++)
        for (int i = 0; i < 7; i++)
            for (int flags = i % 2; flags < 8; flags += 4) {
                const product p = {shapes[i][0], shapes[i][1], shapes[i][2], i % 2 ? 3 : 0,
                                   dtypes[t][0], dtypes[t][1], dtypes[t][2], flags};
                check_product(f.d, &p);
            }
    ops_close(&f);
}

TEST(bits_do_not_depend_on_threads)
{
    UNUSED_STATE;
    static const plim_dtype both[] = {PLIM_F32, PLIM_BF16};
    for (int t = 0; t < 2; t++) {
        double *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            ops_fixture f = ops_open(threads);
            uint64_t seed = 3;
            dense_input a = dense_random(&seed, both[t], 700, 600, 0, 1),
                        b = dense_random(&seed, both[t], 600, 300, 0, 1);
            const plim_tensor c = io_make(both[t], 700, 300, 0, NULL);
            CHECK_OK(f.c,
                     plim_cpu_gemm(f.d, &(plim_gemm_args){.a = a.view, .b = b.view, .c = c, .alpha = 1}));
            double *got = io_copy(c);
            if (first) assert_memory_equal(first, got, 700 * 300 * sizeof *got);
            if (first) free(got);
            else first = got;
            io_free(c), dense_free(&a), dense_free(&b);
            ops_close(&f);
        }
        free(first);
    }
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    uint64_t seed = 1;
    dense_input a = dense_random(&seed, PLIM_F32, 4, 5, 0, 1), b = dense_random(&seed, PLIM_F32, 6, 3, 0, 1);
    dense_input c = dense_random(&seed, PLIM_F32, 4, 3, 0, 1),
                wide = dense_random(&seed, PLIM_F64, 4, 3, 0, 1);
    plim_gemm_args g = {.a = a.view, .b = b.view, .c = c.view, .alpha = 1};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gemm(f.d, &g), "gemm", "5", "6");
    g.b.rows = 5;
    CHECK_OK(f.c, plim_cpu_gemm(f.d, &g));
    g.c = wide.view;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gemm(f.d, &g), "F64", "F32");
    g.c = c.view;
    g.c.data = NULL;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gemm(f.d, &g), "no memory");
    g.c = c.view;
    g.c.pitch = 2;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gemm(f.d, &g), "overlap");
    g.c = c.view;
    g.b.pitch = (INT64_C(1) << 24) + 1;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gemm(f.d, &g), "pitch above 16777216");
    dense_free(&a), dense_free(&b), dense_free(&c), dense_free(&wide);
    ops_close(&f);
}

/* ---- the self-check ------------------------------------------------------------------------------------ */

/* Wrong in one element of large products only. */
static void broken_sgemm(enum CBLAS_ORDER o, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m,
                         blasint n, blasint k, float alpha, const float *a, blasint lda, const float *b,
                         blasint ldb, float beta, float *c, blasint ldc)
{
    cblas_sgemm(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (m == 64 && ta == CblasTrans) c[5 * ldc + 7] *= 1.001f;
}

static void nan_dgemm(enum CBLAS_ORDER o, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m,
                      blasint n, blasint k, double alpha, const double *a, blasint lda, const double *b,
                      blasint ldb, double beta, double *c, blasint ldc)
{
    cblas_dgemm(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    c[0] = NAN;
}

TEST(a_wrong_blas_is_found)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const int64_t before = test_live_allocations();
    CHECK_OK(c, plim_cpu_blas_check(c, cblas_sgemm, cblas_dgemm));
    CHECK_FAILS(c, PLIM_E_NUMERIC, plim_cpu_blas_check(c, broken_sgemm, cblas_dgemm), "sgemm",
                "64 x 48 x 100", "OPENBLAS_CORETYPE", "a transposed");
    CHECK_FAILS(c, PLIM_E_NUMERIC, plim_cpu_blas_check(c, cblas_sgemm, nan_dgemm), "dgemm", "1 x 1 x 1");
    assert_int_equal(test_live_allocations(), before);
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    (void)user;
    plim_device *d = NULL;
    plim_status st = plim_cpu_open(c, 2, &d);
    if (st) assert_null(d);
    plim_cpu_close(d);
    return st;
}

TEST(opening_survives_every_failed_allocation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    assert_int_equal(test_every_allocation(c, open_and_close, NULL), 3);
    plim_device *d = NULL;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_cpu_open(c, -1, &d), "-1", "128");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_cpu_open(c, 129, &d), "129");
    CHECK_OK(c, plim_cpu_open(c, 0, &d));
    assert_true(d->threads >= 1);
    plim_cpu_close(d);
    plim_cpu_close(NULL);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(small_products_match),
        cmocka_unit_test(tiled_products_match),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(a_wrong_blas_is_found),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };
    return RUN_TESTS(table);
}
