/* clock.h - time: seconds that only move forward, and the date as text. */
#ifndef PLIM_BASE_CLOCK_H
#define PLIM_BASE_CLOCK_H

#include "base/context.h"

/* Seconds since some fixed moment.  Handed in wherever time decides something, so that tests can set it. */
typedef struct plim_clock {
    double (*now_s)(void *user);
    void *user;
} plim_clock;

/* The system's monotonic clock. */
plim_clock plim_clock_monotonic(void);

static inline double plim_clock_now_s(plim_clock clock)
{
    return clock.now_s(clock.user);
}

#define PLIM_UTC_BYTES 21 /* "YYYY-MM-DDTHH:MM:SSZ" and its zero */

/* Seconds since 1970-01-01 as UTC text.  Errors: PLIM_E_RANGE outside the years 0001 to 9999. */
plim_status plim_utc_format(plim_ctx *c, int64_t epoch_s, char buf[PLIM_UTC_BYTES]);

/* Seconds since 1970-01-01 to date outputs with: SOURCE_DATE_EPOCH if that is set (reproducible outputs),
 * else now. Errors: PLIM_E_USAGE, PLIM_E_RANGE for a SOURCE_DATE_EPOCH that is no such number. */
plim_status plim_date_s(plim_ctx *c, int64_t *out_epoch_s);

/* Both at once. */
plim_status plim_utc_date(plim_ctx *c, char buf[PLIM_UTC_BYTES]);

#endif
