/* units.c - decides what counts as a number, and how a number is shown. */
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT_EXAMPLES  "write 48000, 48k (48,000), 48Ki (49,152) or 3.3M"
#define BYTES_EXAMPLES  "write 80GiB (2^30 bytes each), 80GB (10^9 each), 512MiB or a bare number of bytes"
#define INT_EXAMPLES    "write digits alone, as in 42"
#define DOUBLE_EXAMPLES "write a decimal, as in 2.5, 0.0002 or 2e-4"

typedef struct unit {
    const char *suffix;
    uint64_t scale;
} unit;

static const unit count_unit[] = {
    {"", 1},
    {"k", 1000},
    {"M", 1000000},
    {"G", 1000000000},
    {"T", 1000000000000},
    {"Ki", UINT64_C(1) << 10},
    {"Mi", UINT64_C(1) << 20},
    {"Gi", UINT64_C(1) << 30},
    {"Ti", UINT64_C(1) << 40},
    {NULL, 0},
};
static const unit bytes_unit[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {NULL, 0},
};

/* digits / 10^places, without trailing zeros after the point. */
typedef struct decimal {
    uint64_t digits;
    int places;
} decimal;

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

/* What a reader would say of the character that stopped the number. */
static plim_status fail_at(plim_ctx *c, const char *what, const char *text, const char *at,
                           const char *examples)
{
    if (!*text) return plim_fail(c, PLIM_E_USAGE, "%s: a number is missing; %s", what, examples);
    size_t place = (size_t)(at - text) + 1;
    unsigned char ch = (unsigned char)*at;
    if (!ch) return plim_fail(c, PLIM_E_USAGE, "%s: '%.60s' ends too early; %s", what, text, examples);
    if (ch <= ' ' || ch >= 127)
        return plim_fail(c, PLIM_E_USAGE, "%s: '%.60s' has a %s at character %zu; %s", what, text,
                         ch == ' ' || ch == '\t' ? "blank" : "strange byte", place, examples);
    return plim_fail(c, PLIM_E_USAGE, "%s: '%.60s' is not understood from '%.20s' on (character %zu); %s",
                     what, text, at, place, examples);
}

static plim_status fail_large(plim_ctx *c, const char *what, const char *text, const char *examples)
{
    return plim_fail(c, PLIM_E_RANGE, "%s: '%.60s' is too large or has too many digits; %s", what, text,
                     examples);
}

/* Reads digits[.digits]; *end is the first character behind. */
static plim_status read_decimal(plim_ctx *c, const char *what, const char *text, const char *examples,
                                decimal *out, const char **end)
{
    decimal d = {0, 0};
    int zeros = 0; /* seen after the point and not yet known to matter */
    const char *p = text;
    if (!is_digit(*p)) return fail_at(c, what, text, p, examples);
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(d.digits, (uint64_t)10, &d.digits) ||
            __builtin_add_overflow(d.digits, (uint64_t)(*p - '0'), &d.digits))
            return fail_large(c, what, text, examples);
    if (*p == '.') {
        p++;
        if (!is_digit(*p)) return fail_at(c, what, text, p, examples);
        for (; is_digit(*p); p++) {
            zeros++;
            if (*p == '0') continue;
            for (; zeros; zeros--, d.places++)
                if (__builtin_mul_overflow(d.digits, (uint64_t)10, &d.digits))
                    return fail_large(c, what, text, examples);
            if (__builtin_add_overflow(d.digits, (uint64_t)(*p - '0'), &d.digits))
                return fail_large(c, what, text, examples);
        }
    }
    *out = d;
    *end = p;
    return PLIM_OK;
}

/* digits * scale / 10^places, if that is a whole number: each 2 and each 5 must come out of one of the
 * two. */
static bool divide_out(uint64_t *digits, uint64_t *scale, uint64_t prime)
{
    if (*digits % prime == 0) *digits /= prime;
    else if (*scale % prime == 0) *scale /= prime;
    else return false;
    return true;
}

