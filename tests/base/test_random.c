/* Random numbers: published vectors, random access, the normal transform against the normal distribution, and
 * the same bits from every compiler. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"

#define STEP 0x1p-21 /* of the transform's result */

__extension__ typedef unsigned __int128 wide;

TEST(philox_known_answers)
{
    UNUSED_STATE;
    /* Random123's published vectors for philox4x32, 10 rounds */
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } row[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        uint32_t got[4];
        plim_philox(row[i].counter, row[i].key, got);
        assert_memory_equal(got, row[i].want, sizeof got);
    }
    /* the same third row through seed, stream and block, which says how they are laid out */
    plim_random r = {UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e)};
    uint32_t got[4];
    plim_random_block(r, UINT64_C(0x85a308d3243f6a88), got);
    assert_memory_equal(got, row[2].want, sizeof got);
}

TEST(words_come_in_any_order)
{
    UNUSED_STATE;
    plim_random r = {1, 2}, other_seed = {2, 2}, other_stream = {1, 3};
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t block[4];
        plim_random_block(r, i / 4, block);
        assert_int_equal(plim_random_u32(r, i), block[i % 4]);
        assert_true(plim_random_u64(r, i) ==
                    ((uint64_t)plim_random_u32(r, 2 * i + 1) << 32 | plim_random_u32(r, 2 * i)));
        same += plim_random_u32(r, i) == plim_random_u32(other_seed, i);
        same += plim_random_u32(r, i) == plim_random_u32(other_stream, i);
        same += plim_random_u32(r, i) == plim_random_u32(r, i + (UINT64_C(1) << 34));
    }
    assert_int_equal(same, 0);
}

TEST(uniforms_are_even)
{
    UNUSED_STATE;
    enum { N = 1000000, BINS = 1000 };
    static int float_bin[BINS], double_bin[BINS];
    plim_random r = {3, 0};
    double sum = 0, square = 0, chi_float = 0, chi_double = 0;
    memset(float_bin, 0, sizeof float_bin);
    memset(double_bin, 0, sizeof double_bin);
    for (uint64_t i = 0; i < N; i++) {
        float f = plim_random_float(r, i);
        double d = plim_random_double(r, i + N);
        assert_true(f >= 0 && f < 1 && d >= 0 && d < 1);
        assert_true(ldexp((double)f, 24) == floor(ldexp((double)f, 24)));
        float_bin[(int)(f * BINS)]++;
        double_bin[(int)(d * BINS)]++;
        sum += d;
        square += d * d;
    }
    for (int i = 0; i < BINS; i++) {
        chi_float += pow(float_bin[i] - N / BINS, 2) / (N / BINS);
        chi_double += pow(double_bin[i] - N / BINS, 2) / (N / BINS);
    }
    /* 999 degrees of freedom: mean 999, deviation 44.7; four deviations */
    assert_true(fabs(chi_float - 999) < 4 * 44.7 && fabs(chi_double - 999) < 4 * 44.7);
    assert_true(fabs(sum / N - 0.5) < 4 * sqrt(1 / 12.0 / N));
    assert_true(fabs(square / N - 1 / 3.0) < 4 * sqrt(4 / 45.0 / N));
}

TEST(bounded_integers)
{
    UNUSED_STATE;
    plim_random r = {4, 0};
    static const uint32_t n[] = {1, 2, 3, 7, 10, 1000, 2147483647u, 2147483648u};
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        double sum = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            uint32_t x = plim_random_below(r, i, n[k]);
            assert_true(x < n[k]);
            wide product = (wide)plim_random_u64(r, i) * n[k];
            assert_int_equal(x, (uint64_t)(product >> 64));
            sum += x;
        }
        double mean = (n[k] - 1.0) / 2, deviation = sqrt(((double)n[k] * n[k] - 1) / 12);
        assert_true(fabs(sum / 20000 - mean) <= 4 * deviation / sqrt(20000));
    }
    int seen[7] = {0};
    for (uint64_t i = 0; i < 70000; i++) seen[plim_random_below(r, i, 7)]++;
    for (int i = 0; i < 7; i++) assert_true(abs(seen[i] - 10000) < 4 * 93);
}

static double tail(double x)
{
    return 0.5 * erfc(x / sqrt(2));
}

static double density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
}

