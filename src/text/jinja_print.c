/* jinja_print.c - decides how a value turns into text: as Python's str() and repr() write it. */
#include "text/jinja_machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

plim_jrun plim_jm_origin(const plim_jm *m, plim_jv v)
{
    plim_jrun run = plim_jrun_template(m->at, m->turn);
    if (v.origin == PLIM_ORIGIN_TEMPLATE) return run;
    run.template_at = 0;
    run.origin = (plim_origin)v.origin;
    run.message = v.message;
    return run;
}

/* The shortest digits that read back as f; the point lies before digit *point. */
static size_t shortest(double f, char digits[20], int *point)
{
    char text[40];
    int precision = 0;
    for (precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f) break;
    }
    size_t n = 0;
    const char *e = strchr(text, 'e');
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p; /* the point is the locale's */
    *point = atoi(e + 1) + 1;
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

size_t plim_jinja_float_text(char buf[40], double f)
{
    char digits[20];
    int point = 0;
    size_t n = 0;
    if (isnan(f)) return (size_t)snprintf(buf, 40, "nan");
    if (signbit(f)) buf[n++] = '-';
    if (isinf(f)) return n + (size_t)snprintf(buf + n, 40 - n, "inf");
    size_t count = shortest(fabs(f), digits, &point);
    if (point > 16 || point < -3) {
        buf[n++] = digits[0];
        if (count > 1) buf[n++] = '.';
        for (size_t i = 1; i < count; i++) buf[n++] = digits[i];
        int e = f == 0 ? 0 : point - 1;
        return n + (size_t)snprintf(buf + n, 40 - n, "e%c%02d", e < 0 ? '-' : '+', abs(e));
    }
    if (point <= 0) buf[n++] = '0';
    for (int i = point < 0 ? point : 0; i < (int)count || i <= point; i++) {
        if (i == point || (i < 0 && i == point)) buf[n++] = '.';
        buf[n++] = i < 0 || i >= (int)count ? '0' : digits[i];
        if (i >= point && i + 1 >= (int)count) break;
    }
    buf[n] = 0;
    return n;
}

static plim_status add(plim_jm *m, plim_jbuilder *b, const char *text, plim_jv of)
{
    return plim_jbuilder_add(b, text, strlen(text), plim_jm_origin(m, of));
}

/* A character that repr() writes as an escape. */
static bool unprintable(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || (c >= 0xd800 && c <= 0xf8ff) ||
           c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) || (c > 0x7f && c != 0x20 && plim_jinja_space(c)) ||
           c >= 0xe0000;
}

static plim_status repr_string(plim_jm *m, plim_jbuilder *b, const plim_js *s)
{
    bool single = memchr(s->text, '\'', s->bytes) != NULL, twice = memchr(s->text, '"', s->bytes) != NULL;
    char quote = single && !twice ? '"' : '\'', escape[16];
    plim_jrun first = s->run_count ? plim_js_run_at(s, 0) : plim_jrun_template(m->at, m->turn);
    TRY(plim_jbuilder_add(b, &quote, 1, first));
    size_t run = 0, run_end = s->run_count ? s->runs[0].bytes : 0;
    for (size_t at = 0, n = 0; at < s->bytes; at += n) {
        uint32_t c = plim_utf8_decode(s->text + at, s->bytes - at, &n);
        while (at >= run_end && run + 1 < s->run_count) run_end += s->runs[++run].bytes;
        plim_jrun origin = s->runs[run];
        if (origin.origin == PLIM_ORIGIN_TEMPLATE) origin.template_at += at - (run_end - s->runs[run].bytes);
        escape[0] = 0;
        if (c == '\\' || c == (uint32_t)quote) snprintf(escape, sizeof escape, "\\%c", (int)c);
        else if (c == '\n') snprintf(escape, sizeof escape, "\\n");
        else if (c == '\r') snprintf(escape, sizeof escape, "\\r");
        else if (c == '\t') snprintf(escape, sizeof escape, "\\t");
        else if (unprintable(c))
            snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        TRY(plim_jbuilder_add(b, *escape ? escape : s->text + at, *escape ? strlen(escape) : n, origin));
    }
    return plim_jbuilder_add(b, &quote, 1, first);
}

