/* json.c - decides what JSON text is accepted.
 * Jansson's own loader ignores a failed growth of its token buffer (a string then loses bytes), so the text
 * is read here, allocation by allocation, and Jansson only keeps the tree.  Getters are in json_get.c. */
#include "base/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 256 /* longest number read; a double needs 24 */

typedef struct reader {
    plim_ctx *c;
    const char *name, *text;
    size_t bytes, at;
    char *stack; /* decoded strings; a key stays here while its value is read */
    size_t stack_cap, top;
    int depth;
} reader;

void plim_json_position(const char *text, size_t bytes, size_t at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at && i < bytes; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) ++*column;
    }
}

PLIM_PRINTF(3, 4) static plim_status bad(reader *r, size_t at, const char *fmt, ...)
{
    char what[512];
    size_t line, column;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    plim_json_position(r->text, r->bytes, at, &line, &column);
    return plim_fail(r->c, PLIM_E_FORMAT, "%s:%zu:%zu: not valid JSON: %s", r->name, line, column, what);
}

static plim_status truncated(reader *r, const char *inside)
{
    return bad(r, r->bytes, "the text ends inside %s; the file is cut off (%zu bytes), fetch it again",
               inside, r->bytes);
}

static plim_status no_memory(reader *r, size_t bytes)
{
    return plim_fail_alloc(r->c, bytes, "a JSON value");
}

static void skip_space(reader *r)
{
    while (r->at < r->bytes && r->text[r->at] && strchr(" \t\r\n", r->text[r->at])) r->at++;
}

/* What stands at r->at, for a message: 'x' or byte 0xNN. */
static const char *found(const reader *r, char out[16])
{
    unsigned char b = (unsigned char)r->text[r->at];
    if (b > 0x20 && b < 0x7F) snprintf(out, 16, "'%c'", b);
    else snprintf(out, 16, "byte 0x%02X", b);
    return out;
}

/* ---- strings ------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at p (n >= 1 left), 0 if it is none: overlong, surrogate, above U+10FFFF,
 * cut. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return 1;
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n < len) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) ||
        (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return len;
}

static size_t utf8_write(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = len - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[len] | code);
    return len;
}

/* Four hexadecimal digits at r->at, passed over. */
static plim_status read_hex4(reader *r, unsigned *out)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (r->at >= r->bytes) return truncated(r, "a string");
        char h = r->text[r->at];
        if (h >= '0' && h <= '9') v = v * 16 + (unsigned)(h - '0');
        else if (h >= 'a' && h <= 'f') v = v * 16 + (unsigned)(h - 'a') + 10;
        else if (h >= 'A' && h <= 'F') v = v * 16 + (unsigned)(h - 'A') + 10;
        else return bad(r, r->at, "\\u needs four hexadecimal digits");
    }
    *out = v;
    return PLIM_OK;
}