static plim_status parse_scaled(plim_ctx *c, const char *what, const char *text, const unit *units,
                                const char *examples, const char *thing, int64_t *out)
{
    decimal d;
    const char *suffix;
    TRY(read_decimal(c, what, text, examples, &d, &suffix));
    while (units->suffix && strcmp(units->suffix, suffix) != 0) units++;
    if (!units->suffix) return fail_at(c, what, text, suffix, examples);
    uint64_t scale = units->scale, value;
    for (int i = 0; i < d.places; i++)
        if (!divide_out(&d.digits, &scale, 2) || !divide_out(&d.digits, &scale, 5))
            return plim_fail(c, PLIM_E_USAGE, "%s: '%.60s' is not a whole number%s; %s", what, text, thing,
                             examples);
    if (__builtin_mul_overflow(d.digits, scale, &value) || value > INT64_MAX)
        return fail_large(c, what, text, examples);
    *out = (int64_t)value;
    return PLIM_OK;
}

plim_status plim_parse_count(plim_ctx *c, const char *what, const char *text, int64_t *out)
{
    return parse_scaled(c, what, text, count_unit, COUNT_EXAMPLES, "", out);
}

plim_status plim_parse_bytes(plim_ctx *c, const char *what, const char *text, size_t *out_bytes)
{
    int64_t bytes = 0;
    TRY(parse_scaled(c, what, text, bytes_unit, BYTES_EXAMPLES, " of bytes", &bytes));
    *out_bytes = (size_t)bytes;
    return PLIM_OK;
}

plim_status plim_parse_int(plim_ctx *c, const char *what, const char *text, int64_t min, int64_t max,
                           int64_t *out)
{
    static const unit bare[] = {{"", 1}, {NULL, 0}};
    int64_t n = 0;
    const char *point = strchr(text, '.');
    if (point) return fail_at(c, what, text, point, INT_EXAMPLES);
    TRY(parse_scaled(c, what, text, bare, INT_EXAMPLES, "", &n));
    if (n < min || n > max)
        return plim_fail(c, PLIM_E_RANGE,
                         "%s: %" PRId64 " is out of range; %" PRId64 " to %" PRId64 " would work", what, n,
                         min, max);
    *out = n;
    return PLIM_OK;
}

/* e or E, a sign or none, one to three digits; p at the letter. */
static plim_status read_exponent(plim_ctx *c, const char *what, const char *text, const char *p, int *out)
{
    bool negative = *++p == '-';
    int digits = 0, value = 0;
    if (*p == '-' || *p == '+') p++;
    for (; is_digit(*p) && digits < 3; p++, digits++) value = 10 * value + (*p - '0');
    if (*p || !digits) return fail_at(c, what, text, p, DOUBLE_EXAMPLES);
    *out = negative ? -value : value;
    return PLIM_OK;
}

plim_status plim_parse_double(plim_ctx *c, const char *what, const char *text, double min, double max,
                              double *out)
{
    decimal d;
    const char *end;
    double power = 1;
    int exponent = 0;
    TRY(read_decimal(c, what, text, DOUBLE_EXAMPLES, &d, &end));
    if (*end == 'e' || *end == 'E') TRY(read_exponent(c, what, text, end, &exponent));
    else if (*end) return fail_at(c, what, text, end, DOUBLE_EXAMPLES);
    int places = d.digits ? d.places - exponent : 0;
    /* both are exact in a double (10^15 < 2^53, 5^22 < 2^53), so the division or product rounds once */
    if (d.digits >= UINT64_C(1000000000000000) || places > 22 || places < -22)
        return plim_fail(c, PLIM_E_RANGE, "%s: '%.60s' has more than 15 significant digits, or 22 places; %s",
                         what, text, DOUBLE_EXAMPLES);
    for (int i = places < 0 ? places : -places; i < 0; i++) power *= 10;
    double x = places < 0 ? (double)d.digits * power : (double)d.digits / power;
    if (!(x >= min && x <= max))
        return plim_fail(c, PLIM_E_RANGE, "%s: %.60s is out of range; %.10g to %.10g would work", what, text,
                         min, max);
    *out = x;
    return PLIM_OK;
}

