/* Numbers: every unit, exact fractions, and a refusal with an example for each way to be wrong. */
#include "support/test.h"

#include <locale.h>
#include <stdlib.h>

#include "base/units.h"

#define COUNT(row) (sizeof(row) / sizeof *(row))

TEST(counts)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *text;
        int64_t want;
    } row[] = {
        {"0", 0},
        {"1", 1},
        {"48k", 48000},
        {"48Ki", 49152},
        {"3.3M", 3300000},
        {"1.5k", 1500},
        {"1.50000000000000000000000000000k", 1500},
        {"0.5Ki", 512},
        {"2Mi", 2097152},
        {"1.5Gi", 1610612736},
        {"1T", INT64_C(1000000000000)},
        {"1Ti", INT64_C(1099511627776)},
        {"27.5G", INT64_C(27500000000)},
        {"9223372036854775807", INT64_MAX},
        {"0.0009765625Ki", 1},
        {"007", 7},
        {"1.000", 1},
        {"0.0", 0},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        int64_t got = -1;
        CHECK_OK(c, plim_parse_count(c, "--tokens", row[i].text, &got));
        assert_int_equal(got, row[i].want);
    }
    test_ctx_close(c);
}

TEST(counts_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *text, *word;
        plim_status st;
    } row[] = {
        {"", "missing", PLIM_E_USAGE},
        {" 1", "blank at character 1", PLIM_E_USAGE},
        {"48 k", "blank at character 3", PLIM_E_USAGE},
        {"48k ", "from 'k ' on", PLIM_E_USAGE},
        {"1\n", "strange byte at character 2", PLIM_E_USAGE},
        {"-1", "from '-1'", PLIM_E_USAGE},
        {"+1", "from '+1'", PLIM_E_USAGE},
        {"1e5", "from 'e5'", PLIM_E_USAGE},
        {"0x10", "from 'x10'", PLIM_E_USAGE},
        {"48K", "from 'K'", PLIM_E_USAGE},
        {"48kB", "from 'kB'", PLIM_E_USAGE},
        {"48kk", "from 'kk'", PLIM_E_USAGE},
        {"1.", "ends too early", PLIM_E_USAGE},
        {".5k", "from '.5k'", PLIM_E_USAGE},
        {"1..5k", "from '.5k'", PLIM_E_USAGE},
        {"1.5.5k", "from '.5k'", PLIM_E_USAGE},
        {"1,5k", "from ',5k'", PLIM_E_USAGE},
        {"nan", "from 'nan'", PLIM_E_USAGE},
        {"inf", "from 'inf'", PLIM_E_USAGE},
        {"k", "from 'k'", PLIM_E_USAGE},
        {"\xd9\xa3", "strange byte", PLIM_E_USAGE},
        {"1.0005k", "not a whole number", PLIM_E_USAGE},
        {"1.5", "not a whole number", PLIM_E_USAGE},
        {"1.1Ki", "not a whole number", PLIM_E_USAGE},
        {"0.1", "not a whole number", PLIM_E_USAGE},
        {"9223372036854775808", "too large", PLIM_E_RANGE},
        {"18446744073709551616", "too large", PLIM_E_RANGE},
        {"99999999999999999999999999", "too large", PLIM_E_RANGE},
        {"9223372036854775807k", "too large", PLIM_E_RANGE},
        {"8388608Ti", "too large", PLIM_E_RANGE},
        {"1.00000000000000000000000000001k", "too many digits", PLIM_E_RANGE},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        int64_t got = -7;
        CHECK_FAILS(c, row[i].st, plim_parse_count(c, "--tokens", row[i].text, &got), "--tokens", row[i].word,
                    "48k");
        assert_int_equal(got, -7);
    }
    test_ctx_close(c);
}

TEST(byte_sizes)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *text;
        size_t want;
    } row[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"1kB", 1000},
        {"1KiB", 1024},
        {"512MiB", 536870912},
        {"80GB", 80000000000u},
        {"80GiB", 85899345920u},
        {"2TB", 2000000000000u},
        {"2TiB", 2199023255552u},
        {"79.5GiB", 85362475008u},
        {"1.5MB", 1500000},
        {"9223372036854775807", INT64_MAX},
    };
    static const char *const bad[] = {"80G",   "80Gi", "80gb", "80gib", "80 GiB", "80Gb",
                                      "-1GiB", "",     "1kb",  "GiB",   "1BB"};
    size_t got = 7;
    for (size_t i = 0; i < COUNT(row); i++) {
        CHECK_OK(c, plim_parse_bytes(c, "--budget", row[i].text, &got));
        assert_int_equal(got, row[i].want);
    }
    got = 7;
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_FAILS(c, PLIM_E_USAGE, plim_parse_bytes(c, "--budget", bad[i], &got), "--budget", "80GiB",
                    "80GB");
    CHECK_FAILS(c, PLIM_E_USAGE, plim_parse_bytes(c, "--budget", "0.5B", &got), "whole number of bytes");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_bytes(c, "--budget", "8388608TiB", &got), "too large");
    assert_int_equal(got, 7);
    test_ctx_close(c);
}

