/* The gated product against its formula, gradients against differences, aliases, extremes. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense.h"
#include "reference/dense_case.h"

static const int64_t shapes[][2] = {{0, 5}, {1, 1}, {3, 127}, {2, 128}, {5, 129}, {40, 513}};

TEST(values_and_gradients_match)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 6; s++)
            for (int alias = 0; alias < 2; alias++) {
                const plim_dtype act = ops_dtypes[t].act;
                const int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
                uint64_t seed = (uint64_t)s;
                dense_input gate = dense_random(&seed, act, rows, cols, 3, 3),
                            up = dense_random(&seed, act, rows, cols, 0, 2);
                dense_input dy = dense_random(&seed, act, rows, cols, 1, 1);
                const plim_tensor y = io_make(act, rows, cols, 2, NULL),
                                  again = io_make(act, rows, cols, 0, NULL);
                plim_tensor dgate = io_make(act, rows, cols, 1, NULL),
                            dup = io_make(act, rows, cols, 2, NULL);
                double *want = calloc(3 * (size_t)n + 1, sizeof *want);
                for (int64_t i = 0; i < n; i++) {
                    const double g = gate.values[i], sig = reference_sigmoid(g);
                    want[i] = g * sig * up.values[i];
                    want[n + i] = dy.values[i] * up.values[i] * (sig + g * sig * reference_sigmoid(-g));
                    want[2 * n + i] = dy.values[i] * g * sig;
                }
                CHECK_OK(f.c, plim_cpu_swiglu_fwd(
                                  f.d, &(plim_swiglu_args){.gate = gate.view, .up = up.view, .y = y}));
                CHECK_OK(f.c,
                         plim_cpu_swiglu_bwd(f.d, &(plim_swiglu_args){.gate = gate.view,
                                                                      .up = up.view,
                                                                      .y = alias ? again : (plim_tensor){0},
                                                                      .dy = dy.view,
                                                                      .dgate = alias ? gate.view : dgate,
                                                                      .dup = alias ? up.view : dup}));
                /* a few double roundings of factors up to about 20, and one of the store */
                const double step = dense_step(act), slack = 64 * DBL_EPSILON;
                dense_expect("y", y, want, step, slack);
                if (alias) dense_expect("y again", again, want, step, slack);
                dense_expect("dgate", alias ? gate.view : dgate, want + n, step, slack);
                dense_expect("dup", alias ? up.view : dup, want + 2 * n, step, slack);
                io_free(y), io_free(again), io_free(dgate), io_free(dup), free(want);
                dense_free(&gate), dense_free(&up), dense_free(&dy);
            }
    ops_close(&f);
}

typedef struct slopes {
    ops_fixture f;
    double x[16], dy[8]; /* gate then up */
} slopes;

static double weighted(void *user)
{
    slopes *s = user;
    double y[8], sum = 0;
    const plim_swiglu_args a = {
        .gate = {s->x, PLIM_F64, 1, 8, 8}, .up = {s->x + 8, PLIM_F64, 1, 8, 8}, .y = {y, PLIM_F64, 1, 8, 8}};
    CHECK_OK(s->f.c, plim_cpu_swiglu_fwd(s->f.d, &a));
    for (int i = 0; i < 8; i++) sum += y[i] * s->dy[i];
    return sum;
}

TEST(gradients_are_slopes)
{
    UNUSED_STATE;
    slopes s = {.f = ops_open(1),
                .x = {-5, -1.3, -0.1, 0, 0.2, 1, 2.5, 6, 1, -2, 3, 0.5, -1, 2, 0.1, 1},
                .dy = {1, 2, -1, 0.5, 3, -2, 1, 0.25}};
    double gradient[16];
    const plim_swiglu_args a = {.gate = {s.x, PLIM_F64, 1, 8, 8},
                                .up = {s.x + 8, PLIM_F64, 1, 8, 8},
                                .dy = {s.dy, PLIM_F64, 1, 8, 8},
                                .dgate = {gradient, PLIM_F64, 1, 8, 8},
                                .dup = {gradient + 8, PLIM_F64, 1, 8, 8}};
    CHECK_OK(s.f.c, plim_cpu_swiglu_bwd(s.f.d, &a));
    dense_differences("swiglu", s.x, gradient, 16, 1, weighted, &s);
    ops_close(&s.f);
}

/* Gates far out on both sides: y is 0 or gate * up, never NaN; NaN stays. */
TEST(extreme_gates)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float gate[] = {-1e30f, -800, -90, 90, 800, 1e30f, NAN}, up[] = {2, 2, 2, 2, 2, 2, 2}, y[7], dgate[7],
          dup[7];
    const plim_swiglu_args a = {.gate = {gate, PLIM_F32, 1, 7, 7},
                                .up = {up, PLIM_F32, 1, 7, 7},
                                .y = {y, PLIM_F32, 1, 7, 7},
                                .dy = {up, PLIM_F32, 1, 7, 7},
                                .dgate = {dgate, PLIM_F32, 1, 7, 7},
                                .dup = {dup, PLIM_F32, 1, 7, 7}};
    CHECK_OK(f.c, plim_cpu_swiglu_fwd(f.d, &a));
    CHECK_OK(f.c, plim_cpu_swiglu_bwd(f.d, &a));
    for (int i = 0; i < 6; i++) {
        assert_true(i < 3 ? fabsf(y[i]) < 1e-35f : y[i] == 2 * gate[i]);
        assert_true(i < 3 ? fabsf(dgate[i]) < 1e-35f : dgate[i] == 4);
        assert_true(i < 3 ? fabsf(dup[i]) < 1e-35f : dup[i] == 2 * gate[i]);
    }
    assert_true(isnan(y[6]) && isnan(dgate[6]) && isnan(dup[6]));
    ops_close(&f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[4] = {0};
    const plim_tensor v = {x, PLIM_F32, 2, 2, 2};
    CHECK_FAILS(
        f.c, PLIM_E_SHAPE,
        plim_cpu_swiglu_fwd(f.d, &(plim_swiglu_args){.gate = v, .up = plim_tensor_rows(v, 0, 1), .y = v}),
        "up", "1 x 2", "2 x 2");
    CHECK_FAILS(
        f.c, PLIM_E_SHAPE,
        plim_cpu_swiglu_fwd(f.d, &(plim_swiglu_args){.gate = v, .up = v, .y = {x, PLIM_F16, 2, 2, 2}}), "F16",
        "BF16");
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(values_and_gradients_match),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(extreme_gates),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
