/* Fill and dropout: element indices whatever the pitch and the tile, moments, exact masks. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense_case.h"

static const int64_t shapes[][2] = {{0, 3}, {1, 1}, {3, 127}, {5, 256}, {7, 257}, {2, 1001}};

TEST(fills_by_index)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    const plim_random r = {77, 5};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 6; s++)
            for (int kind = 0; kind < 3; kind++) {
                const int64_t rows = shapes[s][0], cols = shapes[s][1];
                const plim_dtype dtype = ops_dtypes[t].act;
                const plim_tensor x = io_make(dtype, rows, cols, 3, NULL);
                double *want = calloc((size_t)(rows * cols) + 1, sizeof *want);
                for (int64_t i = 0; i < rows * cols; i++) {
                    float v = 0.5f;
                    if (kind == PLIM_FILL_NORMAL)
                        v += plim_random_normal(r, (uint64_t)i, 0.25f, plim_normal_segments());
                    if (kind == PLIM_FILL_UNIFORM) v += -0.25f * plim_random_float(r, (uint64_t)i);
                    want[i] = (double)v;
                }
                io_round(dtype, want, rows * cols);
                const plim_fill_args a = {x, (plim_fill_kind)kind, r.seed, r.stream, 0.5, 0.25};
                CHECK_OK(f.c, plim_cpu_fill(f.d, &a));
                dense_expect("fill", x, want, 0, 0);
                io_free(x), free(want);
            }
    ops_close(&f);
}

/* Mean and spread of 200,000 numbers within five standard errors. */
TEST(fills_have_their_moments)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    const int64_t n = 200000;
    double *x = calloc((size_t)n, sizeof *x);
    for (int kind = PLIM_FILL_NORMAL; kind <= PLIM_FILL_UNIFORM; kind++) {
        const plim_fill_args a = {{x, PLIM_F64, 200, 1000, 1000},  (plim_fill_kind)kind, 1, 2, -1,
                                  kind == PLIM_FILL_NORMAL ? 2 : 3};
        CHECK_OK(f.c, plim_cpu_fill(f.d, &a));
        const double mean_want = kind == PLIM_FILL_NORMAL ? -1 : 1,
                     variance_want = kind == PLIM_FILL_NORMAL ? 4 : 16.0 / 12;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        assert_true(fabs(mean - mean_want) < 5 * sqrt(variance_want / (double)n));
        assert_true(fabs(variance - variance_want) < 5 * variance_want * sqrt(2.0 / (double)n));
    }
    free(x);
    ops_close(&f);
}

TEST(drops_by_index)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    const plim_random r = {3, 9};
    static const double chances[] = {0, 0.1, 0.5, 0.999};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 6; s++)
            for (int c = 0; c < 4; c++) {
                const int64_t rows = shapes[s][0], cols = shapes[s][1], first = 11 * s;
                const plim_dtype act = ops_dtypes[t].act;
                uint64_t seed = 6;
                dense_input x = dense_random(&seed, act, rows, cols, 1, 1);
                const plim_tensor y = io_make(act, rows, cols, 2, NULL);
                double *want = calloc((size_t)(rows * cols) + 1, sizeof *want);
                for (int64_t i = 0; i < rows * cols; i++) {
                    const bool keep =
                        (double)plim_random_float(r, (uint64_t)(first * cols + i)) >= chances[c];
                    want[i] = keep ? x.values[i] / (1 - chances[c]) : 0;
                }
                plim_dropout_args a = {x.view, y, r.seed, r.stream, first, chances[c]};
                CHECK_OK(f.c, plim_cpu_dropout(f.d, &a));
                dense_expect("dropout", y, want, dense_step(act), 0);
                a.y = x.view;
                CHECK_OK(f.c, plim_cpu_dropout(f.d, &a));
                dense_expect("dropout in place", x.view, want, dense_step(act), 0);
                io_free(y), free(want), dense_free(&x);
            }
    ops_close(&f);
}

/* A tile of rows drops what the whole drops; a dropped NaN or infinity is zero. */
TEST(drops_alike_in_tiles)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    float whole[40][9], tiled[40][9];
    for (int i = 0; i < 360; i++)
        whole[i / 9][i % 9] = tiled[i / 9][i % 9] = i % 3 ? i % 2 ? NAN : INFINITY : 1;
    const plim_tensor w = {whole, PLIM_F32, 40, 9, 9}, v = {tiled, PLIM_F32, 40, 9, 9};
    CHECK_OK(f.c, plim_cpu_dropout(f.d, &(plim_dropout_args){w, w, 1, 1, 100, 0.5}));
    for (int i = 0; i < 40; i += 8) {
        const plim_tensor part = plim_tensor_rows(v, i, 8);
        CHECK_OK(f.c, plim_cpu_dropout(f.d, &(plim_dropout_args){part, part, 1, 1, 100 + i, 0.5}));
    }
    assert_memory_equal(whole, tiled, sizeof whole);
    int zeros = 0;
    for (int i = 0; i < 360; i++) zeros += whole[i / 9][i % 9] == 0;
    assert_true(zeros > 130 && zeros < 230);
    ops_close(&f);
}

TEST(refuses_bad_chances)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[4] = {0};
    static const double bad[] = {-0.1, 1, 2, NAN};
    for (int i = 0; i < 4; i++) {
        const plim_tensor v = {x, PLIM_F32, 2, 2, 2};
        CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_dropout(f.d, &(plim_dropout_args){v, v, 0, 0, 0, bad[i]}),
                    "dropout", "below 1");
    }
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(fills_by_index),      cmocka_unit_test(fills_have_their_moments),
        cmocka_unit_test(drops_by_index),      cmocka_unit_test(drops_alike_in_tiles),
        cmocka_unit_test(refuses_bad_chances),
    };
    return RUN_TESTS(table);
}
