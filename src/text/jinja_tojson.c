/* jinja_tojson.c - decides how a value is written as JSON: as transformers' tojson has it, which is Python's
 * json.dumps without ASCII escapes and without HTML escapes. */
#include "text/jinja_machine.h"

#include <math.h>
#include <string.h>

typedef struct writer {
    plim_jm *m;
    plim_jbuilder *b;
    const plim_js *indent;  /* NULL: one line */
    const char *item, *key; /* separators */
    size_t item_bytes, key_bytes;
    bool sort, ascii;
} writer;

static plim_status put(writer *w, const char *text, size_t bytes, plim_jv of)
{
    return plim_jbuilder_add(w->b, text, bytes, plim_jm_origin(w->m, of));
}

static plim_status write_value(writer *w, plim_jv v, size_t level);

/* A line end and level indents. */
static plim_status line(writer *w, size_t level, plim_jv of)
{
    if (!w->indent) return PLIM_OK;
    TRY(put(w, "\n", 1, of));
    for (size_t i = 0; i < level; i++) TRY(put(w, w->indent->text, w->indent->bytes, of));
    return PLIM_OK;
}

static plim_status escaped(writer *w, uint32_t c, plim_jrun run)
{
    char text[16];
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *hit = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (hit) snprintf(text, sizeof text, "\\%c", letters[hit - plain]);
    else if (c < 0x10000) snprintf(text, sizeof text, "\\u%04x", c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + ((c - 0x10000) & 0x3ff));
    return plim_jbuilder_add(w->b, text, strlen(text), run);
}

static plim_status write_string(writer *w, const plim_js *s, plim_jv of)
{
    size_t from = 0;
    plim_jrun edge = s->run_count ? plim_js_run_at(s, 0) : plim_jm_origin(w->m, of);
    TRY(plim_jbuilder_add(w->b, "\"", 1, edge));
    for (size_t at = 0, n = 0; at < s->bytes; at += n) {
        uint32_t c = plim_utf8_decode(s->text + at, s->bytes - at, &n);
        if (c >= 0x20 && c != '"' && c != '\\' && !(w->ascii && c >= 0x7f)) continue;
        TRY(plim_jbuilder_add_part(w->b, s, from, at));
        TRY(escaped(w, c, plim_js_run_at(s, at)));
        from = at + n;
    }
    TRY(plim_jbuilder_add_part(w->b, s, from, s->bytes));
    return plim_jbuilder_add(w->b, "\"", 1, edge);
}

static plim_status write_number(writer *w, plim_jv v)
{
    char text[40];
    if (v.kind == PLIM_JV_INT) snprintf(text, sizeof text, "%lld", (long long)v.u.i);
    else if (isnan(v.u.f)) snprintf(text, sizeof text, "NaN");
    else if (isinf(v.u.f)) snprintf(text, sizeof text, v.u.f < 0 ? "-Infinity" : "Infinity");
    else plim_jinja_float_text(text, v.u.f);
    return put(w, text, strlen(text), v);
}

static plim_status write_list(writer *w, plim_jv v, size_t level)
{
    const plim_jlist *list = v.u.list;
    TRY(put(w, "[", 1, v));
    for (size_t i = 0; i < list->count; i++) {
        if (i) TRY(put(w, w->item, w->item_bytes, v));
        TRY(line(w, level + 1, v));
        TRY(write_value(w, list->items[i], level + 1));
    }
    if (list->count) TRY(line(w, level, v));
    return put(w, "]", 1, v);
}

/* Keys of numbers and words become strings, as json.dumps does it. */
static plim_status write_key(writer *w, plim_jv key, plim_jv of)
{
    plim_jbuilder text = {.pool = w->m->pool}, *whole = w->b;
    plim_jv made;
    if (key.kind == PLIM_JV_STRING) return write_string(w, key.u.s, of);
    if (key.kind != PLIM_JV_NONE && !plim_jv_is_number(key))
        return plim_jm_fail(w->m, PLIM_E_FORMAT, "keys must be str, int, float, bool or None, not %s",
                            plim_jv_type(key));
    w->b = &text;
    plim_status st = write_value(w, key, 0);
    w->b = whole;
    if (!st) st = plim_jbuilder_done(&text, false, &made);
    return st ? st : write_string(w, made.u.s, of);
}

