/* Clocks: forward only, dates at their edges, SOURCE_DATE_EPOCH. */
#include "support/test.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

TEST(monotonic_goes_forward)
{
    UNUSED_STATE;
    plim_clock clock = plim_clock_monotonic();
    double last_s = plim_clock_now_s(clock), first_s = last_s;
    for (int i = 0; i < 100000; i++) {
        double now_s = plim_clock_now_s(clock);
        assert_true(now_s >= last_s);
        last_s = now_s;
    }
    assert_true(last_s > first_s);
}

TEST(dates)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        int64_t epoch_s;
        const char *want;
    } row[] = {
        {0, "1970-01-01T00:00:00Z"},
        {-1, "1969-12-31T23:59:59Z"},
        {951782400, "2000-02-29T00:00:00Z"},
        {INT64_C(2147483648), "2038-01-19T03:14:08Z"},
        {INT64_C(4107542399), "2100-02-28T23:59:59Z"},
        {INT64_C(4107542400), "2100-03-01T00:00:00Z"},
        {INT64_C(253402300799), "9999-12-31T23:59:59Z"},
        {INT64_C(-62135596800), "0001-01-01T00:00:00Z"},
    };
    char buf[PLIM_UTC_BYTES];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        CHECK_OK(c, plim_utc_format(c, row[i].epoch_s, buf));
        assert_string_equal(buf, row[i].want);
    }
    strcpy(buf, "kept");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_utc_format(c, INT64_C(253402300800), buf), "253402300800", "9999");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_utc_format(c, INT64_C(-62135596801), buf), "years 1 to 9999");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_utc_format(c, INT64_MAX, buf), "9223372036854775807");
    assert_string_equal(buf, "kept");
    test_ctx_close(c);
}

TEST(source_date_epoch)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char buf[PLIM_UTC_BYTES];
    int64_t epoch_s = -7;
    setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
    CHECK_OK(c, plim_utc_date(c, buf));
    assert_string_equal(buf, "2023-11-14T22:13:20Z");
    static const char *const bad[] = {"", "-1", "yesterday", "1e9", " 1", "1700000000.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("SOURCE_DATE_EPOCH", bad[i], 1);
        CHECK_FAILS(c, PLIM_E_USAGE, plim_date_s(c, &epoch_s), "SOURCE_DATE_EPOCH");
    }
    setenv("SOURCE_DATE_EPOCH", "253402300800", 1);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_date_s(c, &epoch_s), "SOURCE_DATE_EPOCH", "253402300799");
    assert_int_equal(epoch_s, -7);
    unsetenv("SOURCE_DATE_EPOCH");
    int64_t before_s = (int64_t)time(NULL);
    CHECK_OK(c, plim_date_s(c, &epoch_s));
    assert_true(epoch_s >= before_s && epoch_s <= (int64_t)time(NULL));
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(monotonic_goes_forward),
        cmocka_unit_test(dates),
        cmocka_unit_test(source_date_epoch),
    };
    return RUN_TESTS(table);
}
