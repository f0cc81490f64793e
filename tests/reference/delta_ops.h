/* What the tests of the small operations share: a device, the dtypes with what they allow, slopes of
 * functions. */
#ifndef PLIM_TESTS_REFERENCE_DELTA_OPS_H
#define PLIM_TESTS_REFERENCE_DELTA_OPS_H

#include "ops/ops.h"

typedef struct ops_fixture {
    plim_ctx *c;
    plim_device *d;
} ops_fixture;

ops_fixture ops_open(int threads);
void ops_close(ops_fixture *f);

/* Activations, their STAT, and the error of one rounding on store (Frobenius, on random numbers). */
typedef struct ops_dtype {
    plim_dtype act, stat;
    double tolerance;
} ops_dtype;
extern const ops_dtype ops_dtypes[3];

/* n normal numbers times scale, as dtype holds them. */
double *ops_normals(plim_dtype dtype, int64_t n, double scale, uint64_t *seed);

/* Reads the view into doubles, checks its guards, frees it, and fails unless it is within tolerance of
 * want. */
void ops_expect(const char *name, plim_tensor got, const double *want, double tolerance);

/* Fails unless the slope of f along a random direction of x (n numbers) is that of gradient, to 1e-6. */
typedef double (*ops_function)(void *user);
void ops_check_slope(const char *name, ops_function f, void *user, double *x, const double *gradient,
                     int64_t n);

#endif