/* The escape whose letter stands at r->at; its character goes to out, *n bytes of it. */
static plim_status read_escape(reader *r, char *out, size_t *n)
{
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    size_t start = r->at - 1;
    if (r->at >= r->bytes) return truncated(r, "a string");
    char e = r->text[r->at++];
    const char *known = e ? strchr(letters, e) : NULL;
    if (known) {
        out[0] = means[known - letters];
        *n = 1;
        return PLIM_OK;
    }
    if (e != 'u') return bad(r, start, "unknown escape after a backslash in a string");
    unsigned code, low;
    TRY(read_hex4(r, &code));
    if (code == 0) return bad(r, start, "\\u0000 in a string; NUL is not accepted");
    if (code >= 0xDC00 && code <= 0xDFFF) return bad(r, start, "\\u%04X is half a surrogate pair", code);
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (r->bytes - r->at < 2 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u')
            return bad(r, start, "\\u%04X is half a surrogate pair", code);
        r->at += 2;
        TRY(read_hex4(r, &low));
        if (low < 0xDC00 || low > 0xDFFF) return bad(r, start, "\\u%04X is half a surrogate pair", code);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *n = utf8_write(out, code);
    return PLIM_OK;
}

/* Decodes the string whose quote stands at r->at onto the stack, zero-terminated; *n without the zero. */
static plim_status push_string(reader *r, size_t *offset, size_t *n)
{
    size_t from = r->at + 1, end = from, len = 0;
    while (end < r->bytes && r->text[end] != '"') end += r->text[end] == '\\' ? 2 : 1;
    if (end >= r->bytes) end = r->bytes; /* cut: the loop below says where */
    /* no escape is shorter than what it means, so the decoded string fits in as many bytes */
    TRY(plim_grow(r->c, &r->stack, &r->stack_cap, r->top + (end - from) + 5, 1, "a JSON string"));
    char *out = r->stack + r->top;
    for (r->at = from;;) {
        if (r->at >= r->bytes) return truncated(r, "a string");
        unsigned char b = (unsigned char)r->text[r->at];
        if (b == '"') break;
        if (b < 0x20) return bad(r, r->at, "control byte 0x%02X in a string; write it as an escape", b);
        if (b == '\\') {
            size_t wrote = 0;
            r->at++;
            TRY(read_escape(r, out + len, &wrote));
            len += wrote;
            continue;
        }
        size_t bytes = utf8_length((const unsigned char *)r->text + r->at, r->bytes - r->at);
        if (!bytes) return bad(r, r->at, "byte 0x%02X is not UTF-8; save the file as UTF-8", b);
        memcpy(out + len, r->text + r->at, bytes);
        len += bytes;
        r->at += bytes;
    }
    r->at++;
    out[len] = 0;
    *offset = r->top;
    *n = len;
    r->top += len + 1;
    return PLIM_OK;
}

/* ---- values -------------------------------------------------------------------------------------------- */

static size_t digits(const reader *r, size_t i)
{
    while (i < r->bytes && r->text[i] >= '0' && r->text[i] <= '9') i++;
    return i;
}

static plim_status read_number(reader *r, json_t **out)
{
    size_t from = r->at, i = from + (r->text[from] == '-'), end = digits(r, i), point = 0;
    bool real = false;
    char buffer[NUMBER_BYTES + 16];
    if (end == i)
        return i < r->bytes ? bad(r, from, "a digit must follow the minus sign") : truncated(r, "a number");
    if (r->text[i] == '0' && end > i + 1) return bad(r, from, "a number with leading zeros");
    if (end < r->bytes && r->text[end] == '.') {
        real = true;
        point = end;
        end = digits(r, point + 1);
        if (end == point + 1)
            return end < r->bytes ? bad(r, from, "a digit must follow the decimal point")
                                  : truncated(r, "a number");
    }
    if (end < r->bytes && (r->text[end] == 'e' || r->text[end] == 'E')) {
        real = true;
        i = end + 1;
        if (i < r->bytes && (r->text[i] == '+' || r->text[i] == '-')) i++;
        end = digits(r, i);
        if (end == i)
            return end < r->bytes ? bad(r, from, "a number without its exponent") : truncated(r, "a number");
    }
    if (end - from > NUMBER_BYTES) return bad(r, from, "a number of %zu characters", end - from);
    /* strtod reads the point of the host program's locale */
    const char *dot = real && point ? localeconv()->decimal_point : "";
    size_t head = point ? point - from : end - from;
    snprintf(buffer, sizeof buffer, "%.*s%.8s%.*s", (int)head, r->text + from, dot,
             point ? (int)(end - point - 1) : 0, point ? r->text + point + 1 : "");
    errno = 0;
    if (real) {
        double v = strtod(buffer, NULL);
        if (!isfinite(v)) return bad(r, from, "%.40s is out of range for a double", buffer);
        *out = json_real(v);
    } else {
        long long v = strtoll(buffer, NULL, 10);
        if (errno == ERANGE) return bad(r, from, "%.40s is out of range for a 64-bit integer", buffer);
        *out = json_integer(v);
    }
    r->at = end;
    return *out ? PLIM_OK : no_memory(r, sizeof(double));
}

static plim_status read_word(reader *r, json_t **out)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int w = 0; w < 3; w++) {
        size_t len = strlen(words[w]), left = r->bytes - r->at;
        if (memcmp(r->text + r->at, words[w], left < len ? left : len) != 0) continue;
        if (left < len) return truncated(r, "a word");
        r->at += len;
        *out = w == 0 ? json_true() : w == 1 ? json_false() : json_null();
        return PLIM_OK;
    }
    char what[16];
    return bad(r, r->at, "a value was expected, found %s (NaN, Infinity and comments are not JSON)",
               found(r, what));
}

static plim_status read_value(reader *r, json_t **out);

