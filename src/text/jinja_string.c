/* jinja_string.c - decides what methods and filters of strings do alike; every byte keeps its origin. */
#include "text/jinja_machine.h"

#include <string.h>

static bool among(const plim_js *chars, uint32_t code)
{
    if (!chars) return plim_jinja_space(code);
    for (size_t at = 0, n = 0; at < chars->bytes; at += n)
        if (plim_utf8_decode(chars->text + at, chars->bytes - at, &n) == code) return true;
    return false;
}

plim_status plim_jm_strip(plim_jm *m, const plim_js *s, const plim_js *chars, bool left, bool right,
                          plim_jv *out)
{
    size_t begin = 0, end = s->bytes, n = 0, cost = chars ? chars->bytes + 1 : 1;
    while (left && begin < end && among(chars, plim_utf8_decode(s->text + begin, end - begin, &n))) {
        begin += n;
        TRY(plim_pool_step(m->pool, cost));
    }
    while (right && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)s->text[last] & 0xc0) == 0x80) last--;
        if (!among(chars, plim_utf8_decode(s->text + last, end - last, &n))) break;
        end = last;
        TRY(plim_pool_step(m->pool, cost));
    }
    return plim_js_part(m->pool, s, begin, end, out);
}

/* Title: upper behind what has no case; capitalise: the first; swap: the other one. */
static char case_of(char how, uint32_t code, bool first, bool after_cased)
{
    uint32_t up[3];
    switch (how) {
    case 't': return after_cased ? 'l' : 't';
    case 'c': return first ? 't' : 'l';
    case 's': return plim_jinja_case(code, 'u', up) == 1 && up[0] == code ? 'l' : 'u';
    default: return how;
    }
}

plim_status plim_jm_case(plim_jm *m, const plim_js *s, char how, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    bool after_cased = false;
    size_t run = 0, run_end = s->run_count ? s->runs[0].bytes : 0;
    for (size_t at = 0, n = 0; at < s->bytes; at += n) {
        uint32_t code = plim_utf8_decode(s->text + at, s->bytes - at, &n), to[3];
        while (at >= run_end && run + 1 < s->run_count) run_end += s->runs[++run].bytes;
        plim_jrun origin = s->runs[run];
        if (origin.origin == PLIM_ORIGIN_TEMPLATE) origin.template_at += at - (run_end - s->runs[run].bytes);
        size_t count = plim_jinja_case(code, case_of(how, code, at == 0, after_cased), to), bytes = 0;
        /* a capital sigma at the end of a word has a small letter of its own */
        if (code == 0x3a3 && to[0] == 0x3c3 && at > 0) {
            size_t next = 0;
            bool before = after_cased || how != 't', behind = false;
            if (at + n < s->bytes)
                behind = plim_jinja_cased(plim_utf8_decode(s->text + at + n, s->bytes - at - n, &next));
            size_t last = at - 1;
            while (last > 0 && ((unsigned char)s->text[last] & 0xc0) == 0x80) last--;
            before = before && plim_jinja_cased(plim_utf8_decode(s->text + last, at - last, &next));
            if (before && !behind) to[0] = 0x3c2;
        }
        char text[12];
        for (size_t i = 0; i < count; i++) bytes += plim_utf8_encode(text + bytes, to[i]);
        TRY(plim_jbuilder_add(&b, text, bytes, origin));
        if (how == 't') after_cased = plim_jinja_cased(code);
    }
    return plim_jbuilder_done(&b, s->markup, out);
}

plim_status plim_jm_replace(plim_jm *m, const plim_js *s, const plim_js *from, const plim_js *to,
                            int64_t most, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    size_t at = 0;
    if (s->markup) {
        plim_jv safe;
        TRY(plim_jm_escape(m, to, &safe));
        to = safe.u.s;
    }
    TRY(plim_pool_step(m->pool, s->bytes));
    if (!from->bytes) { /* between all characters, and at both ends */
        for (size_t n = 0; at <= s->bytes && most != 0; at += n, most -= most > 0) {
            TRY(plim_jbuilder_add_string(&b, to));
            if (at == s->bytes) break;
            plim_utf8_decode(s->text + at, s->bytes - at, &n);
            TRY(plim_jbuilder_add_part(&b, s, at, at + n));
        }
        if (at < s->bytes) TRY(plim_jbuilder_add_part(&b, s, at, s->bytes));
        return plim_jbuilder_done(&b, s->markup, out);
    }
    for (size_t hit; most != 0 && (hit = plim_js_find(s, from, at)) != SIZE_MAX; most -= most > 0) {
        TRY(plim_jbuilder_add_part(&b, s, at, hit));
        TRY(plim_jbuilder_add_string(&b, to));
        at = hit + from->bytes;
    }
    if (at == 0) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    TRY(plim_jbuilder_add_part(&b, s, at, s->bytes));
    return plim_jbuilder_done(&b, s->markup, out);
}

plim_status plim_jm_join(plim_jm *m, const plim_js *between, const plim_jv *items, size_t count, bool convert,
                         plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    for (size_t i = 0; i < count; i++) {
        plim_jv text = items[i];
        if (text.kind != PLIM_JV_STRING && !convert)
            return plim_jm_fail(m, PLIM_E_FORMAT, "sequence item %zu: expected str instance, %s found", i,
                                plim_jv_type(text));
        TRY(plim_jm_text(m, text, &text));
        if (between && between->markup) TRY(plim_jm_escape(m, text.u.s, &text));
        if (i && between) TRY(plim_jbuilder_add_string(&b, between));
        TRY(plim_jbuilder_add_string(&b, text.u.s));
    }
    return plim_jbuilder_done(&b, between && between->markup, out);
}

plim_status plim_jm_pad(plim_jm *m, const plim_js *s, int64_t width, const plim_js *fill, char where,
                        plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    if (fill && fill->chars != 1)
        return plim_jm_fail(m, PLIM_E_FORMAT, "The fill character must be exactly one character long");
    if (width < 0 || (uint64_t)width <= s->chars) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    if ((uint64_t)width > m->pool->limit_bytes)
        return plim_jm_fail(m, PLIM_E_RANGE, "a string of %lld characters takes too much memory",
                            (long long)width);
    size_t pad = (size_t)width - s->chars;
    size_t left = where == 'r' ? pad : where == 'l' ? 0 : pad / 2 + (pad & (size_t)width & 1);
    plim_jrun run = plim_jrun_template(m->at, m->turn);
    for (size_t i = 0; i < left; i++)
        TRY(plim_jbuilder_add(&b, fill ? fill->text : " ", fill ? fill->bytes : 1, run));
    TRY(plim_jbuilder_add_string(&b, s));
    for (size_t i = left; i < pad; i++)
        TRY(plim_jbuilder_add(&b, fill ? fill->text : " ", fill ? fill->bytes : 1, run));
    return plim_jbuilder_done(&b, s->markup, out);
}
