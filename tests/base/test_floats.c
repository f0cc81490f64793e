/* Conversions between float dtypes, what does not fit, and the hash of names. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "base/f16.h"
#include "base/floats.h"
#include "base/fnv.h"

TEST(every_pair_agrees_with_one_element_at_a_time)
{
    UNUSED_STATE;
    enum { N = 70001 }; /* threads, and a last piece that is not whole */
    float *x = malloc(N * sizeof *x), *back = malloc(N * sizeof *back);
    double *d = malloc(N * sizeof *d);
    uint16_t *h = malloc(N * sizeof *h);
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 0.37f;
    assert_int_equal(plim_floats_convert(PLIM_F32, x, N, PLIM_BF16, h), -1);
    for (int i = 0; i < N; i++) assert_int_equal(h[i], plim_bf16_round(x[i]));
    assert_int_equal(plim_floats_convert(PLIM_BF16, h, N, PLIM_F32, back), -1);
    for (int i = 0; i < N; i++) assert_true(back[i] == plim_bf16_load(h[i]));
    assert_int_equal(plim_floats_convert(PLIM_F32, x, N, PLIM_F16, h), -1);
    for (int i = 0; i < N; i++) assert_int_equal(h[i], plim_f16_round(x[i]));
    assert_int_equal(plim_floats_convert(PLIM_F16, h, N, PLIM_F64, d), -1);
    for (int i = 0; i < N; i++) assert_true(d[i] == (double)plim_f16_load(h[i]));
    for (int i = 0; i < N; i++) d[i] = i / 3.0;
    assert_int_equal(plim_floats_convert(PLIM_F64, d, N, PLIM_F32, back), -1);
    for (int i = 0; i < N; i++) assert_true(back[i] == (float)d[i]);
    double *same = malloc(N * sizeof *same);
    assert_int_equal(plim_floats_convert(PLIM_F64, d, N, PLIM_F64, same), -1);
    assert_memory_equal(same, d, N * sizeof *d);
    free(same);
    free(x);
    free(back);
    free(d);
    free(h);
}

TEST(the_source_may_lie_anywhere)
{
    UNUSED_STATE;
    char raw[4 * 5 + 1];
    const float x[5] = {1, -2, 0.5f, 3, 1e-20f};
    float out[5];
    memcpy(raw + 1, x, sizeof x);
    assert_int_equal(plim_floats_convert(PLIM_F32, raw + 1, 5, PLIM_F32, out), -1);
    assert_memory_equal(out, x, sizeof x);
}

TEST(the_first_element_that_is_not_finite_is_named)
{
    UNUSED_STATE;
    enum { N = 200000 };
    float *x = calloc(N, sizeof *x), *out = calloc(N, sizeof *out);
    static const int at[] = {0, 511, 512, 131071, N - 1};
    for (size_t i = sizeof at / sizeof *at; i-- > 0;) { /* the first of several */
        x[at[i]] = i % 2 ? NAN : -INFINITY;
        assert_int_equal(plim_floats_convert(PLIM_F32, x, N, PLIM_F32, out), at[i]);
    }
    free(x);
    free(out);
}

TEST(what_becomes_infinite_is_named)
{
    UNUSED_STATE;
    static const struct {
        float x;
        plim_dtype to;
        int64_t bad;
    } cases[] = {
        {0x1.fep127f, PLIM_BF16, -1},
        {0x1.fefffep127f, PLIM_BF16, -1},
        {-0x1.ffp127f, PLIM_BF16, 0},
        {65519.996f, PLIM_F16, -1},
        {65520, PLIM_F16, 0},
        {0x1.fffffep127f, PLIM_F32, -1},
        {0x1.fffffep127f, PLIM_F64, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double out, back;
        assert_int_equal(plim_floats_convert(PLIM_F32, &cases[i].x, 1, cases[i].to, &out), cases[i].bad);
        plim_floats_convert(cases[i].to, &out, 1, PLIM_F64, &back);
        assert_int_equal(!isfinite(back), cases[i].bad == 0);
    }
    double wide = 1e300;
    float narrow;
    assert_int_equal(plim_floats_convert(PLIM_F64, &wide, 1, PLIM_F32, &narrow), 0);
}

TEST(only_four_dtypes_are_floats)
{
    UNUSED_STATE;
    int count = 0;
    for (int d = 0; d < PLIM_DTYPE_COUNT; d++) count += plim_floats_are((plim_dtype)d);
    assert_int_equal(count, 4);
    assert_true(plim_floats_are(PLIM_F64) && plim_floats_are(PLIM_F32));
    assert_true(plim_floats_are(PLIM_F16) && plim_floats_are(PLIM_BF16));
}

TEST(names_hash_as_published)
{
    UNUSED_STATE;
    assert_true(plim_fnv1a64("") == UINT64_C(0xcbf29ce484222325));
    assert_true(plim_fnv1a64("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(plim_fnv1a64("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(every_pair_agrees_with_one_element_at_a_time),
        cmocka_unit_test(the_source_may_lie_anywhere),
        cmocka_unit_test(the_first_element_that_is_not_finite_is_named),
        cmocka_unit_test(what_becomes_infinite_is_named),
        cmocka_unit_test(only_four_dtypes_are_floats),
        cmocka_unit_test(names_hash_as_published),
    };
    return RUN_TESTS(table);
}