static plim_status repr_list(plim_jm *m, plim_jbuilder *b, plim_jv v)
{
    const plim_jlist *list = v.u.list;
    TRY(add(m, b, v.kind == PLIM_JV_LIST ? "[" : "(", v));
    for (size_t i = 0; i < list->count; i++) {
        if (i) TRY(add(m, b, ", ", v));
        TRY(plim_jm_repr(m, b, list->items[i]));
    }
    if (v.kind == PLIM_JV_TUPLE && list->count == 1) TRY(add(m, b, ",", v));
    return add(m, b, v.kind == PLIM_JV_LIST ? "]" : ")", v);
}

static plim_status repr_dict(plim_jm *m, plim_jbuilder *b, plim_jv v)
{
    const plim_jdict *d = v.u.dict;
    TRY(add(m, b, v.kind == PLIM_JV_NAMESPACE ? "<Namespace {" : "{", v));
    for (size_t i = 0; i < d->count; i++) {
        if (i) TRY(add(m, b, ", ", v));
        TRY(plim_jm_repr(m, b, d->pairs[i].key));
        TRY(add(m, b, ": ", v));
        TRY(plim_jm_repr(m, b, d->pairs[i].value));
    }
    return add(m, b, v.kind == PLIM_JV_NAMESPACE ? "}>" : "}", v);
}

static plim_status repr_inner(plim_jm *m, plim_jbuilder *b, plim_jv v)
{
    char text[80];
    const plim_jrange *r = v.u.range;
    switch ((plim_jv_kind)v.kind) {
    case PLIM_JV_MISSING:
    case PLIM_JV_UNDEFINED: return add(m, b, "Undefined", v);
    case PLIM_JV_NONE: return add(m, b, "None", v);
    case PLIM_JV_BOOL: return add(m, b, v.u.b ? "True" : "False", v);
    case PLIM_JV_INT: snprintf(text, sizeof text, "%lld", (long long)v.u.i); return add(m, b, text, v);
    case PLIM_JV_FLOAT: plim_jinja_float_text(text, v.u.f); return add(m, b, text, v);
    case PLIM_JV_STRING:
        if (v.u.s->markup) TRY(add(m, b, "Markup(", v));
        TRY(repr_string(m, b, v.u.s));
        return v.u.s->markup ? add(m, b, ")", v) : PLIM_OK;
    case PLIM_JV_LIST:
    case PLIM_JV_TUPLE: return repr_list(m, b, v);
    case PLIM_JV_DICT:
    case PLIM_JV_NAMESPACE: return repr_dict(m, b, v);
    case PLIM_JV_RANGE:
        snprintf(text, sizeof text, r->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                 (long long)r->first, (long long)r->end, (long long)r->step);
        return add(m, b, text, v);
    case PLIM_JV_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.u.loop->index + 1, v.u.loop->count);
        return add(m, b, text, v);
    case PLIM_JV_MACRO:
    case PLIM_JV_FUNCTION:
    case PLIM_JV_METHOD: break;
    }
    return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "a %s is printed; it has no text, call it with ()",
                        v.kind == PLIM_JV_MACRO ? "macro" : "function");
}

plim_status plim_jm_repr(plim_jm *m, plim_jbuilder *b, plim_jv v)
{
    TRY(plim_pool_step(m->pool, 0));
    TRY(plim_jm_enter(m));
    plim_status st = repr_inner(m, b, v);
    m->depth--;
    return st;
}

plim_status plim_jm_text(plim_jm *m, plim_jv v, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    if (v.kind == PLIM_JV_STRING) {
        *out = v;
        return PLIM_OK;
    }
    if (v.kind != PLIM_JV_UNDEFINED) TRY(plim_jm_repr(m, &b, v));
    return plim_jbuilder_done(&b, false, out);
}

plim_status plim_jm_escape(plim_jm *m, const plim_js *s, plim_jv *out)
{
    static const char special[] = "&<>'\"";
    static const char *const written[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    plim_jbuilder b = {.pool = m->pool};
    size_t from = 0;
    if (s->markup) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    TRY(plim_pool_step(m->pool, s->bytes));
    for (size_t at = 0; at < s->bytes; at++) {
        const char *hit = s->text[at] ? strchr(special, s->text[at]) : NULL;
        if (!hit) continue;
        TRY(plim_jbuilder_add_part(&b, s, from, at));
        const char *escape = written[hit - special];
        TRY(plim_jbuilder_add(&b, escape, strlen(escape), plim_js_run_at(s, at)));
        from = at + 1;
    }
    TRY(plim_jbuilder_add_part(&b, s, from, s->bytes));
    return plim_jbuilder_done(&b, true, out);
}
