/* Rotary tables: angles by position in the document, far positions, Llama 3's rule at its seams. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "ops/rope_tables.h"
#include "reference/dense_case.h"

static const plim_rope plain = {.type = PLIM_ROPE_DEFAULT, .theta = 1e7, .rotary_dim = 64};
static const plim_rope llama = {PLIM_ROPE_LLAMA3, 5e5, 128, 8, 1, 4, 8192};

TEST(positions_restart_in_every_document)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const int64_t start[] = {0, 5, 5, 6, 40};
    const plim_docs docs = {4, 40, 34, start, start};
    static const int64_t tiles[][2] = {{0, 40}, {3, 20}, {5, 1}, {39, 1}, {40, 0}};
    for (int t = 0; t < 5; t++)
        for (int wide = 0; wide < 2; wide++) {
            const plim_dtype dtype = wide ? PLIM_F64 : PLIM_F32;
            const int64_t rows = tiles[t][1];
            const plim_tensor cosine = io_make(dtype, rows, 32, 1, NULL),
                              sine = io_make(dtype, rows, 32, 0, NULL);
            CHECK_OK(c, plim_rope_tables(c, &plain, &docs, tiles[t][0], cosine, sine));
            double *want = calloc(2 * 32 * (size_t)rows + 1, sizeof *want);
            for (int64_t i = 0; i < rows; i++)
                for (int m = 0; m < 32; m++) {
                    const int64_t row = tiles[t][0] + i, p = row < 5 ? row : row < 6 ? 0 : row - 6;
                    want[i * 32 + m] = cos((double)p / pow(1e7, m / 32.0));
                    want[(rows + i) * 32 + m] = sin((double)p / pow(1e7, m / 32.0));
                }
            dense_expect("cos", cosine, want, dense_step(dtype), 1e-14);
            dense_expect("sin", sine, want + rows * 32, dense_step(dtype), 1e-14);
            io_free(cosine), io_free(sine), free(want);
        }
    test_ctx_close(c);
}

/* At token 262,143 a float angle would be off by up to 0.016 radians; ours is right to the table's
 * rounding. */
TEST(far_positions_are_exact)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const int64_t start[] = {0, 262144};
    const plim_docs docs = {1, 262144, 262144, start, start};
    float cosine[32], sine[32];
    CHECK_OK(c, plim_rope_tables(c, &plain, &docs, 262143, (plim_tensor){cosine, PLIM_F32, 1, 32, 32},
                                 (plim_tensor){sine, PLIM_F32, 1, 32, 32}));
    for (int m = 0; m < 32; m++) {
        const long double angle = 262143.0L * powl(1e7L, -m / 32.0L);
        assert_true(fabsl((long double)cosine[m] - cosl(angle)) < 1e-7L &&
                    fabsl((long double)sine[m] - sinl(angle)) < 1e-7L);
    }
    test_ctx_close(c);
}

TEST(llama3_stretches_long_waves)
{
    UNUSED_STATE;
    int kept = 0, divided = 0, between = 0;
    double before = INFINITY;
    for (int64_t m = 0; m < 64; m++) {
        const double f = pow(5e5, -(double)m / 64), wave = 2 * acos(-1) / f,
                     got = plim_rope_frequency(&llama, m);
        if (wave < 8192.0 / 4) {
            assert_true(got == plim_rope_frequency(&(plim_rope){.theta = 5e5, .rotary_dim = 128}, m));
            kept++;
        } else if (wave > 8192.0) {
            assert_true(fabs(got / (f / 8) - 1) < 1e-13);
            divided++;
        } else {
            const double smooth = (8192 / wave - 1) / 3;
            assert_true(fabs(got / ((1 - smooth) * f / 8 + smooth * f) - 1) < 1e-13);
            between++;
        }
        assert_true(got < before);
        before = got;
    }
    assert_true(kept > 20 && divided > 20 && between > 3);
}

TEST(refuses_what_does_not_fit)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const int64_t start[] = {0, 4};
    const plim_docs docs = {1, 4, 4, start, start};
    float x[256];
    const plim_tensor t = {x, PLIM_F32, 4, 32, 32};
    plim_rope odd = plain, unknown = plain;
    odd.rotary_dim = 63, unknown.type = (plim_rope_type)99;
    CHECK_FAILS(c, PLIM_E_SHAPE, plim_rope_tables(c, &odd, &docs, 0, t, t), "63");
    CHECK_FAILS(c, PLIM_E_UNSUPPORTED, plim_rope_tables(c, &unknown, &docs, 0, t, t), "99");
    CHECK_FAILS(c, PLIM_E_SHAPE, plim_rope_tables(c, &plain, &docs, 1, t, t), "1 to 4 of 4");
    CHECK_FAILS(c, PLIM_E_SHAPE, plim_rope_tables(c, &plain, &docs, 0, t, plim_tensor_cols(t, 0, 31)), "sin",
                "31");
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(positions_restart_in_every_document),
        cmocka_unit_test(far_positions_are_exact),
        cmocka_unit_test(llama3_stretches_long_waves),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return RUN_TESTS(table);
}
