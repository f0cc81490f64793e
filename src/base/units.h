/* units.h - numbers as people write and read them: 48k tokens, 80GiB, 2.5 USD, 26,895,998,464.
 *
 * Parsing is strict, whole and independent of the locale: digits, at most one point with digits on both
 * sides, at most one unit.  Signs, blanks, exponents, hexadecimal and anything after the number are refused
 * with the place and an example that works.  Decimal fractions are exact: 3.3M is 3,300,000 and 1.0005k is
 * refused. */
#ifndef PLIM_BASE_UNITS_H
#define PLIM_BASE_UNITS_H

#include "base/context.h"

/* `what` names the option or field in the message ("--tokens").  Errors of all four: PLIM_E_USAGE (not a
 * number of this kind), PLIM_E_RANGE (too large, or outside min .. max). */

/* A whole number with k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024): 48k = 48,000, 48Ki =
 * 49,152. */
plim_status plim_parse_count(plim_ctx *c, const char *what, const char *text, int64_t *out);

/* A whole number of bytes with B kB MB GB TB or KiB MiB GiB TiB; bare: bytes.  At most 2^63 - 1. */
plim_status plim_parse_bytes(plim_ctx *c, const char *what, const char *text, size_t *out_bytes);

/* Digits alone. */
plim_status plim_parse_int(plim_ctx *c, const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out);

/* The double nearest to a decimal of at most 15 significant digits, with an exponent or without (2e-4); the
 * last digit stands for 10^-22 to 10^22. */
plim_status plim_parse_double(plim_ctx *c, const char *what, const char *text, double min, double max,
                              double *out);

/* Items of a list separated by commas.  Starts with *cursor at the text; NULL after the last item:
 *     for (const char *at = text; at;) { TRY(plim_next_item(c, what, &at, item, sizeof item)); ... }
 * Errors: PLIM_E_USAGE for an empty item, PLIM_E_RANGE for one that does not fit cap bytes. */
plim_status plim_next_item(plim_ctx *c, const char *what, const char **cursor, char *buf, size_t cap);

/* Writing.  Each fills buf and returns it. */
#define PLIM_NUMBER_BYTES 40

const char *plim_format_thousands(char buf[PLIM_NUMBER_BYTES], int64_t n); /* "26,895,998,464" */

/* The shortest exact form that plim_parse_count reads back, else thousands: "16k", "3.3M", "64Ki",
 * "65,535". */
const char *plim_format_count(char buf[PLIM_NUMBER_BYTES], int64_t n);

const char *plim_format_bytes_gib(char buf[PLIM_NUMBER_BYTES],
                                  size_t bytes); /* in 2^30, nearest tenth: "61.4" */

/* "12 ms", "4.2 s", "3.5 min", "12 min", "3.1 h", "2.4 d"; "?" for a negative or non-finite number of
 * seconds. */
const char *plim_format_duration(char buf[PLIM_NUMBER_BYTES], double s);

#endif
