/* bf16 and f16: every value there and back, and rounding against a search for the nearest value in
 * doubles. */
#include "support/test.h"

#include <math.h>

#include "base/bf16.h"
#include "base/f16.h"

/* A 16-bit format as its definition has it, in doubles: value, and the largest exponent's meaning. */
typedef struct format {
    int mantissa_bits, bias;
    float (*load)(uint16_t h);
    uint16_t (*round)(float x);
} format;

static const format bf16 = {7, 127, plim_bf16_load, plim_bf16_round};
static const format f16 = {10, 15, plim_f16_load, plim_f16_round};

static double value_of(const format *f, uint16_t h)
{
    int m = h & ((1 << f->mantissa_bits) - 1), e = (h & 0x7fff) >> f->mantissa_bits;
    int last = (1 << (15 - f->mantissa_bits)) - 1;
    double sign = h & 0x8000 ? -1 : 1;
    if (e == last) return m ? (double)NAN : sign * (double)INFINITY;
    if (e == 0) return sign * ldexp(m, 1 - f->bias - f->mantissa_bits);
    return sign * ldexp(1 + ldexp(m, -f->mantissa_bits), e - f->bias);
}

/* The nearest of the format's values by bisection over its positive codes; a tie goes to the even code.
 * Infinity's code stands for the value after the largest one. */
static uint16_t nearest(const format *f, float x)
{
    int last = (1 << (15 - f->mantissa_bits)) - 1;
    uint16_t low = 0, infinity = (uint16_t)(last << f->mantissa_bits), high = infinity;
    double a = fabs((double)x), next = ldexp(1, last - f->bias);
    if (a >= next) return (uint16_t)(infinity | (signbit(x) ? 0x8000 : 0));
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (value_of(f, middle) <= a) low = middle;
        else high = middle;
    }
    double below = a - value_of(f, low), above = (high == infinity ? next : value_of(f, high)) - a;
    uint16_t code = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint16_t)(code | (signbit(x) ? 0x8000 : 0));
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static void check_all_values(const format *f)
{
    for (uint32_t h = 0; h < 65536; h++) {
        double want = value_of(f, (uint16_t)h);
        float got = f->load((uint16_t)h);
        uint16_t back = f->round(got);
        if (isnan(want)) {
            uint16_t quiet = (uint16_t)(h | 1u << (f->mantissa_bits - 1));
            if (!isnan(got) || back != quiet) fail_msg("NaN %04x came back as %04x", h, back);
        } else if ((double)got != want || !signbit(got) != !signbit(want) || back != h) {
            fail_msg("%04x: loads as %a, not %a, and comes back as %04x", h, (double)got, want, back);
        }
    }
}

static void check_rounding(const format *f, float x)
{
    uint16_t got = f->round(x), want = nearest(f, x);
    if (got != want) fail_msg("%a rounds to %04x, not to %04x", (double)x, got, want);
}

/* Around every value and every midpoint between two, both signs, one float step to each side. */
static void check_around_all_values(const format *f)
{
    int infinity = ((1 << (15 - f->mantissa_bits)) - 1) << f->mantissa_bits;
    for (int h = 0; h < infinity; h++) {
        double a = value_of(f, (uint16_t)h);
        double b = h + 1 == infinity ? ldexp(1, (infinity >> f->mantissa_bits) - f->bias)
                                     : value_of(f, (uint16_t)(h + 1));
        float at[2] = {(float)a, (float)((a + b) / 2)};
        for (int i = 0; i < 2; i++) {
            check_rounding(f, at[i]);
            check_rounding(f, -at[i]);
            check_rounding(f, nextafterf(at[i], INFINITY));
            check_rounding(f, nextafterf(at[i], 0));
            check_rounding(f, -nextafterf(at[i], INFINITY));
        }
    }
}

static void check_across_floats(const format *f)
{
    for (uint64_t u = 0; u < UINT64_C(0x100000000); u += 4093) {
        float x = float_of((uint32_t)u);
        if (isnan(x)) assert_true(isnan(f->load(f->round(x))) && (f->round(x) >> 15) == (u >> 31));
        else check_rounding(f, x);
    }
}

TEST(bf16_values)
{
    UNUSED_STATE;
    check_all_values(&bf16);
}

TEST(f16_values)
{
    UNUSED_STATE;
    check_all_values(&f16);
}

TEST(bf16_rounding)
{
    UNUSED_STATE;
    check_around_all_values(&bf16);
    check_across_floats(&bf16);
}

TEST(f16_rounding)
{
    UNUSED_STATE;
    check_around_all_values(&f16);
    check_across_floats(&f16);
}

TEST(known_values)
{
    UNUSED_STATE;
    assert_int_equal(plim_bf16_round(1.0f), 0x3f80);
    assert_int_equal(plim_bf16_round(-2.0f), 0xc000);
    assert_int_equal(plim_bf16_round(1.00390625f), 0x3f80); /* halfway, even below */
    assert_int_equal(plim_bf16_round(1.01171875f), 0x3f82); /* halfway, even above */
    assert_int_equal(plim_bf16_round(3.4028235e38f), 0x7f80);
    assert_int_equal(plim_bf16_round(float_of(0x7f800001)), 0x7fc0); /* the payload lies in the lost half */
    assert_int_equal(plim_bf16_round(float_of(0x00018000)), 2);
    assert_int_equal(plim_f16_round(1.0f), 0x3c00);
    assert_int_equal(plim_f16_round(65504.0f), 0x7bff);
    assert_int_equal(plim_f16_round(65519.996f), 0x7bff);
    assert_int_equal(plim_f16_round(65520.0f), 0x7c00);
    assert_int_equal(plim_f16_round(5.9604645e-8f), 1);
    assert_int_equal(plim_f16_round(2.9802322e-8f), 0); /* half the smallest: to even */
    assert_int_equal(plim_f16_round(float_of(0xff800001)), 0xfe00);
    assert_true((double)plim_bf16_load(0x3f81) - 1.0 == PLIM_BF16_STEP);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(bf16_values),  cmocka_unit_test(f16_values),   cmocka_unit_test(bf16_rounding),
        cmocka_unit_test(f16_rounding), cmocka_unit_test(known_values),
    };
    return RUN_TESTS(table);
}