static plim_status write_dict(writer *w, plim_jv v, size_t level)
{
    const plim_jdict *d = v.u.dict;
    plim_jv *places = NULL, *keys = NULL, list;
    TRY(plim_jv_list(w->m->pool, PLIM_JV_LIST, d->count, &places, &list));
    TRY(plim_jv_list(w->m->pool, PLIM_JV_LIST, d->count, &keys, &list));
    for (size_t i = 0; i < d->count; i++) {
        places[i] = plim_jv_int((int64_t)i);
        keys[i] = d->pairs[i].key;
    }
    if (w->sort) TRY(plim_jm_sort(w->m, places, keys, d->count, false));
    TRY(put(w, "{", 1, v));
    for (size_t i = 0; i < d->count; i++) {
        const plim_jpair *pair = &d->pairs[places[i].u.i];
        if (i) TRY(put(w, w->item, w->item_bytes, v));
        TRY(line(w, level + 1, v));
        TRY(write_key(w, pair->key, v));
        TRY(put(w, w->key, w->key_bytes, v));
        TRY(write_value(w, pair->value, level + 1));
    }
    if (d->count) TRY(line(w, level, v));
    return put(w, "}", 1, v);
}

static plim_status value_inner(writer *w, plim_jv v, size_t level)
{
    switch ((plim_jv_kind)v.kind) {
    case PLIM_JV_NONE: return put(w, "null", 4, v);
    case PLIM_JV_BOOL: return put(w, v.u.b ? "true" : "false", v.u.b ? 4 : 5, v);
    case PLIM_JV_INT:
    case PLIM_JV_FLOAT: return write_number(w, v);
    case PLIM_JV_STRING: return write_string(w, v.u.s, v);
    case PLIM_JV_LIST:
    case PLIM_JV_TUPLE: return write_list(w, v, level);
    case PLIM_JV_DICT: return write_dict(w, v, level);
    default:
        return plim_jm_fail(w->m, PLIM_E_FORMAT, "Object of type %s is not JSON serializable",
                            plim_jv_type(v));
    }
}

static plim_status write_value(writer *w, plim_jv v, size_t level)
{
    TRY(plim_pool_step(w->m->pool, 0));
    TRY(plim_jm_enter(w->m));
    plim_status st = value_inner(w, v, level);
    w->m->depth--;
    return st;
}

static plim_status set_indent(writer *w, plim_jv indent)
{
    int64_t width = 0;
    char *blanks = NULL;
    if (!indent.kind || indent.kind == PLIM_JV_NONE) return PLIM_OK;
    w->item = ",";
    w->item_bytes = 1;
    if (indent.kind == PLIM_JV_STRING) {
        w->indent = indent.u.s;
        return PLIM_OK;
    }
    TRY(plim_jm_need_int(w->m, "tojson", indent, &width));
    if (width < 0) width = 0;
    if (width > 1000)
        return plim_jm_fail(w->m, PLIM_E_RANGE, "tojson: an indent of %lld blanks", (long long)width);
    TRY(plim_pool_take(w->m->pool, (size_t)width + 1, 1, &blanks));
    memset(blanks, ' ', (size_t)width);
    return plim_js_make(w->m->pool, blanks, (size_t)width, plim_jrun_template(w->m->at, w->m->turn),
                        &w->indent);
}

plim_status plim_jm_tojson(plim_jm *m, plim_jv v, const plim_jv args[PLIM_JARGS], plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    writer w = {.m = m, .b = &b, .item = ", ", .item_bytes = 2, .key = ": ", .key_bytes = 2};
    plim_jv ensure_ascii = args[0], indent = args[1], separators = args[2], sort_keys = args[3];
    w.ascii = plim_jv_true(ensure_ascii);
    w.sort = plim_jv_true(sort_keys);
    TRY(set_indent(&w, indent));
    if (separators.kind && separators.kind != PLIM_JV_NONE) {
        const plim_js *item = NULL, *key = NULL;
        if (!plim_jv_is_list(separators) || separators.u.list->count != 2)
            return plim_jm_fail(m, PLIM_E_FORMAT, "tojson: separators is a pair of strings, as (',', ':')");
        TRY(plim_jm_need_string(m, "tojson", separators.u.list->items[0], &item));
        TRY(plim_jm_need_string(m, "tojson", separators.u.list->items[1], &key));
        w.item = item->text;
        w.item_bytes = item->bytes;
        w.key = key->text;
        w.key_bytes = key->bytes;
    }
    TRY(write_value(&w, v, 0));
    return plim_jbuilder_done(&b, false, out);
}
