/* The exponentials that vectorise against the C library's, over their whole range and at its ends. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "ops/cpu/value.h"

TEST(exp_in_double)
{
    UNUSED_STATE;
    for (double x = -707.9; x < 709.7; x += 0.00377) {
        const double want = exp(x);
        assert_true(fabs(plim_cpu_exp(x) - want) <= 2 * DBL_EPSILON * want);
    }
    assert_true(plim_cpu_exp(0) == 1 && plim_cpu_exp(-0.0) == 1);
    assert_true(plim_cpu_exp(-709) == 0 && plim_cpu_exp(-1e300) == 0 && plim_cpu_exp(-INFINITY) == 0);
    assert_true(isfinite(plim_cpu_exp(709.78)) && isinf(plim_cpu_exp(709.79)) && isinf(plim_cpu_exp(1e300)));
    assert_true(isinf(plim_cpu_exp(INFINITY)) && isnan(plim_cpu_exp(NAN)) && isnan(plim_cpu_exp(-NAN)));
}

TEST(exp_in_float)
{
    UNUSED_STATE;
    for (float x = -86.9f; x < 88.7f; x += 0.000377f) {
        const double want = exp((double)x);
        assert_true(fabs((double)plim_cpu_expf(x) - want) <= 2 * (double)FLT_EPSILON * want);
    }
    assert_true(plim_cpu_expf(0) == 1 && plim_cpu_expf(-88) == 0 && plim_cpu_expf(-1e30f) == 0);
    assert_true(plim_cpu_expf(-INFINITY) == 0 && isinf(plim_cpu_expf(89)) && isinf(plim_cpu_expf(INFINITY)));
    assert_true(isfinite(plim_cpu_expf(88.72f)) && isnan(plim_cpu_expf(NAN)));
}

TEST(sigmoid_and_slope)
{
    UNUSED_STATE;
    for (double x = -700; x < 700; x += 0.37) {
        const double s = x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
        assert_true(fabs(plim_cpu_sigmoid(x) - s) <= 4 * DBL_EPSILON * s);
        const double slope = s + x * s * (x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x)));
        assert_true(fabs(plim_cpu_silu_slope(x, plim_cpu_sigmoid(x)) - slope) <=
                    8 * DBL_EPSILON * (s + fabs(x) * s));
    }
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(exp_in_double),
        cmocka_unit_test(exp_in_float),
        cmocka_unit_test(sigmoid_and_slope),
    };
    return RUN_TESTS(table);
}
