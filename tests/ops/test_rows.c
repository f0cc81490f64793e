/* Rows copied, cast, added, gathered and scattered; bits kept where the dtype is; indices checked. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/cpu/cpu.h"
#include "reference/delta_ops.h"
#include "reference/dense_case.h"

static const plim_dtype floats[] = {PLIM_F64, PLIM_F32, PLIM_BF16};
static const int64_t shapes[][2] = {{0, 3}, {1, 1}, {3, 127}, {128, 129}, {2, 0}};

TEST(copies_and_sums_between_dtypes)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    for (int pair = 0; pair < 9; pair++)
        for (int s = 0; s < 5; s++) {
            const plim_dtype from = floats[pair % 3], to = floats[pair / 3];
            const int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            uint64_t seed = (uint64_t)pair;
            dense_input x = dense_random(&seed, from, rows, cols, 3, 1),
                        y = dense_random(&seed, to, rows, cols, 1, 1);
            dense_input bias = dense_random(&seed, from, 1, cols, 0, 1);
            const plim_tensor copied = io_make(to, rows, cols, 2, NULL),
                              shifted = io_make(to, rows, cols, 0, y.values);
            double *want = calloc((size_t)n + 1, sizeof *want);
            for (int64_t i = 0; i < n; i++) want[i] = x.values[i];
            io_round(to, want, n);
            CHECK_OK(f.c, plim_cpu_copy(f.d, x.view, copied));
            dense_expect("copy", copied, want, 0, 0);
            for (int64_t i = 0; i < n; i++) want[i] = x.values[i] + y.values[i];
            io_round(to, want, n);
            CHECK_OK(f.c, plim_cpu_add(f.d, x.view, y.view));
            dense_expect("add", y.view, want, 0, 0);
            for (int64_t i = 0; i < n; i++) want[i] = bias.values[i % cols] + y.values[i];
            io_round(to, want, n);
            CHECK_OK(f.c, plim_cpu_add_bias(f.d, bias.view, shifted));
            dense_expect("add_bias", shifted, want, 0, 0);
            free(want), io_free(copied), io_free(shifted), dense_free(&x), dense_free(&y), dense_free(&bias);
        }
    ops_close(&f);
}

/* A float's product of two floats, whatever it is stored as; a double's of two doubles. */
TEST(scaled_copies)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    const double alpha = 1.7;
    for (int pair = 0; pair < 9; pair++)
        for (int s = 0; s < 5; s++) {
            const plim_dtype from = floats[pair % 3], to = floats[pair / 3];
            const int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            uint64_t seed = (uint64_t)pair + 100;
            dense_input x = dense_random(&seed, from, rows, cols, 3, 1);
            const plim_tensor got = io_make(to, rows, cols, 2, NULL);
            double *want = calloc((size_t)n + 1, sizeof *want);
            for (int64_t i = 0; i < n; i++)
                want[i] =
                    from == PLIM_F64 ? alpha * x.values[i] : (double)((float)alpha * (float)x.values[i]);
            io_round(to, want, n);
            CHECK_OK(f.c, plim_cpu_scaled_copy(f.d, alpha, x.view, got));
            dense_expect("scaled_copy", got, want, 0, 0);
            free(want), io_free(got), dense_free(&x);
        }
    int32_t word[2] = {0};
    plim_tensor ids = {word, PLIM_I32, 1, 2, 2};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_scaled_copy(f.d, 2, ids, ids), "scaled_copy", "I32");
    ops_close(&f);
}

/* Infinities, NaN with its payload's top, subnormals and ties keep or round as IEEE has it. */
TEST(bf16_casts_of_special_numbers)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffc12345, 0x00000001,
                                    0x80008000, 0x3f808000, 0x3f818000, 0x7f7fffff, 0x3f808001};
    static const uint16_t want[] = {0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x0000,
                                    0x8000, 0x3f80, 0x3f82, 0x7f80, 0x3f81};
    uint16_t got[10];
    uint32_t back[10];
    CHECK_OK(f.c, plim_cpu_copy(f.d, (plim_tensor){(void *)bits, PLIM_F32, 1, 10, 10},
                                (plim_tensor){got, PLIM_BF16, 1, 10, 10}));
    assert_memory_equal(got, want, sizeof want);
    CHECK_OK(f.c, plim_cpu_copy(f.d, (plim_tensor){got, PLIM_BF16, 1, 10, 10},
                                (plim_tensor){back, PLIM_F32, 1, 10, 10}));
    for (int i = 0; i < 10; i++) assert_int_equal(back[i], (uint32_t)want[i] << 16);
    ops_close(&f);
}

TEST(gathers_and_scatters)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(2);
    static const int32_t gather[] = {4, 0, 4, 2}, scatter[] = {5, 0, 3, 1};
    for (int pair = 0; pair < 9; pair++) {
        const plim_dtype from = floats[pair % 3], to = floats[pair / 3];
        uint64_t seed = 4;
        dense_input table = dense_random(&seed, from, 5, 33, 2, 1),
                    old = dense_random(&seed, to, 6, 33, 1, 1);
        const plim_tensor picked = io_make(to, 4, 33, 3, NULL);
        double want[6 * 33];
        for (int i = 0; i < 4; i++) memcpy(want + i * 33, table.values + gather[i] * 33, 33 * sizeof *want);
        io_round(to, want, 4 * 33);
        CHECK_OK(f.c, plim_cpu_gather_rows(f.d, &(plim_rows_args){table.view, picked, gather}));
        dense_expect("gather", picked, want, 0, 0);
        memcpy(want, old.values, sizeof want);
        for (int i = 0; i < 4; i++) memcpy(want + scatter[i] * 33, table.values + i * 33, 33 * sizeof *want);
        io_round(to, want, 6 * 33);
        CHECK_OK(f.c, plim_cpu_scatter_rows(
                          f.d, &(plim_rows_args){plim_tensor_rows(table.view, 0, 4), old.view, scatter}));
        dense_expect("scatter", old.view, want, 0, 0);
        io_free(picked), dense_free(&table), dense_free(&old);
    }
    ops_close(&f);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    ops_fixture f = ops_open(1);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    const plim_tensor src = {x, PLIM_F32, 3, 2, 2}, dst = {y, PLIM_F32, 3, 2, 2};
    static const int32_t high[] = {0, 3, 1}, low[] = {0, 1, -1};
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_gather_rows(f.d, &(plim_rows_args){src, dst, high}),
                "index 1 is 3", "0 to 2");
    CHECK_FAILS(f.c, PLIM_E_RANGE, plim_cpu_scatter_rows(f.d, &(plim_rows_args){src, dst, low}),
                "index 2 is -1");
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_gather_rows(f.d, &(plim_rows_args){src, dst, NULL}),
                "no indices");
    for (int i = 0; i < 6; i++) assert_true(y[i] == 0);
    const plim_tensor ids = {y, PLIM_I32, 3, 2, 2};
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_copy(f.d, ids, src), "I32", "F32");
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_add(f.d, ids, src), "I32");
    CHECK_FAILS(f.c, PLIM_E_SHAPE, plim_cpu_add_bias(f.d, src, dst), "bias", "3 x 2", "1 x 2");
    ops_close(&f);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(copies_and_sums_between_dtypes), cmocka_unit_test(scaled_copies),
        cmocka_unit_test(bf16_casts_of_special_numbers),  cmocka_unit_test(gathers_and_scatters),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
