/* Views for tests of operations: made from doubles, NaN where nothing was given, fenced by guard cells. */
#ifndef PLIM_TESTS_REFERENCE_DELTA_IO_H
#define PLIM_TESTS_REFERENCE_DELTA_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tensor.h"

/* rows x cols at pitch cols + gap, a guard row before and one after.  values [rows, cols], rounded to the
 * dtype; NULL: NaN (codes: 0xcc).  Free with io_free. */
plim_tensor io_make(plim_dtype dtype, int64_t rows, int64_t cols, int64_t gap, const double *values);
void io_free(plim_tensor t);

/* Whether every cell beside the rows x cols is as io_make left it. */
bool io_guarded(plim_tensor t);

/* The view's elements as doubles, and the same freshly allocated (free() it). */
void io_read(plim_tensor t, double *out);
double *io_copy(plim_tensor t);

/* x rounded to what dtype holds. */
void io_round(plim_dtype dtype, double *x, int64_t n);

/* Repeatable numbers: uniform in [0, 1), standard normal. */
double io_uniform(uint64_t *seed);
double io_normal(uint64_t *seed);

/* |got - want| / |want| in the Frobenius norm; infinity when got has a NaN, or want is 0 and got is not. */
double io_error(const double *got, const double *want, int64_t n);

#endif
