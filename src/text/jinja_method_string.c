/* jinja_method_string.c - decides what the methods of strings do. */
#include "text/jinja_machine.h"

#include <string.h>

#define METHOD(name)                                                                                         \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

static bool given(plim_jv v)
{
    return v.kind && v.kind != PLIM_JV_NONE;
}

/* ---- str: whole ---------------------------------------------------------------------------------------- */

#define CASE(name, how)                                                                                      \
    METHOD(name)                                                                                             \
    {                                                                                                        \
        (void)args;                                                                                          \
        (void)call;                                                                                          \
        return plim_jm_case(m, self.u.s, how, out);                                                          \
    }

CASE(str_upper, 'u')
CASE(str_lower, 'l')
CASE(str_title, 't')
CASE(str_capitalize, 'c')
CASE(str_swapcase, 's')

#define STRIP(name, left, right)                                                                             \
    METHOD(name)                                                                                             \
    {                                                                                                        \
        const plim_js *chars = NULL;                                                                         \
        (void)call;                                                                                          \
        if (given(args[0])) TRY(plim_jm_need_string(m, "strip", args[0], &chars));                           \
        return plim_jm_strip(m, self.u.s, chars, left, right, out);                                          \
    }

STRIP(str_strip, true, true)
STRIP(str_lstrip, true, false)
STRIP(str_rstrip, false, true)

