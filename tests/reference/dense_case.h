/* Inputs, expectations and finite differences for tests of the dense operations. */
#ifndef PLIM_TESTS_REFERENCE_DENSE_CASE_H
#define PLIM_TESTS_REFERENCE_DENSE_CASE_H

#include "base/tensor.h"
#include "reference/delta_io.h"

/* A view of random numbers (normal, times scale) and the same numbers as doubles.  dense_free frees both. */
typedef struct dense_input {
    plim_tensor view;
    double *values;
} dense_input;
dense_input dense_random(uint64_t *seed, plim_dtype dtype, int64_t rows, int64_t cols, int64_t gap,
                         double scale);
void dense_free(dense_input *x);

/* Distance from 1 to the next number of a dtype: 2^-52, 2^-23, 2^-7. */
double dense_step(plim_dtype dtype);

/* STAT of a run of act. */
plim_dtype dense_stat(plim_dtype act);

/* |got - want| <= relative |want| + absolute for every element, and the guards around got untouched; fails
 * the test naming what and the first element that misses. */
void dense_expect(const char *what, plim_tensor got, const double *want, double relative, double absolute);

/* The largest absolute value, 0 of nothing. */
double dense_largest(const double *x, int64_t n);

/* Central differences of loss by x[0 .. n) against gradient; loss reads x through user.  Every stride-th
 * element. Steps of 1e-5 leave about 1e-10 of the third derivative and 1e-11 of rounding; allowed is 1e-7 of
 * the largest. */
typedef double (*dense_loss)(void *user);
void dense_differences(const char *what, double *x, const double *gradient, int64_t n, int64_t stride,
                       dense_loss loss, void *user);

#endif