/* Every word of the tail beyond about 3 deviations and every 211th of the rest: distance to the exact
 * inverse, to first order, and the order of values. */
TEST(the_transform_follows_the_inverse)
{
    UNUSED_STATE;
    const plim_normal_segment *table = plim_normal_segments();
    double worst = 0, worst_probability = 0;
    int32_t last = INT32_MAX;
    assert_int_equal(plim_normal_q21(0, table), PLIM_NORMAL_MAX_Q);
    assert_true(PLIM_NORMAL_MAX_Q < 1 << 24); /* exact in a float */
    assert_true(PLIM_NORMAL_MAX_Q * STEP > 6.33);
    for (uint64_t u = 0; u < UINT64_C(1) << 31; u += u < 1 << 22 ? 1 : 211) {
        int32_t q = plim_normal_q21((uint32_t)u, table);
        if (plim_normal_q21((uint32_t)u | 0x80000000u, table) != -q)
            fail_msg("not symmetric at %u", (unsigned)u);
        if (q > last) fail_msg("not monotone at %u", (unsigned)u);
        double x = q * STEP, p = (double)(2 * u + 1) * 0x1p-33, gap = fabs(tail(x) - p);
        if (gap / density(x) > worst) worst = gap / density(x);
        if (gap > worst_probability) worst_probability = gap;
        last = q;
    }
    if (worst > 5e-7) fail_msg("off by %g", worst);
    if (worst_probability > 2e-7) fail_msg("a probability is off by %g", worst_probability);
}

/* 10 M words spread evenly over all: what the transform itself does to moments and distribution, free of
 * chance. */
TEST(the_transform_has_the_right_moments)
{
    UNUSED_STATE;
    enum { N = 10000000, BINS = 6500 };
    static int64_t bin[2 * BINS];
    const plim_normal_segment *table = plim_normal_segments();
    double sum = 0, square = 0, cube = 0, fourth = 0, distance = 0;
    memset(bin, 0, sizeof bin);
    for (uint64_t i = 0; i < N; i++) {
        int32_t q = plim_normal_q21((uint32_t)((i * 2 + 1) * (UINT64_C(1) << 31) / N), table);
        double x = q * STEP;
        sum += x;
        square += x * x;
        cube += x * x * x;
        fourth += x * x * x * x;
        bin[(q + BINS * 2048) >> 11]++; /* 2^-10 wide */
    }
    int64_t below = 0;
    for (int i = 0; i < 2 * BINS; i++) {
        double gap = fabs((double)below / N - tail((BINS - i) * 0x1p-10));
        if (gap > distance) distance = gap;
        below += bin[i];
    }
    assert_int_equal(below, N);
    assert_true(fabs(sum / N) < 1e-6);
    assert_true(fabs(square / N - 1) < 1e-5);
    assert_true(fabs(cube / N) < 1e-5);
    assert_true(fabs(fourth / N - 3) < 3e-4); /* even spacing cuts the tail at 5.3 deviations */
    if (distance > 1e-6) fail_msg("distance %g", distance);
}

