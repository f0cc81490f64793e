/* The gradient's squared norm: value, order, and that nothing non-finite passes unseen. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_io.h"
#include "reference/delta_ops.h"

TEST(adds_the_squares)
{
    UNUSED_STATE;
    static const int64_t shapes[][2] = {{1, 1}, {7, 33}, {1, 5000}, {300, 129}};
    ops_fixture one = ops_open(1), two = ops_open(3);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t n = shapes[i][0] * shapes[i][1];
            uint64_t seed = i;
            double *x = ops_normals(ops_dtypes[k].act, n, 1, &seed), want = 2.5, sum = 2.5, again = 2.5,
                   wide = 2.5;
            for (int64_t j = 0; j < n; j++) want += x[j] * x[j];
            plim_tensor t = io_make(ops_dtypes[k].act, shapes[i][0], shapes[i][1], 7, x);
            plim_tensor dense = io_make(ops_dtypes[k].act, 1, n, 0, x);
            CHECK_OK(one.c, plim_cpu_square_sum(one.d, &(plim_square_sum_args){t, &sum}));
            CHECK_OK(two.c, plim_cpu_square_sum(two.d, &(plim_square_sum_args){t, &again}));
            CHECK_OK(two.c, plim_cpu_square_sum(two.d, &(plim_square_sum_args){dense, &wide}));
            assert_true(fabs(sum - want) <= 1e-13 * want && sum == again &&
                        fabs(wide - want) <= 1e-13 * want);
            io_free(t), io_free(dense), free(x);
        }
    ops_close(&two), ops_close(&one);
}

TEST(non_finite_elements_show)
{
    UNUSED_STATE;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    ops_fixture f = ops_open(2);
    double x[700] = {0};
    for (size_t i = 0; i < 3; i++)
        for (int at = 0; at < 700; at += 233) {
            double sum = 0;
            x[at] = bad[i];
            plim_tensor t = io_make(PLIM_F32, 7, 100, 3, x);
            CHECK_OK(f.c, plim_cpu_square_sum(f.d, &(plim_square_sum_args){t, &sum}));
            assert_false(isfinite(sum));
            io_free(t);
            x[at] = 0;
        }
    double sum = 0; /* the largest float is finite, and so is its square in double */
    x[5] = 3e38;
    plim_tensor t = io_make(PLIM_F32, 7, 100, 3, x);
    CHECK_OK(f.c, plim_cpu_square_sum(f.d, &(plim_square_sum_args){t, &sum}));
    assert_true(isfinite(sum) && sum > 8e76);
    t.dtype = PLIM_I8;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_square_sum(f.d, &(plim_square_sum_args){t, &sum}), "square_sum",
                "I8");
    t.dtype = PLIM_F32, t.rows = 0, sum = 1;
    CHECK_OK(f.c, plim_cpu_square_sum(f.d, &(plim_square_sum_args){t, &sum}));
    assert_true(sum == 1);
    io_free(t);
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(adds_the_squares),
        cmocka_unit_test(non_finite_elements_show),
    };
    return RUN_TESTS(table);
}
