/* jinja_access.c - decides what a name, an attribute, an item or a slice of a value is; what is not there is
 * undefined and says so when it is used. */
#include "text/jinja_machine.h"

#include <stdarg.h>
#include <string.h>

plim_status plim_jm_undefined(plim_jm *m, plim_jv *out, const char *fmt, ...)
{
    char text[400], *kept = NULL;
    const plim_js *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t bytes = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    while (bytes && n >= (int)sizeof text && ((unsigned char)text[bytes - 1] & 0xc0) == 0x80) bytes--;
    TRY(plim_pool_take(m->pool, bytes + 1, 1, &kept));
    memcpy(kept, text, bytes);
    TRY(plim_js_make(m->pool, kept, bytes, plim_jrun_template(m->at, m->turn), &s));
    *out = (plim_jv){.kind = PLIM_JV_UNDEFINED, .message = -1, .u.s = s};
    return PLIM_OK;
}

#define SHOWN(s) (int)((s)->bytes > 100 ? 100 : (s)->bytes), (s)->text

static plim_status no_attribute(plim_jm *m, plim_jv of, const plim_js *name, plim_jv *out)
{
    if (of.kind == PLIM_JV_NONE)
        return plim_jm_undefined(m, out, "'None' has no attribute '%.*s'", SHOWN(name));
    return plim_jm_undefined(m, out, "'%s object' has no attribute '%.*s'",
                             of.kind == PLIM_JV_NAMESPACE ? "jinja2.utils.Namespace"
                             : of.kind == PLIM_JV_LOOP    ? "jinja2.runtime.LoopContext"
                                                          : plim_jv_type(of),
                             SHOWN(name));
}

static plim_status loop_attribute(plim_jm *m, plim_jv of, const plim_js *name, plim_jv *out)
{
    const plim_jloop *l = of.u.loop;
    int64_t index = (int64_t)l->index, count = (int64_t)l->count;
    if (plim_js_is(name, "index")) *out = plim_jv_int(index + 1);
    else if (plim_js_is(name, "index0")) *out = plim_jv_int(index);
    else if (plim_js_is(name, "revindex")) *out = plim_jv_int(count - index);
    else if (plim_js_is(name, "revindex0")) *out = plim_jv_int(count - index - 1);
    else if (plim_js_is(name, "length")) *out = plim_jv_int(count);
    else if (plim_js_is(name, "first")) *out = plim_jv_bool(index == 0);
    else if (plim_js_is(name, "last")) *out = plim_jv_bool(index + 1 == count);
    else if (plim_js_is(name, "depth")) *out = plim_jv_int(1);
    else if (plim_js_is(name, "depth0")) *out = plim_jv_int(0);
    else if (plim_js_is(name, "previtem")) {
        if (index == 0) return plim_jm_undefined(m, out, "there is no previous item");
        *out = l->items[index - 1];
    } else if (plim_js_is(name, "nextitem")) {
        if (index + 1 == count) return plim_jm_undefined(m, out, "there is no next item");
        *out = l->items[index + 1];
    } else *out = (plim_jv){0};
    return PLIM_OK;
}

/* A method, or PLIM_JV_MISSING. */
static plim_status method(plim_jm *m, plim_jv of, const plim_js *name, plim_jv *out)
{
    const plim_jfunction *function = plim_jinja_method(of, name);
    plim_jmethod *bound = NULL;
    *out = (plim_jv){0};
    if (!function) {
        if (plim_jinja_method_unsafe(of, name))
            return plim_jm_undefined(m, out, "access to attribute '%.*s' of '%s' object is unsafe.",
                                     SHOWN(name), plim_jv_type(of));
        if (plim_jinja_method_unknown(of, name))
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "the method %s.%.*s is not known to plimsoll",
                                plim_jv_type(of), SHOWN(name));
        return PLIM_OK;
    }
    TRY(plim_pool_take(m->pool, 1, sizeof *bound, &bound));
    *bound = (plim_jmethod){of, function};
    *out = (plim_jv){.kind = PLIM_JV_METHOD, .message = -1, .u.method = bound};
    return PLIM_OK;
}