TEST(integers)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int64_t got = -7;
    CHECK_OK(c, plim_parse_int(c, "--rank", "16", 1, 16, &got));
    assert_int_equal(got, 16);
    CHECK_OK(c, plim_parse_int(c, "--seed", "9223372036854775807", 0, INT64_MAX, &got));
    assert_true(got == INT64_MAX);
    got = -7;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_int(c, "--rank", "0", 1, 256, &got), "--rank", "0", "1 to 256");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_int(c, "--rank", "257", 1, 256, &got), "257", "1 to 256");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_int(c, "--rank", "9223372036854775808", 1, 256, &got),
                "too large");
    static const char *const bad[] = {"", "-1", "+1", "1.0", "1k", "0x1", "1e1", " 1", "1 ", "one"};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_FAILS(c, PLIM_E_USAGE, plim_parse_int(c, "--rank", bad[i], 0, 256, &got), "--rank", "42");
    assert_int_equal(got, -7);
    test_ctx_close(c);
}

TEST(doubles_are_the_nearest)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *text;
        double want;
    } row[] = {
        {"2.5", 2.5},
        {"0", 0},
        {"0.1", 0.1},
        {"0.0002", 0.0002},
        {"0.92", 0.92},
        {"3.14159265358979", 3.14159265358979},
        {"999999999999999", 999999999999999.0},
        {"0.0000000000000000000001", 1e-22},
        {"1e-4", 1e-4},
        {"3E-5", 3e-5},
        {"2.5e-3", 2.5e-3},
        {"1e+2", 100},
        {"1.5e14", 1.5e14},
        {"9.87654321e-14", 9.87654321e-14},
        {"0e999", 0},
        {"1.100000000000000000000000000", 1.1},
        {"0.000001", 1e-6},
    };
    double got = -7;
    for (size_t i = 0; i < COUNT(row); i++) {
        CHECK_OK(c, plim_parse_double(c, "--usd", row[i].text, 0, 1e15, &got));
        assert_true(got == row[i].want);
    }
    /* and against the C library, over many digits */
    uint64_t random = 1;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int places = 1 + i % 8;
        uint64_t power = 10;
        for (int k = 1; k < places; k++) power *= 10;
        snprintf(text, sizeof text, "%llu.%0*llu", (unsigned long long)(random >> 44), places,
                 (unsigned long long)((random >> 4) % power));
        CHECK_OK(c, plim_parse_double(c, "--usd", text, 0, 1e15, &got));
        assert_true(got == strtod(text, NULL));
    }
    got = -7;
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--x", "1234567890123456", 0, 1e18, &got),
                "15 significant digits");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--x", "0.00000000000000000000001", 0, 1, &got),
                "22 places");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--x", "1e-23", 0, 1, &got), "22 places");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--x", "1e999", 0, 1e300, &got), "22 places");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--beta", "1", 0, 0.999999999, &got),
                "0 to 0.999999999 would work");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_parse_double(c, "--fraction", "1.5", 0, 1, &got), "--fraction", "1.5",
                "0 to 1");
    static const char *const bad[] = {"",     "-1", "+1",     "1e",    "1e-",   "1e+",   "1e 5",
                                      "1e5x", "e5", "1e0001", "1e2.5", "0x1p3", "nan",   "inf",
                                      "2,5",  " 2", "2 ",     "2.",    ".5",    "2.5USD"};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK_FAILS(c, PLIM_E_USAGE, plim_parse_double(c, "--usd", bad[i], 0, 10, &got), "--usd", "2.5");
    assert_true(got == -7);
    test_ctx_close(c);
}

TEST(lists)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char item[6], all[64] = "";
    for (const char *at = "16k,32Ki,64k"; at;) {
        CHECK_OK(c, plim_next_item(c, "--tokens", &at, item, sizeof item));
        strcat(strcat(all, item), "|");
    }
    assert_string_equal(all, "16k|32Ki|64k|");
    static const char *const bad[] = {"", ",", "1,", ",1", "1,,2"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        plim_status st = PLIM_OK;
        for (const char *at = bad[i]; at && !st;) st = plim_next_item(c, "--tokens", &at, item, sizeof item);
        CHECK_FAILS(c, PLIM_E_USAGE, st, "--tokens", "empty", "16k,32k");
    }
    const char *at = "12345,123456";
    CHECK_OK(c, plim_next_item(c, "--tokens", &at, item, sizeof item));
    CHECK_FAILS(c, PLIM_E_RANGE, plim_next_item(c, "--tokens", &at, item, sizeof item), "123456",
                "at most 5");
    assert_string_equal(at, "123456");
    test_ctx_close(c);
}