static plim_status read_member(reader *r, json_t *object)
{
    size_t mark = r->top, key, n, start = r->at;
    char what[16];
    json_t *value = NULL;
    if (r->text[r->at] != '"')
        return bad(r, r->at, "a key in double quotes was expected, found %s", found(r, what));
    TRY(push_string(r, &key, &n));
    if (json_object_get(object, r->stack + key))
        return bad(r, start, "duplicate key \"%.200s\"; keep one of them", r->stack + key);
    skip_space(r);
    if (r->at >= r->bytes) return truncated(r, "an object");
    if (r->text[r->at] != ':') return bad(r, r->at, "':' was expected after a key, found %s", found(r, what));
    r->at++;
    TRY(read_value(r, &value));
    if (json_object_set_new_nocheck(object, r->stack + key, value)) return no_memory(r, n);
    r->top = mark;
    return PLIM_OK;
}

static plim_status read_element(reader *r, json_t *array)
{
    json_t *value = NULL;
    TRY(read_value(r, &value));
    return json_array_append_new(array, value) ? no_memory(r, sizeof value) : PLIM_OK;
}

/* Members or elements up to the closing bracket; r->at is behind the opening one. */
static plim_status read_items(reader *r, json_t *into, char close)
{
    const char *inside = close == '}' ? "an object" : "an array";
    char what[16];
    for (bool first = true;; first = false) {
        skip_space(r);
        if (r->at >= r->bytes) return truncated(r, inside);
        if (first && r->text[r->at] == close) break;
        TRY(close == '}' ? read_member(r, into) : read_element(r, into));
        skip_space(r);
        if (r->at >= r->bytes) return truncated(r, inside);
        if (r->text[r->at] == close) break;
        if (r->text[r->at] != ',')
            return bad(r, r->at, "',' or '%c' was expected, found %s", close, found(r, what));
        r->at++;
    }
    r->at++;
    return PLIM_OK;
}

static plim_status read_container(reader *r, json_t **out)
{
    bool object = r->text[r->at] == '{';
    if (r->depth == PLIM_JSON_MAX_DEPTH)
        return bad(r, r->at, "nested deeper than %d levels, the most that is read", PLIM_JSON_MAX_DEPTH);
    json_t *value = object ? json_object() : json_array();
    if (!value) return no_memory(r, sizeof *value);
    r->at++;
    r->depth++;
    plim_status st = read_items(r, value, object ? '}' : ']');
    r->depth--;
    if (st) json_decref(value);
    else *out = value;
    return st;
}

static plim_status read_value(reader *r, json_t **out)
{
    skip_space(r);
    if (r->at >= r->bytes) return truncated(r, "the place of a value");
    char b = r->text[r->at];
    if (b == '{' || b == '[') return read_container(r, out);
    if (b == '-' || (b >= '0' && b <= '9')) return read_number(r, out);
    if (b != '"') return read_word(r, out);
    size_t mark = r->top, offset, n;
    TRY(push_string(r, &offset, &n));
    *out = json_stringn_nocheck(r->stack + offset, n);
    r->top = mark;
    return *out ? PLIM_OK : no_memory(r, n);
}

static plim_status read_text(reader *r, json_t **out)
{
    char what[16];
    if (r->bytes >= 3 && memcmp(r->text, "\xEF\xBB\xBF", 3) == 0)
        return bad(r, 0, "the text starts with a byte-order mark; save it as UTF-8 without one");
    if (r->bytes >= 2 && (memcmp(r->text, "\xFF\xFE", 2) == 0 || memcmp(r->text, "\xFE\xFF", 2) == 0))
        return bad(r, 0, "the text starts with a UTF-16 byte-order mark; save it as UTF-8 without one");
    skip_space(r);
    if (r->at == r->bytes) return bad(r, 0, "the text is empty (%zu bytes); fetch the file again", r->bytes);
    TRY(read_value(r, out));
    skip_space(r);
    if (r->at < r->bytes)
        return bad(r, r->at, "the value is complete, but %s follows; delete it", found(r, what));
    return PLIM_OK;
}

plim_status plim_json_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, size_t cap_bytes,
                            plim_json *out)
{
    reader r = {.c = c, .name = name, .text = text, .bytes = bytes};
    json_t *root = NULL;
    if (bytes > cap_bytes)
        return plim_fail(c, PLIM_E_FORMAT, "%s: %zu bytes of JSON; at most %zu bytes are read", name, bytes,
                         cap_bytes);
    plim_status st = read_text(&r, &root);
    plim_release(c, r.stack);
    if (st) json_decref(root);
    else *out = (plim_json){c, name, text, bytes, root};
    return st;
}

void plim_json_close(plim_json *j)
{
    if (!j) return;
    json_decref(j->root);
    j->root = NULL;
}