static plim_status member(plim_jm *m, plim_jv of, plim_jv key, plim_jv *out)
{
    const plim_jpair *pair = NULL;
    *out = (plim_jv){0};
    if (key.kind == PLIM_JV_LIST || key.kind == PLIM_JV_DICT || key.kind == PLIM_JV_UNDEFINED) return PLIM_OK;
    TRY(plim_jdict_find(m->pool, of.u.dict, key, &pair));
    if (pair) *out = pair->value;
    return PLIM_OK;
}

plim_status plim_jm_attr(plim_jm *m, plim_jv of, const plim_js *name, plim_jv *out)
{
    plim_jv found = {0};
    TRY(plim_jm_use(m, of));
    if (of.kind == PLIM_JV_LOOP) TRY(loop_attribute(m, of, name, &found));
    if (of.kind == PLIM_JV_NAMESPACE) TRY(member(m, of, plim_jv_string(name), &found));
    if (of.kind == PLIM_JV_MACRO && plim_js_is(name, "name")) found = plim_jv_string(of.u.macro->node->name);
    /* a key with two underscores is no attribute of Python's, most likely */
    if (of.kind == PLIM_JV_DICT && name->bytes > 1 && !memcmp(name->text, "__", 2))
        TRY(member(m, of, plim_jv_string(name), &found));
    if (!found.kind) TRY(method(m, of, name, &found));
    if (!found.kind && of.kind == PLIM_JV_DICT) TRY(member(m, of, plim_jv_string(name), &found));
    if (!found.kind) return no_attribute(m, of, name, out);
    *out = found;
    return PLIM_OK;
}

static plim_status item_at(plim_jm *m, plim_jv of, int64_t index, plim_jv *out)
{
    int64_t count = 0;
    *out = (plim_jv){0};
    TRY(plim_jm_length(m, of, &count));
    if (index < 0) index += count;
    if (index < 0 || index >= count) return PLIM_OK;
    if (of.kind == PLIM_JV_RANGE) *out = plim_jv_int(of.u.range->first + index * of.u.range->step);
    else if (of.kind != PLIM_JV_STRING) *out = of.u.list->items[index];
    else {
        TRY(plim_pool_step(m->pool, of.u.s->bytes == of.u.s->chars ? 0 : (size_t)index));
        size_t at = plim_js_offset(of.u.s, (size_t)index), n = 0;
        plim_utf8_decode(of.u.s->text + at, of.u.s->bytes - at, &n);
        return plim_js_part(m->pool, of.u.s, at, at + n, out);
    }
    return PLIM_OK;
}

plim_status plim_jm_item(plim_jm *m, plim_jv of, plim_jv key, plim_jv *out)
{
    int64_t index = 0;
    plim_jv found = {0};
    TRY(plim_jm_use(m, of));
    if (of.kind == PLIM_JV_DICT) TRY(member(m, of, key, &found));
    else if (of.kind == PLIM_JV_STRING || plim_jv_is_list(of) || of.kind == PLIM_JV_RANGE)
        if (plim_jv_as_int(key, &index)) TRY(item_at(m, of, index, &found));
    if (!found.kind && key.kind == PLIM_JV_STRING) {
        if (of.kind != PLIM_JV_DICT) return plim_jm_attr(m, of, key.u.s, out);
        TRY(method(m, of, key.u.s, &found));
        if (!found.kind) return no_attribute(m, of, key.u.s, out);
    }
    if (found.kind) {
        *out = found;
        return PLIM_OK;
    }
    if (key.kind == PLIM_JV_UNDEFINED && of.kind != PLIM_JV_DICT) TRY(plim_jm_use(m, key));
    plim_jv text;
    TRY(plim_jm_text(m, key, &text));
    if (of.kind == PLIM_JV_NONE)
        return plim_jm_undefined(m, out, "None has no element %.*s", SHOWN(text.u.s));
    return plim_jm_undefined(m, out, "%s object has no element %.*s", plim_jv_type(of), SHOWN(text.u.s));
}

