/* The dense operations as plain double loops over contiguous arrays, from the formulas. */
#ifndef PLIM_TESTS_REFERENCE_DENSE_H
#define PLIM_TESTS_REFERENCE_DENSE_H

#include <stdbool.h>
#include <stdint.h>

/* c [m, n] = alpha op(a) op(b) + beta c; size [m, n]: the same sum of absolute terms. */
typedef struct reference_gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    double alpha, beta;
    const double *a, *b;
    double *c, *size;
} reference_gemm;
void reference_gemm_run(const reference_gemm *r);

/* One group of n columns: y, or dx from dy. */
void reference_rmsnorm(int64_t n, const double *x, const double *w, double eps, double offset, double *y);
void reference_rmsnorm_bwd(int64_t n, const double *x, const double *w, double eps, double offset,
                           const double *dy, double *dx);

/* One head of dim columns by the matrix of its rotation: turn +1 forward, -1 its inverse. */
void reference_rotate(int64_t dim, int64_t half, const double *cos, const double *sin, double turn,
                      const double *x, double *y);

double reference_sigmoid(double x);

/* Causal attention inside documents over full score rows.  q, o, dout, dq [T, H, D]; k, v, dk, dv [T, Hkv,
 * D]; lse [H, T]; backward when dout is given. */
typedef struct reference_attention {
    int64_t tokens, heads, kv_heads, dim, documents;
    const int64_t *start;
    double scale;
    const double *q, *k, *v, *dout;
    double *o, *lse, *dq, *dk, *dv;
} reference_attention;
void reference_attention_run(const reference_attention *r);

/* weight * (log sum exp - z[label]); dz = factor * (softmax - onehot), may be NULL. */
double reference_cross_entropy(int64_t vocab, const double *z, int64_t label, double weight, double factor,
                               double *dz);

#endif