TEST(shows_numbers)
{
    UNUSED_STATE;
    char buf[PLIM_NUMBER_BYTES];
    static const struct {
        int64_t n;
        const char *thousands, *count;
    } row[] = {
        {0, "0", "0"},
        {999, "999", "999"},
        {1000, "1,000", "1k"},
        {16000, "16,000", "16k"},
        {65536, "65,536", "64Ki"},
        {65535, "65,535", "65,535"},
        {1500, "1,500", "1,500"},
        {3300000, "3,300,000", "3.3M"},
        {1024, "1,024", "1Ki"},
        {1048576, "1,048,576", "1Mi"},
        {1572864, "1,572,864", "1536Ki"},
        {1234000, "1,234,000", "1.234M"},
        {1050000, "1,050,000", "1.05M"},
        {1234567000, "1,234,567,000", "1,234,567,000"},
        {INT64_C(26895998464), "26,895,998,464", "26,895,998,464"},
        {INT64_C(1000000000000), "1,000,000,000,000", "1T"},
        {INT64_C(1) << 40, "1,099,511,627,776", "1Ti"},
        {-1, "-1", "-1"},
        {-16000, "-16,000", "-16,000"},
        {INT64_MAX, "9,223,372,036,854,775,807", "9,223,372,036,854,775,807"},
        {INT64_MIN, "-9,223,372,036,854,775,808", "-9,223,372,036,854,775,808"},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        assert_string_equal(plim_format_thousands(buf, row[i].n), row[i].thousands);
        assert_string_equal(plim_format_count(buf, row[i].n), row[i].count);
    }
    static const struct {
        size_t bytes;
        const char *want;
    } gib[] = {{0, "0.0"},        {65927748812u, "61.4"}, {85899345920u, "80.0"},     {53687091, "0.0"},
               {53687092, "0.1"}, {1073741823, "1.0"},    {SIZE_MAX, "17179869184.0"}};
    for (size_t i = 0; i < COUNT(gib); i++)
        assert_string_equal(plim_format_bytes_gib(buf, gib[i].bytes), gib[i].want);
    static const struct {
        double s;
        const char *want;
    } duration[] = {
        {0, "0 ms"},        {0.0123, "12 ms"}, {0.9996, "1.0 s"}, {4.2, "4.2 s"},  {59.94, "59.9 s"},
        {59.96, "1.0 min"}, {210, "3.5 min"},  {596, "9.9 min"},  {599, "10 min"}, {720, "12 min"},
        {3599, "1.0 h"},    {11160, "3.1 h"},  {207360, "2.4 d"}, {-1, "?"},       {1e300, "?"},
    };
    for (size_t i = 0; i < COUNT(duration); i++)
        assert_string_equal(plim_format_duration(buf, duration[i].s), duration[i].want);
    double zero = 0;
    assert_string_equal(plim_format_duration(buf, zero / zero), "?");
}

TEST(what_is_shown_is_read_back)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char buf[PLIM_NUMBER_BYTES];
    uint64_t random = 5;
    int read_back = 0;
    static const int64_t step[] = {1, 1000, 1024, 1000000, 1 << 20, 500, 512};
    for (int i = 0; i < 70000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int64_t n = (int64_t)(random >> 40) * step[i % 7], back = -1;
        if (strchr(plim_format_count(buf, n), ',')) continue;
        CHECK_OK(c, plim_parse_count(c, "n", buf, &back));
        assert_true(back == n);
        read_back++;
    }
    assert_true(read_back > 24000);
    test_ctx_close(c);
}

TEST(no_locale_matters)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char buf[PLIM_NUMBER_BYTES];
    double x = 0;
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    size_t found = 0;
    while (found < COUNT(comma) && !setlocale(LC_ALL, comma[found])) found++;
    if (found == COUNT(comma)) {
        test_ctx_close(c);
        skip(); /* none that writes 2,5 is installed */
    }
    CHECK_OK(c, plim_parse_double(c, "--usd", "2.5", 0, 10, &x));
    assert_true(x == 2.5);
    assert_string_equal(plim_format_duration(buf, 4.2), "4.2 s");
    setlocale(LC_ALL, "C");
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(counts_refused),
        cmocka_unit_test(byte_sizes),
        cmocka_unit_test(integers),
        cmocka_unit_test(doubles_are_the_nearest),
        cmocka_unit_test(lists),
        cmocka_unit_test(shows_numbers),
        cmocka_unit_test(what_is_shown_is_read_back),
        cmocka_unit_test(no_locale_matters),
    };
    return RUN_TESTS(table);
}
