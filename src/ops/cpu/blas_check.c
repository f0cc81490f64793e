/* blas_check.c - the products that are tried, and how far they may be off. */
#include "ops/cpu/blas_check.h"

#include <float.h>
#include <math.h>

#include "base/context.h"

enum { MOST = 100 * 100 }; /* elements of the largest matrix below */

static const int shapes[][3] = {{1, 1, 1},     {3, 5, 7},    {16, 16, 16}, {17, 33, 65},
                                {64, 48, 100}, {100, 1, 31}, {1, 100, 64}};

typedef struct matrices {
    double a[MOST], b[MOST], c[MOST], got[MOST];
    float af[MOST], bf[MOST], gotf[MOST];
} matrices;

static double next_value(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(*state >> 33) / 1073741824.0 - 1.0;
}

/* The largest |got - want| in units of eps * sum |a b| * sqrt(k) over one product; infinity when not
 * finite. */
static double product_error(matrices *w, const int *shape, bool ta, bool tb, bool single,
                            plim_cpu_sgemm sgemm, plim_cpu_dgemm dgemm)
{
    const int m = shape[0], n = shape[1], k = shape[2];
    const int lda = ta ? m : k, ldb = tb ? k : n;
    const double alpha = 0.75, beta = -0.5;
    uint64_t state = (uint64_t)(m * 10007 + n * 101 + k);
    for (int i = 0; i < m * k; i++) w->a[i] = w->af[i] = (float)next_value(&state);
    for (int i = 0; i < k * n; i++) w->b[i] = w->bf[i] = (float)next_value(&state);
    for (int i = 0; i < m * n; i++) w->c[i] = w->got[i] = w->gotf[i] = (float)next_value(&state);
    const enum CBLAS_TRANSPOSE opa = ta ? CblasTrans : CblasNoTrans, opb = tb ? CblasTrans : CblasNoTrans;
    if (single)
        sgemm(CblasRowMajor, opa, opb, m, n, k, (float)alpha, w->af, lda, w->bf, ldb, (float)beta, w->gotf,
              n);
    else dgemm(CblasRowMajor, opa, opb, m, n, k, alpha, w->a, lda, w->b, ldb, beta, w->got, n);
    double worst = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = beta * w->c[i * n + j], size = fabs(want);
            for (int p = 0; p < k; p++) {
                double term =
                    alpha * w->a[ta ? p * lda + i : i * lda + p] * w->b[tb ? j * ldb + p : p * ldb + j];
                want += term;
                size += fabs(term);
            }
            double got = single ? (double)w->gotf[i * n + j] : w->got[i * n + j];
            double error = fabs(got - want) / (size * (single ? FLT_EPSILON : DBL_EPSILON));
            if (!(error <= worst)) worst = isfinite(error) ? error : INFINITY;
        }
    return worst;
}

plim_status plim_cpu_blas_check(plim_ctx *c, plim_cpu_sgemm sgemm, plim_cpu_dgemm dgemm)
{
    matrices *w = NULL;
    TRY(plim_alloc(c, 1, sizeof *w, "the BLAS self-check", &w));
    plim_status st = PLIM_OK;
    for (size_t i = 0; !st && i < sizeof shapes / sizeof *shapes; i++)
        for (int bits = 0; !st && bits < 8; bits++) {
            const bool ta = bits & 1, tb = bits & 2, single = bits & 4;
            const double error = product_error(w, shapes[i], ta, tb, single, sgemm, dgemm);
            /* k + 3 roundings, each at most half a step of the sum of absolute terms */
            if (error <= shapes[i][2] + 3) continue;
            st = plim_fail(
                c, PLIM_E_NUMERIC,
                "cpu: OpenBLAS computes a wrong %s (%d x %d x %d%s%s, off by %.3g rounding steps; kernels "
                "for %s): set OPENBLAS_CORETYPE=Haswell, or install another OpenBLAS",
                single ? "sgemm" : "dgemm", shapes[i][0], shapes[i][1], shapes[i][2],
                ta ? ", a transposed" : "", tb ? ", b transposed" : "", error, openblas_get_corename());
        }
    plim_release(c, w);
    return st;
}
