/* jinja_filter.c - decides what filters of strings and numbers do, and which filters there are. */
#include "text/jinja_machine.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                                         \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

/* str(self); fails on what has no text. */
static plim_status text_of(plim_jm *m, plim_jv self, const plim_js **out)
{
    plim_jv text;
    TRY(plim_jm_text(m, self, &text));
    *out = text.u.s;
    return PLIM_OK;
}

static plim_status change_case(plim_jm *m, plim_jv self, char how, plim_jv *out)
{
    const plim_js *s = NULL;
    TRY(text_of(m, self, &s));
    return plim_jm_case(m, s, how, out);
}

FILTER(filter_upper)
{
    (void)args;
    (void)call;
    return change_case(m, self, 'u', out);
}

FILTER(filter_lower)
{
    (void)args;
    (void)call;
    return change_case(m, self, 'l', out);
}

FILTER(filter_capitalize)
{
    (void)args;
    (void)call;
    return change_case(m, self, 'c', out);
}

static bool starts_word(uint32_t c)
{
    return plim_jinja_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Jinja's title: words begin at white space and opening brackets, not at every letter behind a sign. */
FILTER(filter_title)
{
    const plim_js *s = NULL;
    plim_jbuilder b = {.pool = m->pool};
    (void)args;
    (void)call;
    TRY(text_of(m, self, &s));
    for (size_t at = 0, n = 0; at < s->bytes;) {
        size_t end = at;
        bool gap = starts_word(plim_utf8_decode(s->text + at, s->bytes - at, &n));
        size_t first = n;
        while (end < s->bytes && starts_word(plim_utf8_decode(s->text + end, s->bytes - end, &n)) == gap)
            end += n;
        plim_jv head, tail;
        if (gap) TRY(plim_jbuilder_add_part(&b, s, at, end));
        else {
            TRY(plim_js_part(m->pool, s, at, at + first, &head));
            TRY(plim_js_part(m->pool, s, at + first, end, &tail));
            TRY(plim_jm_case(m, head.u.s, 'u', &head));
            TRY(plim_jm_case(m, tail.u.s, 'l', &tail));
            TRY(plim_jbuilder_add_string(&b, head.u.s));
            TRY(plim_jbuilder_add_string(&b, tail.u.s));
        }
        at = end;
    }
    return plim_jbuilder_done(&b, s->markup, out);
}

FILTER(filter_trim)
{
    const plim_js *s = NULL, *chars = NULL;
    (void)call;
    TRY(text_of(m, self, &s));
    if (args[0].kind && args[0].kind != PLIM_JV_NONE) TRY(plim_jm_need_string(m, "trim", args[0], &chars));
    return plim_jm_strip(m, s, chars, true, true, out);
}

static plim_status set_markup(plim_jm *m, plim_jv self, bool markup, plim_jv *out)
{
    const plim_js *s = NULL;
    plim_js *copy = NULL;
    TRY(text_of(m, self, &s));
    TRY(plim_pool_take(m->pool, 1, sizeof *copy, &copy));
    *copy = *s;
    copy->markup = markup;
    *out = plim_jv_string(copy);
    return PLIM_OK;
}

FILTER(filter_replace)
{
    const plim_js *s = NULL, *from = NULL, *to = NULL;
    int64_t most = -1;
    plim_jv plain;
    (void)call;
    TRY(set_markup(m, self, false, &plain));
    s = plain.u.s;
    TRY(text_of(m, args[0], &from));
    TRY(text_of(m, args[1], &to));
    if (args[2].kind && args[2].kind != PLIM_JV_NONE) TRY(plim_jm_need_int(m, "replace", args[2], &most));
    return plim_jm_replace(m, s, from, to, most, out);
}

FILTER(filter_string)
{
    (void)args;
    (void)call;
    return plim_jm_text(m, self, out);
}

FILTER(filter_escape)
{
    const plim_js *s = NULL;
    (void)args;
    (void)call;
    TRY(text_of(m, self, &s));
    return plim_jm_escape(m, s, out);
}

FILTER(filter_safe)
{
    (void)args;
    (void)call;
    return set_markup(m, self, true, out);
}

FILTER(filter_forceescape)
{
    (void)args;
    (void)call;
    TRY(set_markup(m, self, false, out));
    return plim_jm_escape(m, out->u.s, out);
}

FILTER(filter_tojson)
{
    (void)call;
    return plim_jm_tojson(m, self, args, out);
}

FILTER(filter_default)
{
    (void)call;
    bool use = self.kind == PLIM_JV_UNDEFINED || (plim_jv_true(args[1]) && !plim_jv_true(self));
    *out = !use ? self : args[0];
    if (use && !args[0].kind) {
        plim_jbuilder b = {.pool = m->pool};
        return plim_jbuilder_done(&b, false, out);
    }
    return PLIM_OK;
}

FILTER(filter_length)
{
    int64_t n = 0;
    (void)args;
    (void)call;
    TRY(plim_jm_length(m, self, &n));
    *out = plim_jv_int(n);
    return PLIM_OK;
}

FILTER(filter_attr)
{
    const plim_js *name = NULL;
    (void)call;
    TRY(text_of(m, args[0], &name));
    if (self.kind == PLIM_JV_DICT) /* attributes alone, not the keys */
        return plim_jm_undefined(m, out, "'dict object' has no attribute '%.*s'",
                                 (int)(name->bytes > 60 ? 60 : name->bytes), name->text);
    return plim_jm_attr(m, self, name, out);
}

/* ---- indent, center, truncate -------------------------------------------------------------------------- */

/* The line from at: its end in *end, and where the next one starts; as str.splitlines divides. */
static size_t next_line(const plim_js *s, size_t at, size_t *end)
{
    for (size_t n = 0; at < s->bytes; at += n) {
        uint32_t c = plim_utf8_decode(s->text + at, s->bytes - at, &n);
        if (!((c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029))
            continue;
        *end = at;
        if (c == '\r' && at + 1 < s->bytes && s->text[at + 1] == '\n') n = 2;
        return at + n;
    }
    *end = s->bytes;
    return SIZE_MAX;
}

FILTER(filter_indent)
{
    const plim_js *s = NULL, *by = NULL;
    int64_t width = 4;
    plim_jbuilder b = {.pool = m->pool}, blanks = {.pool = m->pool};
    plim_jv made;
    plim_jrun own = plim_jrun_template(m->at, m->turn);
    (void)call;
    TRY(plim_jm_need_string(m, "indent", self, &s));
    if (args[0].kind == PLIM_JV_STRING) by = args[0].u.s;
    else {
        if (args[0].kind) TRY(plim_jm_need_int(m, "indent", args[0], &width));
        if (width > 100000) return plim_jm_fail(m, PLIM_E_RANGE, "indent: a width of %lld", (long long)width);
        for (int64_t i = 0; i < width; i++) TRY(plim_jbuilder_add(&blanks, " ", 1, own));
        TRY(plim_jbuilder_done(&blanks, false, &made));
        by = made.u.s;
    }
    if (plim_jv_true(args[1])) TRY(plim_jbuilder_add_string(&b, by));
    for (size_t at = 0, end = 0; at != SIZE_MAX;) {
        size_t from = at, next = next_line(s, at, &end);
        if (from > 0) {
            TRY(plim_jbuilder_add(&b, "\n", 1, plim_js_run_at(s, from - 1)));
            if (end > from || plim_jv_true(args[2])) TRY(plim_jbuilder_add_string(&b, by));
        }
        TRY(plim_jbuilder_add_part(&b, s, from, end));
        at = next;
    }
    return plim_jbuilder_done(&b, s->markup, out);
}

FILTER(filter_center)
{
    const plim_js *s = NULL;
    int64_t width = 80;
    (void)call;
    TRY(text_of(m, self, &s));
    if (args[0].kind) TRY(plim_jm_need_int(m, "center", args[0], &width));
    return plim_jm_pad(m, s, width, NULL, 'c', out);
}

FILTER(filter_truncate)
{
    const plim_js *s = NULL, *end = NULL;
    int64_t length = 255, leeway = 5;
    plim_jv cut;
    (void)call;
    TRY(plim_jm_need_string(m, "truncate", self, &s));
    if (args[0].kind) TRY(plim_jm_need_int(m, "truncate", args[0], &length));
    if (args[2].kind) TRY(plim_jm_need_string(m, "truncate", args[2], &end));
    else TRY(plim_js_make(m->pool, "...", 3, plim_jrun_template(m->at, m->turn), &end));
    if (args[3].kind && args[3].kind != PLIM_JV_NONE) TRY(plim_jm_need_int(m, "truncate", args[3], &leeway));
    if (length < (int64_t)end->chars || leeway < 0)
        return plim_jm_fail(m, PLIM_E_FORMAT, "expected length >= %zu, got %lld", end->chars,
                            (long long)length);
    if (leeway > INT32_MAX) leeway = INT32_MAX;
    if (length > INT32_MAX || (int64_t)s->chars <= length + leeway) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    size_t bytes = plim_js_offset(s, (size_t)(length - (int64_t)end->chars));
    if (!plim_jv_true(args[1])) {
        size_t blank = bytes;
        while (blank > 0 && s->text[blank - 1] != ' ') blank--;
        if (blank > 0) bytes = blank - 1;
    }
    TRY(plim_js_part(m->pool, s, 0, bytes, &cut));
    return plim_js_join2(m->pool, cut.u.s, end, s->markup, out);
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* The text without blanks around and single underscores between digits, with the locale's point; false: too
 * long. */
static bool number_text(const plim_js *s, char out[256])
{
    size_t begin = 0, end = s->bytes, n = 0;
    while (begin < end && plim_jinja_space((unsigned char)s->text[begin])) begin++;
    while (end > begin && plim_jinja_space((unsigned char)s->text[end - 1])) end--;
    for (size_t i = begin; i < end; i++) {
        char b = s->text[i];
        bool inner = i > begin && i + 1 < end && s->text[i - 1] >= '0' && s->text[i - 1] <= '9' &&
                     s->text[i + 1] >= '0' && s->text[i + 1] <= '9';
        if (b == '_' && inner) continue;
        if (n + 8 > 256 || (unsigned char)b >= 0x80 || !b || b == ',' || b == 'x' || b == 'X' || b == '_')
            return false;
        if (b != '.') out[n++] = b;
        else n += strlen(strncpy(out + n, localeconv()->decimal_point, 4));
    }
    out[n] = 0;
    return n > 0;
}

/* float(self) as Python reads it; false: it does not. */
static bool read_float(plim_jv self, double *out)
{
    char text[256], *end = NULL;
    if (plim_jv_is_number(self)) {
        *out = plim_jv_as_double(self);
        return true;
    }
    if (self.kind != PLIM_JV_STRING || !number_text(self.u.s, text)) return false;
    *out = strtod(text, &end);
    return *end == 0 && !strchr(text, '(') && !plim_jinja_space((unsigned char)text[0]);
}

FILTER(filter_float)
{
    double f = 0;
    (void)call;
    TRY(plim_jm_use(m, self));
    if (read_float(self, &f)) *out = plim_jv_float(f);
    else *out = args[0].kind ? args[0] : plim_jv_float(0);
    return PLIM_OK;
}

FILTER(filter_int)
{
    char text[256], *end = NULL;
    double f = 0;
    int64_t base = 10;
    (void)call;
    TRY(plim_jm_use(m, self));
    if (args[1].kind) TRY(plim_jm_need_int(m, "int", args[1], &base));
    if (base != 0 && (base < 2 || base > 36))
        return plim_jm_fail(m, PLIM_E_FORMAT, "int() base must be >= 2 and <= 36, or 0");
    plim_jv fallback = args[0].kind ? args[0] : plim_jv_int(0);
    if (self.kind == PLIM_JV_STRING) {
        bool prefixed = base == 16 || base == 0;
        size_t n = self.u.s->bytes < sizeof text - 1 ? self.u.s->bytes : 0;
        if (!number_text(self.u.s, text)) {
            memcpy(text, self.u.s->text, n);
            text[n] = 0;
            if (!prefixed || !n || strlen(text) != n) {
                *out = fallback;
                return PLIM_OK;
            }
        }
        errno = 0;
        long long v = strtoll(text, &end, (int)base);
        if (*end == 0 && end != text) {
            if (errno == ERANGE)
                return plim_jm_fail(m, PLIM_E_RANGE,
                                    "an integer beyond 64 bits; plimsoll computes with none");
            *out = plim_jv_int(v);
            return PLIM_OK;
        }
    } else if (plim_jv_as_int(self, &base)) {
        *out = plim_jv_int(base);
        return PLIM_OK;
    }
    *out = fallback;
    if (!read_float(self, &f) || !isfinite(f)) return PLIM_OK;
    f = trunc(f);
    if (fabs(f) >= 0x1p63)
        return plim_jm_fail(m, PLIM_E_RANGE, "an integer beyond 64 bits; plimsoll computes with none");
    *out = plim_jv_int((int64_t)f);
    return PLIM_OK;
}

FILTER(filter_abs)
{
    (void)args;
    (void)call;
    TRY(plim_jm_use(m, self));
    if (!plim_jv_is_number(self))
        return plim_jm_fail(m, PLIM_E_FORMAT, "bad operand type for abs(): '%s'", plim_jv_type(self));
    if (self.kind == PLIM_JV_FLOAT) *out = plim_jv_float(fabs(self.u.f));
    else if (plim_jv_as_double(self) < 0) return plim_jm_unary(m, '-', self, out);
    else return plim_jm_unary(m, '+', self, out);
    return PLIM_OK;
}

/* Python's round: the decimal nearest to the exact value, ties to even. */
static double round_decimal(double f, int64_t places)
{
    char text[512];
    if (!isfinite(f) || places > 300) return f;
    if (places < -300) return copysign(0, f);
    if (places < 0) {
        double scale = pow(10, (double)-places);
        return nearbyint(f / scale) * scale;
    }
    snprintf(text, sizeof text, "%.*f", (int)places, f);
    return strlen(text) + 1 < sizeof text ? strtod(text, NULL) : f;
}

FILTER(filter_round)
{
    const plim_js *method = NULL;
    int64_t places = 0;
    (void)call;
    TRY(plim_jm_use(m, self));
    if (args[0].kind) TRY(plim_jm_need_int(m, "round", args[0], &places));
    if (args[1].kind) TRY(plim_jm_need_string(m, "round", args[1], &method));
    if (!plim_jv_is_number(self))
        return plim_jm_fail(m, PLIM_E_FORMAT, "type %s doesn't define __round__ method", plim_jv_type(self));
    double f = plim_jv_as_double(self), scale = pow(10, (double)places);
    if (!method || plim_js_is(method, "common")) {
        if (self.kind != PLIM_JV_FLOAT && places >= 0) return plim_jm_unary(m, '+', self, out);
        *out = plim_jv_float(round_decimal(f, places));
        if (self.kind != PLIM_JV_FLOAT) *out = plim_jv_int((int64_t)out->u.f);
    } else if (plim_js_is(method, "ceil")) *out = plim_jv_float(ceil(f * scale) / scale);
    else if (plim_js_is(method, "floor")) *out = plim_jv_float(floor(f * scale) / scale);
    else return plim_jm_fail(m, PLIM_E_FORMAT, "method must be common, ceil or floor");
    return PLIM_OK;
}

static const plim_jfunction filters[] = {
    {"abs", "", filter_abs},
    {"attr", "name/", filter_attr},
    {"capitalize", "", filter_capitalize},
    {"center", "width", filter_center},
    {"count", "", filter_length},
    {"d", "default_value boolean", filter_default},
    {"default", "default_value boolean", filter_default},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"float", "default", filter_float},
    {"forceescape", "", filter_forceescape},
    {"indent", "width first blank", filter_indent},
    {"int", "default base", filter_int},
    {"length", "", filter_length},
    {"lower", "", filter_lower},
    {"replace", "old new/ count", filter_replace},
    {"round", "precision method", filter_round},
    {"safe", "", filter_safe},
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"trim", "chars", filter_trim},
    {"truncate", "length killwords end leeway", filter_truncate},
    {"upper", "", filter_upper},
    {NULL, NULL, NULL},
};

const plim_jfunction *plim_jinja_find(const plim_jfunction *table, const plim_js *name)
{
    for (; table->name; table++)
        if (plim_js_is(name, table->name)) return table;
    return NULL;
}

const plim_jfunction *plim_jinja_filter(const plim_js *name)
{
    const plim_jfunction *found = plim_jinja_find(filters, name);
    return found ? found : plim_jinja_find(plim_jinja_list_filters, name);
}
