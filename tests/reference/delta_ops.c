#include "reference/delta_ops.h"

#include <math.h>
#include <stdlib.h>

#include "reference/delta_io.h"
#include "support/test.h"

const ops_dtype ops_dtypes[3] = {
    {PLIM_F64, PLIM_F64, 1e-12}, {PLIM_F32, PLIM_F32, 1e-6}, {PLIM_BF16, PLIM_F32, 0x1p-8}};

ops_fixture ops_open(int threads)
{
    ops_fixture f = {.c = test_ctx_open()};
    CHECK_OK(f.c, plim_cpu_open(f.c, threads, &f.d));
    return f;
}

void ops_close(ops_fixture *f)
{
    plim_cpu_close(f->d);
    test_ctx_close(f->c);
}

double *ops_normals(plim_dtype dtype, int64_t n, double scale, uint64_t *seed)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = scale * io_normal(seed);
    io_round(dtype, x, n);
    return x;
}

void ops_expect(const char *name, plim_tensor got, const double *want, double tolerance)
{
    assert_true(io_guarded(got));
    double *x = io_copy(got);
    const double error = io_error(x, want, got.rows * got.cols);
    if (!(error <= tolerance))
        fail_msg("%s [%d, %d] %s is off by %.3g, allowed %.3g", name, (int)got.rows, (int)got.cols,
                 plim_dtype_name(got.dtype), error, tolerance);
    free(x);
    io_free(got);
}

void ops_check_slope(const char *name, ops_function f, void *user, double *x, const double *gradient,
                     int64_t n)
{
    static const double steps[] = {-2, -1, 1, 2};
    const double h = 1e-4;
    uint64_t seed = 19;
    double *at = malloc((size_t)n * sizeof *at), *way = malloc((size_t)n * sizeof *way), along = 0, f_at[4];
    memcpy(at, x, (size_t)n * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        way[i] = io_normal(&seed) / sqrt((double)n);
        along += way[i] * gradient[i];
    }
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < n; i++) x[i] = at[i] + steps[k] * h * way[i];
        f_at[k] = f(user);
    }
    memcpy(x, at, (size_t)n * sizeof *at);
    const double slope = (f_at[0] - 8 * f_at[1] + 8 * f_at[2] - f_at[3]) / (12 * h);
    if (!(fabs(slope - along) <= 1e-6 * fmax(1, fabs(along))))
        fail_msg("%s: slope %.12g, gradient %.12g", name, slope, along);
    free(at), free(way);
}