/* Python's slice.indices: how many items, from which, in which steps. */
static plim_status bounds(plim_jm *m, int64_t count, plim_jv first, plim_jv end, plim_jv step,
                          plim_jrange *out)
{
    int64_t by = 1, from = 0, to = 0;
    const plim_jv parts[] = {first, end, step};
    for (int i = 0; i < 3; i++) {
        int64_t ignored;
        if (parts[i].kind == PLIM_JV_UNDEFINED) TRY(plim_jm_use(m, parts[i]));
        if (parts[i].kind && parts[i].kind != PLIM_JV_NONE && !plim_jv_as_int(parts[i], &ignored))
            return plim_jm_fail(m, PLIM_E_FORMAT,
                                "slice indices must be integers or None or have an __index__ method");
    }
    plim_jv_as_int(step, &by);
    if (!by) return plim_jm_fail(m, PLIM_E_FORMAT, "slice step cannot be zero");
    int64_t low = by > 0 ? 0 : -1, high = by > 0 ? count : count - 1;
    if (!plim_jv_as_int(first, &from)) from = by > 0 ? low : high;
    else {
        if (from < 0) from += count;
        from = from < low ? low : from > high ? high : from;
    }
    if (!plim_jv_as_int(end, &to)) to = by > 0 ? high : low;
    else {
        if (to < 0) to += count;
        to = to < low ? low : to > high ? high : to;
    }
    uint64_t span =
        by > 0 ? (to > from ? (uint64_t)(to - from) : 0) : (from > to ? (uint64_t)(from - to) : 0);
    uint64_t stride = by > 0 ? (uint64_t)by : 0 - (uint64_t)by;
    *out = (plim_jrange){from, by, to, span ? (size_t)((span - 1) / stride + 1) : 0};
    return PLIM_OK;
}

plim_status plim_jm_slice(plim_jm *m, plim_jv of, plim_jv first, plim_jv end, plim_jv step, plim_jv *out)
{
    int64_t count = 0;
    plim_jrange r = {0};
    TRY(plim_jm_use(m, of));
    if (of.kind != PLIM_JV_STRING && !plim_jv_is_list(of) && of.kind != PLIM_JV_RANGE)
        return of.kind == PLIM_JV_DICT
                   ? plim_jm_fail(m, PLIM_E_FORMAT, "unhashable type: 'slice'")
                   : plim_jm_fail(m, PLIM_E_FORMAT, "'%s' object is not subscriptable", plim_jv_type(of));
    TRY(plim_jm_length(m, of, &count));
    TRY(bounds(m, count, first, end, step, &r));
    if (of.kind == PLIM_JV_STRING) {
        const plim_js *s = of.u.s;
        plim_jbuilder b = {.pool = m->pool};
        TRY(plim_pool_step(m->pool, s->bytes));
        if (r.step == 1 || !r.count) {
            size_t from = r.count ? (size_t)r.first : 0;
            return plim_js_part(m->pool, s, plim_js_offset(s, from), plim_js_offset(s, from + r.count), out);
        }
        size_t at = plim_js_offset(s, (size_t)r.first), place = (size_t)r.first;
        for (size_t i = 0; i < r.count; i++) {
            size_t want = (size_t)(r.first + (int64_t)i * r.step), n = 0;
            TRY(plim_pool_step(m->pool, want > place ? want - place : place - want));
            for (; place < want; place++) do
                    at++;
                while (((unsigned char)s->text[at] & 0xc0) == 0x80);
            for (; place > want; place--) do
                    at--;
                while (((unsigned char)s->text[at] & 0xc0) == 0x80);
            plim_utf8_decode(s->text + at, s->bytes - at, &n);
            TRY(plim_jbuilder_add_part(&b, s, at, at + n));
        }
        return plim_jbuilder_done(&b, s->markup, out);
    }
    plim_jv *items = NULL;
    TRY(plim_jv_list(m->pool, of.kind == PLIM_JV_TUPLE ? PLIM_JV_TUPLE : PLIM_JV_LIST, r.count, &items, out));
    out->origin = of.origin;
    out->message = of.message;
    for (size_t i = 0; i < r.count; i++) TRY(item_at(m, of, r.first + (int64_t)i * r.step, &items[i]));
    return PLIM_OK;
}

