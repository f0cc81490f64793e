/* blas_check.h - a BLAS that computes wrong products is found before any training does. */
#ifndef PLIM_OPS_CPU_BLAS_CHECK_H
#define PLIM_OPS_CPU_BLAS_CHECK_H

#include <cblas.h>

#include "plimsoll.h"

typedef void (*plim_cpu_sgemm)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint m,
                               blasint n, blasint k, float alpha, const float *a, blasint lda, const float *b,
                               blasint ldb, float beta, float *c, blasint ldc);
typedef void (*plim_cpu_dgemm)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint m,
                               blasint n, blasint k, double alpha, const double *a, blasint lda,
                               const double *b, blasint ldb, double beta, double *c, blasint ldc);

/* Compares both products with plain loops on small matrices of random numbers: every pair of transpositions,
 * sizes on both sides of the kernels' blocks, alpha and beta in use.  Some builds pick a kernel that is wrong
 * on the processor at hand.  Takes about a millisecond and 200 KiB of the context's memory, given back.
 * Errors: PLIM_E_NUMERIC (says which shape, and what to set), PLIM_E_OOM_HOST. */
plim_status plim_cpu_blas_check(plim_ctx *c, plim_cpu_sgemm sgemm, plim_cpu_dgemm dgemm);

#endif
