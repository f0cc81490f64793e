/* blas.h - one call for sgemm and dgemm. */
#ifndef PLIM_OPS_CPU_BLAS_H
#define PLIM_OPS_CPU_BLAS_H

#include <cblas.h>

#include "plimsoll.h"

/* Elements from one row to the next, at most: some of OpenBLAS's kernels hold offsets over up to 64 rows in
 * 32 bits, and address wrong memory beyond. */
#define PLIM_CPU_MAX_PITCH ((int64_t)1 << 24)

/* A row-major matrix in BLAS's terms: t F32 or F64. */
typedef struct plim_cpu_matrix {
    const void *data;
    int64_t pitch;
    bool transpose;
} plim_cpu_matrix;

/* c [m, n] = alpha a b + beta c on the calling thread; sizes fit an int and pitches the limit above (the
 * caller checked). beta 0 does not read c.  k == 0 still scales c. */
static inline void plim_cpu_blas(plim_dtype t, int64_t m, int64_t n, int64_t k, double alpha,
                                 plim_cpu_matrix a, plim_cpu_matrix b, double beta, void *c, int64_t pitch)
{
    const enum CBLAS_TRANSPOSE opa = a.transpose ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE opb = b.transpose ? CblasTrans : CblasNoTrans;
    if (m == 0 || n == 0) return;
    /* a leading dimension below the row length is an error even when there is one row */
    const int64_t row_a = a.transpose ? m : k, row_b = b.transpose ? k : n;
    const blasint lda = (blasint)(a.pitch > row_a ? a.pitch : row_a ? row_a : 1);
    const blasint ldb = (blasint)(b.pitch > row_b ? b.pitch : row_b ? row_b : 1);
    const blasint ldc = (blasint)(pitch > n ? pitch : n);
    if (t == PLIM_F32)
        cblas_sgemm(CblasRowMajor, opa, opb, (blasint)m, (blasint)n, (blasint)k, (float)alpha, a.data, lda,
                    b.data, ldb, (float)beta, c, ldc);
    else
        cblas_dgemm(CblasRowMajor, opa, opb, (blasint)m, (blasint)n, (blasint)k, alpha, a.data, lda, b.data,
                    ldb, beta, c, ldc);
}

#endif