#define PAD(name, where)                                                                                     \
    METHOD(name)                                                                                             \
    {                                                                                                        \
        const plim_js *fill = NULL;                                                                          \
        int64_t width = 0;                                                                                   \
        (void)call;                                                                                          \
        TRY(plim_jm_need_int(m, #name, args[0], &width));                                                    \
        if (args[1].kind) TRY(plim_jm_need_string(m, #name, args[1], &fill));                                \
        return plim_jm_pad(m, self.u.s, width, fill, where, out);                                            \
    }

PAD(str_center, 'c')
PAD(str_ljust, 'l')
PAD(str_rjust, 'r')

METHOD(str_zfill)
{
    const plim_js *zero = NULL;
    const plim_js *s = self.u.s;
    plim_jv sign, rest;
    int64_t width = 0;
    size_t signs = s->bytes > 0 && (s->text[0] == '-' || s->text[0] == '+');
    (void)call;
    TRY(plim_jm_need_int(m, "zfill", args[0], &width));
    TRY(plim_js_make(m->pool, "0", 1, plim_jrun_template(m->at, m->turn), &zero));
    TRY(plim_js_part(m->pool, s, 0, signs, &sign));
    TRY(plim_js_part(m->pool, s, signs, s->bytes, &rest));
    TRY(plim_jm_pad(m, rest.u.s, width - (int64_t)signs, zero, 'r', &rest));
    return plim_js_join2(m->pool, sign.u.s, rest.u.s, s->markup, out);
}

METHOD(str_replace)
{
    const plim_js *from = NULL, *to = NULL;
    int64_t most = -1;
    (void)call;
    TRY(plim_jm_need_string(m, "replace", args[0], &from));
    TRY(plim_jm_need_string(m, "replace", args[1], &to));
    if (args[2].kind) TRY(plim_jm_need_int(m, "replace", args[2], &most));
    return plim_jm_replace(m, self.u.s, from, to, most, out);
}

METHOD(str_join)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    (void)call;
    TRY(plim_jm_items(m, args[0], &items, &count));
    return plim_jm_join(m, self.u.s, items, count, false, out);
}

/* ---- str: finding -------------------------------------------------------------------------------------- */

/* The part that start and end leave, as byte places. */
static plim_status window(plim_jm *m, const plim_js *s, plim_jv start, plim_jv end, size_t *from, size_t *to,
                          bool *out)
{
    int64_t a = 0, b = (int64_t)s->chars, count = b;
    if (given(start)) TRY(plim_jm_need_int(m, "start", start, &a));
    if (given(end)) TRY(plim_jm_need_int(m, "end", end, &b));
    if (a < 0) a = a + count < 0 ? 0 : a + count;
    if (b < 0) b = b + count < 0 ? 0 : b + count;
    if (b > count) b = count;
    *out = a > b;
    *from = plim_js_offset(s, (size_t)a);
    *to = plim_js_offset(s, (size_t)b);
    return plim_pool_step(m->pool, s->bytes);
}

static bool edge_is(const plim_js *s, size_t from, size_t to, const plim_js *part, bool at_end)
{
    if (part->bytes > to - from) return false;
    return !memcmp(s->text + (at_end ? to - part->bytes : from), part->text, part->bytes);
}

static plim_status edge(plim_jm *m, plim_jv self, const plim_jv *args, bool at_end, plim_jv *out)
{
    const plim_jv *parts = &args[0];
    size_t count = 1, from = 0, to = 0;
    bool holds = false, outside = false;
    TRY(window(m, self.u.s, args[1], args[2], &from, &to, &outside));
    if (args[0].kind == PLIM_JV_TUPLE) TRY(plim_jm_items(m, args[0], &parts, &count));
    for (size_t i = 0; i < count; i++) {
        const plim_js *part = NULL;
        if (parts[i].kind != PLIM_JV_STRING && parts[i].kind != PLIM_JV_UNDEFINED)
            return plim_jm_fail(m, PLIM_E_FORMAT, "%s first arg must be str or a tuple of str, not %s",
                                at_end ? "endswith" : "startswith", plim_jv_type(parts[i]));
        TRY(plim_jm_need_string(m, "startswith", parts[i], &part));
        holds = holds || (!outside && edge_is(self.u.s, from, to, part, at_end));
    }
    *out = plim_jv_bool(holds);
    return PLIM_OK;
}

METHOD(str_startswith)
{
    (void)call;
    return edge(m, self, args, false, out);
}

METHOD(str_endswith)
{
    (void)call;
    return edge(m, self, args, true, out);
}

static int64_t chars_before(const plim_js *s, size_t at)
{
    int64_t n = 0;
    if (s->bytes == s->chars) return (int64_t)at;
    for (size_t i = 0; i < at; i++) n += ((unsigned char)s->text[i] & 0xc0) != 0x80;
    return n;
}

static plim_status find(plim_jm *m, plim_jv self, const plim_jv *args, bool last, bool must, plim_jv *out)
{
    const plim_js *part = NULL;
    size_t from = 0, to = 0, at = SIZE_MAX;
    bool outside = false;
    TRY(plim_jm_need_string(m, "find", args[0], &part));
    TRY(window(m, self.u.s, args[1], args[2], &from, &to, &outside));
    if (!outside && !last) at = plim_js_find(self.u.s, part, from);
    if (!outside && last) {
        TRY(plim_pool_step(m->pool, self.u.s->bytes * (part->bytes < 64 ? part->bytes + 1 : 64)));
        at = plim_js_find_last(self.u.s, part, to);
    }
    if (at != SIZE_MAX && (at < from || part->bytes > to || at > to - part->bytes)) at = SIZE_MAX;
    if (at == SIZE_MAX && must) return plim_jm_fail(m, PLIM_E_FORMAT, "substring not found");
    *out = plim_jv_int(at == SIZE_MAX ? -1 : chars_before(self.u.s, at));
    return PLIM_OK;
}

#define FIND(name, last, must)                                                                               \
    METHOD(name)                                                                                             \
    {                                                                                                        \
        (void)call;                                                                                          \
        return find(m, self, args, last, must, out);                                                         \
    }

FIND(str_find, false, false)
FIND(str_rfind, true, false)
FIND(str_index, false, true)
FIND(str_rindex, true, true)

METHOD(str_count)
{
    const plim_js *part = NULL;
    size_t from = 0, to = 0;
    int64_t n = 0;
    bool outside = false;
    (void)call;
    TRY(plim_jm_need_string(m, "count", args[0], &part));
    TRY(window(m, self.u.s, args[1], args[2], &from, &to, &outside));
    if (!part->bytes) n = outside ? 0 : chars_before(self.u.s, to) - chars_before(self.u.s, from) + 1;
    for (size_t hit; part->bytes && !outside && (hit = plim_js_find(self.u.s, part, from)) != SIZE_MAX &&
                     hit + part->bytes <= to;
         n++)
        from = hit + part->bytes;
    *out = plim_jv_int(n);
    return PLIM_OK;
}

METHOD(str_removeprefix)
{
    const plim_js *part = NULL, *s = self.u.s;
    (void)call;
    TRY(plim_jm_need_string(m, "removeprefix", args[0], &part));
    return plim_js_part(m->pool, s, edge_is(s, 0, s->bytes, part, false) ? part->bytes : 0, s->bytes, out);
}

METHOD(str_removesuffix)
{
    const plim_js *part = NULL, *s = self.u.s;
    (void)call;
    TRY(plim_jm_need_string(m, "removesuffix", args[0], &part));
    return plim_js_part(m->pool, s, 0,
                        edge_is(s, 0, s->bytes, part, true) ? s->bytes - part->bytes : s->bytes, out);
}

/* ---- str: dividing ------------------------------------------------------------------------------------- */

typedef struct pieces {
    plim_jm *m;
    const plim_js *s;
    plim_jv *items;
    size_t count, cap;
} pieces;

static plim_status piece(pieces *p, size_t begin, size_t end)
{
    if (p->count == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 4;
        plim_jv *more = NULL;
        TRY(plim_pool_take(p->m->pool, cap, sizeof *more, &more));
        if (p->count) memcpy(more, p->items, p->count * sizeof *more);
        p->items = more;
        p->cap = cap;
    }
    return plim_js_part(p->m->pool, p->s, begin, end, &p->items[p->count++]);
}

static plim_status pieces_done(pieces *p, bool backwards, plim_jv *out)
{
    plim_jv *items = NULL;
    TRY(plim_jv_list(p->m->pool, PLIM_JV_LIST, p->count, &items, out));
    for (size_t i = 0; i < p->count; i++) items[i] = p->items[backwards ? p->count - 1 - i : i];
    return PLIM_OK;
}

/* Between white space: no empty pieces. */
static plim_status split_space(pieces *p, int64_t most)
{
    const plim_js *s = p->s;
    for (size_t at = 0, n = 0;;) {
        while (at < s->bytes && plim_jinja_space(plim_utf8_decode(s->text + at, s->bytes - at, &n))) at += n;
        if (at == s->bytes) return PLIM_OK;
        size_t from = at;
        if (most-- == 0) return piece(p, from, s->bytes);
        while (at < s->bytes && !plim_jinja_space(plim_utf8_decode(s->text + at, s->bytes - at, &n))) at += n;
        TRY(piece(p, from, at));
    }
}

static size_t space_before(const plim_js *s, size_t end, bool space)
{
    while (end > 0) {
        size_t last = end - 1, n = 0;
        while (last > 0 && ((unsigned char)s->text[last] & 0xc0) == 0x80) last--;
        if (plim_jinja_space(plim_utf8_decode(s->text + last, end - last, &n)) != space) break;
        end = last;
    }
    return end;
}

static plim_status rsplit_space(pieces *p, int64_t most)
{
    for (size_t end = p->s->bytes;;) {
        end = space_before(p->s, end, true);
        if (end == 0) return PLIM_OK;
        if (most-- == 0) return piece(p, 0, end);
        size_t from = space_before(p->s, end, false);
        TRY(piece(p, from, end));
        end = from;
    }
}

static plim_status split(plim_jm *m, plim_jv self, const plim_jv *args, bool right, plim_jv *out)
{
    pieces p = {.m = m, .s = self.u.s};
    const plim_js *by = NULL;
    int64_t most = -1;
    if (args[1].kind) TRY(plim_jm_need_int(m, "split", args[1], &most));
    TRY(plim_pool_step(m->pool, p.s->bytes));
    if (!given(args[0])) {
        TRY(right ? rsplit_space(&p, most) : split_space(&p, most));
        return pieces_done(&p, right, out);
    }
    TRY(plim_jm_need_string(m, "split", args[0], &by));
    if (!by->bytes) return plim_jm_fail(m, PLIM_E_FORMAT, "empty separator");
    size_t at = right ? p.s->bytes : 0;
    for (; most != 0; most--) {
        if (right) TRY(plim_pool_step(m->pool, at));
        size_t hit = right ? plim_js_find_last(p.s, by, at) : plim_js_find(p.s, by, at);
        if (hit == SIZE_MAX) break;
        TRY(right ? piece(&p, hit + by->bytes, at) : piece(&p, at, hit));
        at = right ? hit : hit + by->bytes;
    }
    TRY(right ? piece(&p, 0, at) : piece(&p, at, p.s->bytes));
    return pieces_done(&p, right, out);
}

METHOD(str_split)
{
    (void)call;
    return split(m, self, args, false, out);
}

METHOD(str_rsplit)
{
    (void)call;
    return split(m, self, args, true, out);
}

METHOD(str_splitlines)
{
    pieces p = {.m = m, .s = self.u.s};
    const plim_js *s = self.u.s;
    size_t from = 0;
    (void)call;
    for (size_t at = 0, n = 0; at < s->bytes; at += n) {
        uint32_t c = plim_utf8_decode(s->text + at, s->bytes - at, &n);
        if (!((c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029))
            continue;
        if (c == '\r' && at + 1 < s->bytes && s->text[at + 1] == '\n') n = 2;
        TRY(piece(&p, from, plim_jv_true(args[0]) ? at + n : at));
        from = at + n;
    }
    if (from < s->bytes) TRY(piece(&p, from, s->bytes));
    return pieces_done(&p, false, out);
}

static plim_status partition(plim_jm *m, plim_jv self, const plim_jv *args, bool right, plim_jv *out)
{
    const plim_js *by = NULL, *s = self.u.s;
    plim_jv *items = NULL;
    TRY(plim_jm_need_string(m, "partition", args[0], &by));
    if (!by->bytes) return plim_jm_fail(m, PLIM_E_FORMAT, "empty separator");
    TRY(plim_pool_step(m->pool, s->bytes * (right && by->bytes < 64 ? by->bytes : 64)));
    size_t hit = right ? plim_js_find_last(s, by, s->bytes) : plim_js_find(s, by, 0);
    size_t a = hit != SIZE_MAX ? hit : right ? 0 : s->bytes, b = hit != SIZE_MAX ? hit + by->bytes : a;
    TRY(plim_jv_list(m->pool, PLIM_JV_TUPLE, 3, &items, out));
    TRY(plim_js_part(m->pool, s, 0, a, &items[0]));
    TRY(plim_js_part(m->pool, s, a, b, &items[1]));
    return plim_js_part(m->pool, s, b, s->bytes, &items[2]);
}

METHOD(str_partition)
{
    (void)call;
    return partition(m, self, args, false, out);
}

METHOD(str_rpartition)
{
    (void)call;
    return partition(m, self, args, true, out);
}

/* ---- str: what it is made of --------------------------------------------------------------------------- */

/* 'a' letters, 'd' digits, 'b' both, 's' white space, 'l' and 'u' case. */
static plim_status made_of(plim_jm *m, plim_jv self, char what, plim_jv *out)
{
    const plim_js *s = self.u.s;
    bool all = s->bytes > 0, some = false;
    TRY(plim_pool_step(m->pool, s->bytes));
    for (size_t at = 0, n = 0; at < s->bytes; at += n) {
        uint32_t c = plim_utf8_decode(s->text + at, s->bytes - at, &n), to[3];
        bool cased = plim_jinja_cased(c), digit = c >= '0' && c <= '9';
        if (what == 'l' || what == 'u') {
            if (!cased) continue;
            some = true;
            all = all && plim_jinja_case(c, what, to) == 1 && to[0] == c;
            continue;
        }
        some = true;
        if (what == 's') all = all && plim_jinja_space(c);
        else if (c >= 0x80 && !cased && !plim_jinja_space(c))
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED,
                                "whether U+%04X is a letter or a digit is not known to plimsoll", c);
        else all = all && ((what != 'd' && cased) || (what != 'a' && digit));
    }
    *out = plim_jv_bool(all && some);
    return PLIM_OK;
}

#define MADE_OF(name, what)                                                                                  \
    METHOD(name)                                                                                             \
    {                                                                                                        \
        (void)args;                                                                                          \
        (void)call;                                                                                          \
        return made_of(m, self, what, out);                                                                  \
    }

MADE_OF(str_isalpha, 'a')
MADE_OF(str_isdigit, 'd')
MADE_OF(str_isalnum, 'b')
MADE_OF(str_isspace, 's')
MADE_OF(str_islower, 'l')
MADE_OF(str_isupper, 'u')

const plim_jfunction plim_jinja_string_methods[] = {
    {"capitalize", "", str_capitalize},
    {"center", "width/ fillchar", str_center},
    {"count", "sub/ start end", str_count},
    {"endswith", "suffix/ start end", str_endswith},
    {"find", "sub/ start end", str_find},
    {"index", "sub/ start end", str_index},
    {"isalnum", "", str_isalnum},
    {"isalpha", "", str_isalpha},
    {"isdecimal", "", str_isdigit},
    {"isdigit", "", str_isdigit},
    {"islower", "", str_islower},
    {"isnumeric", "", str_isdigit},
    {"isspace", "", str_isspace},
    {"isupper", "", str_isupper},
    {"join", "iterable/", str_join},
    {"ljust", "width/ fillchar", str_ljust},
    {"lower", "", str_lower},
    {"lstrip", "chars", str_lstrip},
    {"partition", "sep/", str_partition},
    {"removeprefix", "prefix/", str_removeprefix},
    {"removesuffix", "suffix/", str_removesuffix},
    {"replace", "old new/ count", str_replace},
    {"rfind", "sub/ start end", str_rfind},
    {"rindex", "sub/ start end", str_rindex},
    {"rjust", "width/ fillchar", str_rjust},
    {"rpartition", "sep/", str_rpartition},
    {"rsplit", "sep maxsplit", str_rsplit},
    {"rstrip", "chars", str_rstrip},
    {"split", "sep maxsplit", str_split},
    {"splitlines", "keepends", str_splitlines},
    {"startswith", "prefix/ start end", str_startswith},
    {"strip", "chars", str_strip},
    {"swapcase", "", str_swapcase},
    {"title", "", str_title},
    {"upper", "", str_upper},
    {"zfill", "width/", str_zfill},
    {NULL, NULL, NULL},
};