plim_status plim_next_item(plim_ctx *c, const char *what, const char **cursor, char *buf, size_t cap)
{
    size_t n = strcspn(*cursor, ",");
    bool last = (*cursor)[n] == 0;
    if (n == 0)
        return plim_fail(c, PLIM_E_USAGE,
                         "%s: an item of the list is empty; write items separated by single commas, "
                         "as in 16k,32k,64k",
                         what);
    if (n >= cap)
        return plim_fail(c, PLIM_E_RANGE, "%s: '%.40s...' is too long; an item has at most %zu characters",
                         what, *cursor, cap ? cap - 1 : 0);
    memcpy(buf, *cursor, n);
    buf[n] = 0;
    *cursor = last ? NULL : *cursor + n + 1;
    return PLIM_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

const char *plim_format_thousands(char buf[PLIM_NUMBER_BYTES], int64_t n)
{
    char digits[24];
    uint64_t magnitude = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int count = snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    char *to = buf;
    if (n < 0) *to++ = '-';
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return buf;
}

/* n / unit with as many of the three decimals as matter. */
static const char *format_decimal(char buf[PLIM_NUMBER_BYTES], uint64_t n, const unit *u)
{
    int places = 3;
    unsigned thousandths = (unsigned)(n % u->scale / (u->scale / 1000));
    while (places && thousandths % 10 == 0) {
        thousandths /= 10;
        places--;
    }
    if (places)
        snprintf(buf, PLIM_NUMBER_BYTES, "%" PRIu64 ".%0*u%s", n / u->scale, places, thousandths, u->suffix);
    else snprintf(buf, PLIM_NUMBER_BYTES, "%" PRIu64 "%s", n / u->scale, u->suffix);
    return buf;
}

const char *plim_format_count(char buf[PLIM_NUMBER_BYTES], int64_t n)
{
    const unit *decimal_unit = NULL, *binary_unit = NULL;
    for (const unit *u = count_unit + 1; n > 0 && u->suffix; u++) {
        bool binary = u->suffix[1] == 'i';
        if (!binary && (uint64_t)n >= u->scale) decimal_unit = u;
        if (binary && (uint64_t)n % u->scale == 0) binary_unit = u;
    }
    if (decimal_unit && n % 1000 == 0 && (uint64_t)n % (decimal_unit->scale / 1000) == 0)
        return format_decimal(buf, (uint64_t)n, decimal_unit);
    if (!binary_unit) return plim_format_thousands(buf, n);
    snprintf(buf, PLIM_NUMBER_BYTES, "%" PRIu64 "%s", (uint64_t)n / binary_unit->scale, binary_unit->suffix);
    return buf;
}

static const char *format_tenths(char buf[PLIM_NUMBER_BYTES], uint64_t tenths, const char *suffix)
{
    /* by hand: %.1f would follow the locale */
    snprintf(buf, PLIM_NUMBER_BYTES, "%" PRIu64 ".%u%s", tenths / 10, (unsigned)(tenths % 10), suffix);
    return buf;
}

const char *plim_format_bytes_gib(char buf[PLIM_NUMBER_BYTES], size_t bytes)
{
    uint64_t whole = (uint64_t)bytes >> 30, rest = (uint64_t)bytes & ((UINT64_C(1) << 30) - 1);
    return format_tenths(buf, whole * 10 + ((rest * 10 + (UINT64_C(1) << 29)) >> 30), "");
}

const char *plim_format_duration(char buf[PLIM_NUMBER_BYTES], double s)
{
    /* largest: the first value that would be shown as the next unit's one */
    static const struct {
        double below_s, unit_s;
        bool tenths;
        const char *suffix;
    } row[] = {
        {0.9995, 0.001, false, " ms"}, {59.95, 1, true, " s"},          {597, 60, true, " min"},
        {3570, 60, false, " min"},     {48 * 3600.0, 3600, true, " h"}, {1e15, 86400, true, " d"},
    };
    size_t i = 0, rows = sizeof row / sizeof *row;
    while (i < rows && !(s < row[i].below_s)) i++;
    if (!(s >= 0) || i == rows) {
        snprintf(buf, PLIM_NUMBER_BYTES, "?");
        return buf;
    }
    double x = s / row[i].unit_s;
    if (row[i].tenths) return format_tenths(buf, (uint64_t)(x * 10 + 0.5), row[i].suffix);
    snprintf(buf, PLIM_NUMBER_BYTES, "%" PRIu64 "%s", (uint64_t)(x + 0.5), row[i].suffix);
    return buf;
}
