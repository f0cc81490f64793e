/* RMS norm over whole rows and groups, both gains, accumulation; slopes; equal, tiny and huge rows. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

/* rows, columns, group */
static const int64_t shapes[][3] = {{0, 4, 4},    {1, 1, 1},    {3, 127, 127},
                                    {2, 128, 64}, {5, 129, 43}, {129, 160, 160}};

static void check_shape(ops_fixture *f, plim_dtype act, const int64_t *shape, bool unit, bool accumulate)
{
    const int64_t rows = shape[0], cols = shape[1], n = shape[2];
    const double eps = 1e-6, offset = unit ? 1 : 0;
    uint64_t seed = (uint64_t)cols;
    dense_input x = dense_random(&seed, act, rows, cols, 3, 2),
                dy = dense_random(&seed, act, rows, cols, 0, 1);
    dense_input w = dense_random(&seed, dense_stat(act), 1, n, 0, 0.5),
                before = dense_random(&seed, act, rows, cols, 1, 1);
    const plim_tensor y = io_make(act, rows, cols, 2, NULL);
    const plim_tensor dx = io_make(act, rows, cols, 1, accumulate ? before.values : NULL);
    double *want = calloc(2 * (size_t)(rows * cols) + 1, sizeof *want), *want_dx = want + rows * cols;
    double terms = 0; /* what dx is a difference of */
    for (int64_t i = 0; i < rows * cols; i += n) {
        reference_rmsnorm(n, x.values + i, w.values, eps, offset, want + i);
        reference_rmsnorm_bwd(n, x.values + i, w.values, eps, offset, dy.values + i, want_dx + i);
        for (int64_t j = i; j < i + n; j++) terms = fmax(terms, fabs(want[j] / x.values[j] * dy.values[j]));
        if (accumulate)
            for (int64_t j = i; j < i + n; j++) want_dx[j] += before.values[j];
    }
    const plim_rmsnorm_args a = {.x = x.view,
                                 .w = w.view,
                                 .y = y,
                                 .dy = dy.view,
                                 .dx = dx,
                                 .eps = eps,
                                 .unit_offset = unit,
                                 .accumulate = accumulate};
    CHECK_OK(f->c, plim_cpu_rmsnorm_fwd(f->d, &a));
    CHECK_OK(f->c, plim_cpu_rmsnorm_bwd(f->d, &a));
    const double slack = (double)(n + 8) * 0x1p-52;
    dense_expect("y", y, want, dense_step(act) + slack, 0);
    dense_expect("dx", dx, want_dx, dense_step(act), slack * (1 + terms));
    io_free(y), io_free(dx), free(want);
    dense_free(&x), dense_free(&dy), dense_free(&w), dense_free(&before);
}

TEST(values_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 6; s++)
            for (int flags = 0; flags < 4; flags++)
                check_shape(&f, ops_dtypes[t].act, shapes[s], flags & 1, flags & 2);
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double x[14], w[7], dy[14], y[14], dx[14];
    plim_rmsnorm_args a;
} slopes;

static double weighted(void *user)
{
    slopes *s = user;
    double sum = 0;
    CHECK_OK(s->f.c, plim_cpu_rmsnorm_fwd(s->f.d, &s->a));
    for (int i = 0; i < 14; i++) sum += s->y[i] * s->dy[i];
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1)};
    uint64_t seed = 5;
    for (int i = 0; i < 14; i++)
        s.x[i] = io_normal(&seed), s.dy[i] = io_normal(&seed), s.w[i / 2] = io_normal(&seed);
    s.a = (plim_rmsnorm_args){.x = {s.x, PLIM_F64, 1, 14, 14},
                              .w = {s.w, PLIM_F64, 1, 7, 7},
                              .y = {s.y, PLIM_F64, 1, 14, 14},
                              .dy = {s.dy, PLIM_F64, 1, 14, 14},
                              .dx = {s.dx, PLIM_F64, 1, 14, 14},
                              .eps = 1e-2,
                              .unit_offset = true};
    CHECK_OK(s.f.c, plim_cpu_rmsnorm_bwd(s.f.d, &s.a));
    dense_differences("rmsnorm", s.x, s.dx, 14, 1, weighted, &s);
    ops_close(&s.f);
}

/* A row of one value normalises to 1; zeros stay 0; squares that overflow a float do not. */
TEST(extreme_rows)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[4][64], w[64], y[4][64], dx[4][64];
    for (int i = 0; i < 64; i++) x[0][i] = 3, x[1][i] = 0, x[2][i] = -1e30f, x[3][i] = 1e-30f, w[i] = 0;
    const plim_rmsnorm_args a = {.x = {x, PLIM_F32, 4, 64, 64},
                                 .w = {w, PLIM_F32, 1, 64, 64},
                                 .y = {y, PLIM_F32, 4, 64, 64},
                                 .dy = {x, PLIM_F32, 4, 64, 64},
                                 .dx = {dx, PLIM_F32, 4, 64, 64},
                                 .eps = 1e-6,
                                 .unit_offset = true};
    CHECK_OK(f.c, plim_cpu_rmsnorm_fwd(f.d, &a));
    CHECK_OK(f.c, plim_cpu_rmsnorm_bwd(f.d, &a));
    for (int i = 0; i < 64; i++) {
        assert_true(fabsf(y[0][i] - 1) < 1e-6f && y[1][i] == 0 && y[2][i] == -1 &&
                    fabsf(y[3][i] / 1e-27f - 1) < 1e-6f);
        assert_true(fabsf(dx[0][i]) < 1e-6f && dx[1][i] == 0 && fabsf(dx[2][i]) < 1e-6f &&
                    isfinite(dx[3][i]));
    }
    ops_close(&f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[12] = {0};
    plim_rmsnorm_args a = {
        .x = {x, PLIM_F32, 2, 6, 6}, .w = {x, PLIM_F32, 1, 4, 4}, .y = {x, PLIM_F32, 2, 6, 6}};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_rmsnorm_fwd(f.d, &a), "6", "4");
    a.w.cols = 0;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_rmsnorm_fwd(f.d, &a), "6", "0");
    a.w.cols = 3, a.w.dtype = PLIM_BF16;
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_rmsnorm_bwd(f.d, &a), "w", "BF16", "F32");
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(values_and_gradients_match),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(extreme_rows),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