plim_status plim_jm_length(plim_jm *m, plim_jv of, int64_t *out)
{
    switch ((plim_jv_kind)of.kind) {
    case PLIM_JV_UNDEFINED: *out = 0; return PLIM_OK;
    case PLIM_JV_STRING: *out = (int64_t)of.u.s->chars; return PLIM_OK;
    case PLIM_JV_LIST:
    case PLIM_JV_TUPLE: *out = (int64_t)of.u.list->count; return PLIM_OK;
    case PLIM_JV_DICT: *out = (int64_t)of.u.dict->count; return PLIM_OK;
    case PLIM_JV_RANGE: *out = (int64_t)of.u.range->count; return PLIM_OK;
    case PLIM_JV_LOOP: *out = (int64_t)of.u.loop->count; return PLIM_OK;
    default: return plim_jm_fail(m, PLIM_E_FORMAT, "object of type '%s' has no len()", plim_jv_type(of));
    }
}

plim_status plim_jm_items(plim_jm *m, plim_jv of, const plim_jv **items, size_t *count)
{
    int64_t n = 0;
    plim_jv list, *made = NULL;
    *items = NULL;
    *count = 0;
    if (of.kind == PLIM_JV_UNDEFINED) return PLIM_OK;
    if (plim_jv_is_list(of)) {
        *items = of.u.list->items;
        *count = of.u.list->count;
        return PLIM_OK;
    }
    if (of.kind != PLIM_JV_STRING && of.kind != PLIM_JV_DICT && of.kind != PLIM_JV_RANGE)
        return plim_jm_fail(m, PLIM_E_FORMAT, "'%s' object is not iterable", plim_jv_type(of));
    TRY(plim_jm_length(m, of, &n));
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, (size_t)n, &made, &list));
    plim_js *plain = NULL; /* characters of a marked string are not marked */
    if (of.kind == PLIM_JV_STRING) {
        TRY(plim_pool_take(m->pool, 1, sizeof *plain, &plain));
        *plain = *of.u.s;
        plain->markup = false;
    }
    for (size_t i = 0, at = 0, bytes = 0; i < (size_t)n; i++, at += bytes) {
        if (of.kind == PLIM_JV_DICT) made[i] = of.u.dict->pairs[i].key;
        else if (of.kind == PLIM_JV_RANGE)
            made[i] = plim_jv_int(of.u.range->first + (int64_t)i * of.u.range->step);
        else {
            plim_utf8_decode(plain->text + at, plain->bytes - at, &bytes);
            TRY(plim_js_part(m->pool, plain, at, at + bytes, &made[i]));
        }
    }
    *items = made;
    *count = (size_t)n;
    return PLIM_OK;
}

plim_status plim_jm_path(plim_jm *m, plim_jv of, plim_jv path, plim_jv *out)
{
    if (path.kind != PLIM_JV_STRING) return plim_jm_item(m, of, path, out);
    const plim_js *s = path.u.s;
    for (size_t at = 0; at <= s->bytes;) {
        const char *dot = memchr(s->text + at, '.', s->bytes - at);
        size_t end = dot ? (size_t)(dot - s->text) : s->bytes, i = at;
        int64_t index = 0;
        plim_jv part;
        TRY(plim_js_part(m->pool, s, at, end, &part));
        for (; i < end && s->text[i] >= '0' && s->text[i] <= '9' && index < INT32_MAX; i++)
            index = index * 10 + (s->text[i] - '0');
        if (i == end && end > at) part = plim_jv_int(index);
        TRY(plim_jm_item(m, of, part, &of));
        at = end + 1;
    }
    *out = of;
    return PLIM_OK;
}
