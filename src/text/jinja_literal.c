/* jinja_literal.c - decides what strings, numbers and white space in a template mean. */
#include "text/jinja_tree.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool plim_jinja_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

static int hex_value(char h)
{
    if (h >= '0' && h <= '9') return h - '0';
    if (h >= 'a' && h <= 'f') return h - 'a' + 10;
    if (h >= 'A' && h <= 'F') return h - 'A' + 10;
    return -1;
}

/* count hexadecimal digits at text[*i], or up to 3 octal ones (base 8). */
static bool read_code(const char *text, size_t bytes, size_t *i, int count, int base, uint32_t *out)
{
    int n = 0;
    uint32_t code = 0;
    for (; n < count && *i < bytes; n++, ++*i) {
        int v = hex_value(text[*i]);
        if (v < 0 || v >= base) break;
        code = code * (uint32_t)base + (uint32_t)v;
    }
    *out = code;
    return base == 8 ? n > 0 : n == count;
}

static plim_status escape(plim_jinja *t, size_t at, size_t bytes, size_t *i, char *out, size_t *n)
{
    static const char letters[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *text = t->source + at;
    size_t start = *i - 1;
    char e = text[(*i)++];
    const char *known = strchr(letters, e);
    uint32_t code = 0;
    if (known && e) {
        out[(*n)++] = means[known - letters];
        return PLIM_OK;
    }
    if (e == '\n') return PLIM_OK;
    if (e == 'N')
        return plim_jinja_fail(t->ctx, t, at + start, PLIM_E_UNSUPPORTED,
                               "\\N{...} is not read; write \\u and digits");
    bool octal = e >= '0' && e <= '7';
    if (octal) --*i;
    else if (e != 'x' && e != 'u' && e != 'U') {
        out[(*n)++] = '\\'; /* Python keeps an escape that it does not know */
        --*i;
        return PLIM_OK;
    }
    if (!read_code(text, bytes, i,
                   octal      ? 3
                   : e == 'x' ? 2
                   : e == 'u' ? 4
                              : 8,
                   octal ? 8 : 16, &code) ||
        code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return plim_jinja_fail(t->ctx, t, at + start, PLIM_E_FORMAT,
                               "the escape in this string is no character");
    *n += plim_utf8_encode(out + *n, code);
    return PLIM_OK;
}

plim_status plim_jinja_unescape(plim_jinja *t, size_t at, size_t bytes, const char **out, size_t *out_bytes)
{
    const char *text = t->source + at;
    char *made = NULL;
    size_t n = 0;
    if (!memchr(text, '\\', bytes)) {
        *out = text;
        *out_bytes = bytes;
        return PLIM_OK;
    }
    TRY(plim_pool_take(&t->pool, bytes + 4, 1, &made)); /* no escape is shorter than what it means */
    for (size_t i = 0; i < bytes;) {
        char b = text[i++];
        if (b != '\\') made[n++] = b;
        else TRY(escape(t, at, bytes, &i, made, &n));
    }
    *out = made;
    *out_bytes = n;
    return PLIM_OK;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* Digits with single underscores between them; 0 if there is none at i. */
static size_t digits(const plim_jinja *t, size_t i, int base)
{
    size_t from = i;
    for (;; i++) {
        bool under = i > from && i + 1 < t->bytes && t->source[i] == '_';
        int v = i < t->bytes ? hex_value(t->source[under ? i + 1 : i]) : -1;
        if (v < 0 || v >= base) return i - from;
        if (under) i++;
    }
}

static plim_status real(plim_jinja *t, size_t at, size_t end, plim_jtoken *out)
{
    char text[512];
    size_t n = 0;
    const char *point = localeconv()->decimal_point; /* strtod reads the host program's */
    for (size_t i = at; i < end; i++) {
        if (t->source[i] == '_') continue;
        if (n + 8 > sizeof text)
            return plim_jinja_fail(t->ctx, t, at, PLIM_E_RANGE, "a number of too many digits");
        if (t->source[i] != '.') text[n++] = t->source[i];
        else n += strlen(strncpy(text + n, point, 4));
    }
    text[n] = 0;
    out->type = PLIM_JT_FLOAT;
    out->f = strtod(text, NULL);
    return PLIM_OK;
}

plim_status plim_jinja_number(plim_jinja *t, size_t *at, bool after_dot, plim_jtoken *out)
{
    const char *s = t->source;
    size_t from = *at, whole = digits(t, from, 10), end = from + whole, after = 0;
    bool is_real = false;
    out->at = from;
    if (s[from] == '0' && from + 2 < t->bytes) {
        char b = (char)(s[from + 1] | 32);
        int base = b == 'x' ? 16 : b == 'o' ? 8 : b == 'b' ? 2 : 0;
        size_t skip = base && s[from + 2] == '_', n = base ? digits(t, from + 2 + skip, base) : 0;
        if (n) {
            uint64_t v = 0;
            for (size_t i = from + 2; i < from + 2 + skip + n; i++) {
                if (s[i] == '_') continue;
                if (v > (uint64_t)INT64_MAX / (uint64_t)base)
                    return plim_jinja_fail(t->ctx, t, from, PLIM_E_RANGE, "an integer beyond 64 bits");
                v = v * (uint64_t)base + (uint64_t)hex_value(s[i]);
            }
            if (v > INT64_MAX)
                return plim_jinja_fail(t->ctx, t, from, PLIM_E_RANGE, "an integer beyond 64 bits");
            out->type = PLIM_JT_INT;
            out->i = (int64_t)v;
            *at = from + 2 + skip + n;
            return PLIM_OK;
        }
    }
    if (!after_dot && end < t->bytes && s[end] == '.' && (after = digits(t, end + 1, 10)) > 0) {
        is_real = true;
        end += 1 + after;
    }
    if (!after_dot && end < t->bytes && (s[end] | 32) == 'e') {
        size_t sign = end + 1 < t->bytes && (s[end + 1] == '+' || s[end + 1] == '-');
        after = digits(t, end + 1 + sign, 10);
        if (after) {
            is_real = true;
            end += 1 + sign + after;
        }
    }
    *at = end;
    if (is_real) return real(t, from, end, out);
    int64_t v = 0;
    if (s[from] == '0') /* an integer that starts with 0 is zeros alone; what follows is a token of its own */
        for (end = from; end < from + whole && (s[end] == '0' || s[end] == '_');) end++;
    *at = end;
    for (size_t i = from; i < end; i++)
        if (s[i] != '_' && (__builtin_mul_overflow(v, (int64_t)10, &v) ||
                            __builtin_add_overflow(v, (int64_t)(s[i] - '0'), &v)))
            return plim_jinja_fail(t->ctx, t, from, PLIM_E_RANGE, "an integer beyond 64 bits");
    out->type = PLIM_JT_INT;
    out->i = v;
    return PLIM_OK;
}
