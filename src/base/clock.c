/* clock.c - decides which clocks count: CLOCK_MONOTONIC for durations, SOURCE_DATE_EPOCH before the wall
 * clock. */
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

#define YEAR_1_S     INT64_C(-62135596800)
#define YEAR_10000_S INT64_C(253402300800)

static double monotonic_s(void *user)
{
    struct timespec t = {0, 0};
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

plim_clock plim_clock_monotonic(void)
{
    return (plim_clock){monotonic_s, NULL};
}

plim_status plim_utc_format(plim_ctx *c, int64_t epoch_s, char buf[PLIM_UTC_BYTES])
{
    struct tm tm;
    time_t t = (time_t)epoch_s;
    char text[PLIM_UTC_BYTES];
    if (epoch_s < YEAR_1_S || epoch_s >= YEAR_10000_S || !gmtime_r(&t, &tm))
        return plim_fail(c, PLIM_E_RANGE, "%" PRId64 " s since 1970 is outside the years 1 to 9999", epoch_s);
    /* digit by digit: strftime pads a year below 1000 in its own ways, and knows a locale */
    const int part[] = {(tm.tm_year + 1900) / 100,
                        (tm.tm_year + 1900) % 100,
                        tm.tm_mon + 1,
                        tm.tm_mday,
                        tm.tm_hour,
                        tm.tm_min,
                        tm.tm_sec};
    static const char place[] = {0, 2, 5, 8, 11, 14, 17};
    memcpy(text, "YYYY-MM-DDTHH:MM:SSZ", sizeof text);
    for (size_t i = 0; i < sizeof place; i++) {
        text[(int)place[i]] = (char)('0' + part[i] / 10);
        text[(int)place[i] + 1] = (char)('0' + part[i] % 10);
    }
    memcpy(buf, text, sizeof text);
    return PLIM_OK;
}

plim_status plim_date_s(plim_ctx *c, int64_t *out_epoch_s)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    if (fixed) return plim_parse_int(c, "SOURCE_DATE_EPOCH", fixed, 0, YEAR_10000_S - 1, out_epoch_s);
    *out_epoch_s = (int64_t)time(NULL);
    return PLIM_OK;
}

plim_status plim_utc_date(plim_ctx *c, char buf[PLIM_UTC_BYTES])
{
    int64_t epoch_s = 0;
    TRY(plim_date_s(c, &epoch_s));
    return plim_utc_format(c, epoch_s, buf);
}
