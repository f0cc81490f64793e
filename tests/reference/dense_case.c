#include "reference/dense_case.h"

#include "support/test.h"

#include <math.h>
#include <stdlib.h>

dense_input dense_random(uint64_t *seed, plim_dtype dtype, int64_t rows, int64_t cols, int64_t gap,
                         double scale)
{
    dense_input x = {.values = calloc((size_t)(rows * cols) + 1, sizeof(double))};
    for (int64_t i = 0; i < rows * cols; i++) x.values[i] = scale * io_normal(seed);
    io_round(dtype, x.values, rows * cols);
    x.view = io_make(dtype, rows, cols, gap, x.values);
    return x;
}

void dense_free(dense_input *x)
{
    io_free(x->view);
    free(x->values);
}

double dense_step(plim_dtype dtype)
{
    return dtype == PLIM_F64 ? 0x1p-52 : dtype == PLIM_F32 ? 0x1p-23 : 0x1p-7;
}

plim_dtype dense_stat(plim_dtype act)
{
    return act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
}

void dense_expect(const char *what, plim_tensor got, const double *want, double relative, double absolute)
{
    double *values = io_copy(got);
    if (!io_guarded(got)) fail_msg("%s: cells beside the view were written", what);
    for (int64_t i = 0; i < got.rows * got.cols; i++)
        if (!(fabs(values[i] - want[i]) <= relative * fabs(want[i]) + absolute))
            fail_msg("%s (%s %lld x %lld): row %lld, column %lld is %.17g, wanted %.17g within %.3g", what,
                     plim_dtype_name(got.dtype), (long long)got.rows, (long long)got.cols,
                     (long long)(i / got.cols), (long long)(i % got.cols), values[i], want[i],
                     relative * fabs(want[i]) + absolute);
    free(values);
}

double dense_largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most) most = fabs(x[i]);
    return most;
}

void dense_differences(const char *what, double *x, const double *gradient, int64_t n, int64_t stride,
                       dense_loss loss, void *user)
{
    const double h = 1e-5, allowed = 1e-7 * (1 + dense_largest(gradient, n));
    for (int64_t i = 0; i < n; i += stride) {
        const double before = x[i];
        x[i] = before + h;
        const double above = loss(user);
        x[i] = before - h;
        const double below = loss(user);
        x[i] = before;
        const double slope = (above - below) / (2 * h);
        if (!(fabs(slope - gradient[i]) <= allowed))
            fail_msg("%s: gradient %lld is %.12g, differences say %.12g", what, (long long)i, gradient[i],
                     slope);
    }
}