/* 10 M draws: everything within four deviations of what chance allows. */
TEST(normal_draws)
{
    UNUSED_STATE;
    enum { N = 10000000, CHUNK = 100000, BINS = 6500 };
    static float x[CHUNK];
    static int64_t bin[2 * BINS];
    plim_random r = {UINT64_C(20260101), 1};
    double sum = 0, square = 0, fourth = 0, neighbours = 0, distance = 0;
    int64_t beyond[7] = {0};
    memset(bin, 0, sizeof bin);
    for (int64_t at = 0; at < N; at += CHUNK) {
        plim_random_fill_normal(r, (uint64_t)at, CHUNK, 1, x);
        for (int i = 0; i < CHUNK; i++) {
            double d = (double)x[i];
            sum += d;
            square += d * d;
            fourth += d * d * d * d;
            if (i) neighbours += d * (double)x[i - 1];
            beyond[(int)fabs(d)]++;
            bin[(int)floor(ldexp(d, 10)) + BINS]++;
        }
    }
    int64_t below = 0;
    for (int i = 0; i < 2 * BINS; i++) {
        double gap = fabs((double)below / N - tail((BINS - i) * 0x1p-10));
        if (gap > distance) distance = gap;
        below += bin[i];
    }
    assert_true(fabs(sum / N) < 4 / sqrt(N));
    assert_true(fabs(square / N - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 4 * sqrt(96.0 / N));
    assert_true(fabs(neighbours / N) < 4 / sqrt(N));
    /* Kolmogorov: chance alone passes 1.95 / sqrt(N) = 6.2e-4 once in a thousand */
    if (distance > 1.95 / sqrt(N)) fail_msg("distance %g", distance);
    for (int k = 3; k <= 5; k++) {
        double want = 2 * N * tail(k);
        int64_t got = 0;
        for (int j = k; j < 7; j++) got += beyond[j];
        if (fabs((double)got - want) > 4 * sqrt(want))
            fail_msg("%lld beyond %d, not %g", (long long)got, k, want);
    }
}

TEST(a_fill_is_the_same_in_pieces)
{
    UNUSED_STATE;
    float whole[101], part[101];
    plim_random r = {5, 6};
    plim_random_fill_normal(r, 3, 101, 0.02f, whole);
    for (size_t i = 0; i < 101; i++)
        assert_true(whole[i] == plim_random_normal(r, 3 + i, 0.02f, plim_normal_segments()));
    for (size_t cut = 0; cut <= 101; cut++) {
        memset(part, 0, sizeof part);
        plim_random_fill_normal(r, 3, cut, 0.02f, part);
        plim_random_fill_normal(r, 3 + cut, 101 - cut, 0.02f, part + cut);
        assert_memory_equal(part, whole, sizeof whole);
    }
}

TEST(orders)
{
    UNUSED_STATE;
    uint32_t order[100];
    int count[6] = {0};
    for (uint32_t n = 0; n <= 100; n++) {
        bool seen[100] = {false};
        plim_random_order((plim_random){n, 0}, n, order);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(order[i] < n && !seen[order[i]]);
            seen[order[i]] = true;
        }
    }
    for (uint64_t i = 0; i < 60000; i++) {
        plim_random_order((plim_random){9, i}, 3, order);
        count[order[0] * 2 + (order[1] > order[2])]++;
    }
    for (int i = 0; i < 6; i++) assert_true(abs(count[i] - 10000) < 4 * 92);
}

TEST(the_same_bits_from_every_compiler)
{
    UNUSED_STATE;
    static const char *const build[] = {"gcc -O0", "gcc -O3 -march=native -ffast-math",
                                        "gcc -O2 -ffp-contract=fast", "clang -O2",
                                        "clang -O3 -march=native -ffast-math"};
    static const char want[] = "33ce9b53ddc321f5\n"; /* a change of it changes every seeded run */
    const char *folder = test_folder("random-builds");
    int built = 0;
    for (size_t i = 0; i < sizeof build / sizeof *build; i++) {
        char *out;
        int absent = test_command(&out, "command -v %.*s", (int)strcspn(build[i], " "), build[i]);
        free(out);
        if (absent) continue;
        int failed =
            test_command(&out, "%s -std=c11 -I%s/../../src %s/../base/random_print.c -o %s/print && %s/print",
                         build[i], PLIM_TEST_DATA, PLIM_TEST_DATA, folder, folder);
        if (failed || strcmp(out, want) != 0) fail_msg("%s: exit %d, printed %s", build[i], failed, out);
        free(out);
        built++;
    }
    if (!built) skip();
}

TEST(the_table_is_what_the_script_makes)
{
    UNUSED_STATE;
    char *out;
    int absent = test_command(&out, "command -v python3");
    free(out);
    if (absent) skip();
    int failed = test_command(
        &out, "python3 %s/../../scripts/make_normal_table.py | cmp - %s/../../src/base/normal_table.h",
        PLIM_TEST_DATA, PLIM_TEST_DATA);
    if (failed) fail_msg("%s", out);
    free(out);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(words_come_in_any_order),
        cmocka_unit_test(uniforms_are_even),
        cmocka_unit_test(bounded_integers),
        cmocka_unit_test(the_transform_follows_the_inverse),
        cmocka_unit_test(the_transform_has_the_right_moments),
        cmocka_unit_test(normal_draws),
        cmocka_unit_test(a_fill_is_the_same_in_pieces),
        cmocka_unit_test(orders),
        cmocka_unit_test(the_same_bits_from_every_compiler),
        cmocka_unit_test(the_table_is_what_the_script_makes),
    };
    return RUN_TESTS(table);
}
