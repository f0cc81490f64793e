/* jinja_value.c - decides how lists and dicts are kept, and what origin each value of a row has. */
#include "text/jinja_machine.h"

#include <string.h>

const char *plim_jv_type(plim_jv v)
{
    static const char *const names[] = {
        [PLIM_JV_MISSING] = "Undefined", [PLIM_JV_UNDEFINED] = "Undefined",
        [PLIM_JV_NONE] = "NoneType",     [PLIM_JV_BOOL] = "bool",
        [PLIM_JV_INT] = "int",           [PLIM_JV_FLOAT] = "float",
        [PLIM_JV_STRING] = "str",        [PLIM_JV_LIST] = "list",
        [PLIM_JV_TUPLE] = "tuple",       [PLIM_JV_DICT] = "dict",
        [PLIM_JV_RANGE] = "range",       [PLIM_JV_NAMESPACE] = "Namespace",
        [PLIM_JV_LOOP] = "LoopContext",  [PLIM_JV_MACRO] = "Macro",
        [PLIM_JV_FUNCTION] = "function", [PLIM_JV_METHOD] = "builtin_function_or_method",
    };
    if (v.kind == PLIM_JV_STRING && v.u.s->markup) return "Markup";
    return names[v.kind];
}

plim_status plim_jv_list(plim_pool *p, plim_jv_kind kind, size_t count, plim_jv **items, plim_jv *out)
{
    plim_jlist *list = NULL;
    plim_jv *made = NULL;
    TRY(plim_pool_take(p, 1, sizeof *list, &list));
    TRY(plim_pool_take(p, count ? count : 1, sizeof *made, &made));
    *list = (plim_jlist){made, count};
    *items = made;
    *out = (plim_jv){.kind = (uint8_t)kind, .message = -1, .u.list = list};
    return PLIM_OK;
}

plim_status plim_jv_dict(plim_pool *p, size_t cap, plim_jv *out)
{
    plim_jdict *d = NULL;
    TRY(plim_pool_take(p, 1, sizeof *d, &d));
    if (cap) TRY(plim_pool_take(p, cap, sizeof *d->pairs, &d->pairs));
    d->cap = cap;
    *out = (plim_jv){.kind = PLIM_JV_DICT, .message = -1, .u.dict = d};
    return PLIM_OK;
}

plim_status plim_jdict_find(plim_pool *p, const plim_jdict *d, plim_jv key, const plim_jpair **out)
{
    *out = NULL;
    TRY(plim_pool_step(p, d->count * 64 / 4));
    for (size_t i = 0; i < d->count; i++) {
        bool same = false;
        const plim_jv *have = &d->pairs[i].key;
        if (key.kind == PLIM_JV_STRING)
            same = have->kind == PLIM_JV_STRING && plim_js_equal(have->u.s, key.u.s);
        else TRY(plim_jv_equal(p, *have, key, 0, &same));
        if (!same) continue;
        *out = &d->pairs[i];
        return PLIM_OK;
    }
    return PLIM_OK;
}

const plim_jpair *plim_jdict_get(const plim_jdict *d, const char *key)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->pairs[i].key.kind == PLIM_JV_STRING && plim_js_is(d->pairs[i].key.u.s, key))
            return &d->pairs[i];
    return NULL;
}

static plim_status append(plim_pool *p, plim_jdict *d, plim_jv key, plim_jv value)
{
    if (d->count == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 4;
        plim_jpair *pairs = NULL;
        TRY(plim_pool_take(p, cap, sizeof *pairs, &pairs));
        if (d->count) memcpy(pairs, d->pairs, d->count * sizeof *pairs);
        d->pairs = pairs;
        d->cap = cap;
    }
    d->pairs[d->count++] = (plim_jpair){key, value};
    return PLIM_OK;
}

plim_status plim_jdict_set(plim_pool *p, plim_jdict *d, plim_jv key, plim_jv value)
{
    const plim_jpair *have = NULL;
    TRY(plim_jdict_find(p, d, key, &have));
    if (!have) return append(p, d, key, value);
    d->pairs[have - d->pairs].value = value;
    return PLIM_OK;
}

/* ---- the row ------------------------------------------------------------------------------------------- */

typedef struct place {
    plim_origin origin;
    int32_t message;
    int messages; /* 1: the list "messages" is next, 2: this is that list, 3: this is a message */
} place;

static plim_origin field_origin(const char *key)
{
    static const struct {
        const char *key;
        plim_origin origin;
    } fields[] = {
        {"role", PLIM_ORIGIN_ROLE},
        {"content", PLIM_ORIGIN_CONTENT},
        {"tool_calls", PLIM_ORIGIN_TOOL_CALLS},
        {"reasoning_content", PLIM_ORIGIN_REASONING},
        {"reasoning", PLIM_ORIGIN_REASONING},
        {"thinking", PLIM_ORIGIN_REASONING},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(key, fields[i].key)) return fields[i].origin;
    return PLIM_ORIGIN_MESSAGE;
}

static plim_status from_json(plim_pool *p, const json_t *value, place at, int depth, plim_jv *out);

static plim_status string_value(plim_pool *p, const char *text, size_t bytes, place at, plim_jv *out)
{
    const plim_js *s = NULL;
    plim_jrun run = {.message = at.message, .turn = -1, .origin = at.origin};
    TRY(plim_js_make(p, text, bytes, run, &s));
    *out = plim_jv_string(s);
    return PLIM_OK;
}

static plim_status object_value(plim_pool *p, const json_t *value, place at, int depth, plim_jv *out)
{
    TRY(plim_jv_dict(p, json_object_size(value), out));
    for (void *it = json_object_iter((json_t *)(uintptr_t)value); it;
         it = json_object_iter_next((json_t *)(uintptr_t)value, it)) {
        const char *key = json_object_iter_key(it);
        place below = {at.origin, at.message, 0};
        plim_jv k, v;
        if (at.messages == 3) below.origin = field_origin(key);
        if (at.messages == 1 && !strcmp(key, "messages")) below.messages = 2;
        TRY(string_value(p, key, strlen(key), below, &k));
        TRY(from_json(p, json_object_iter_value(it), below, depth, &v));
        TRY(append(p, out->u.dict, k, v));
    }
    out->whole = at.messages == 3;
    return PLIM_OK;
}

static plim_status array_value(plim_pool *p, const json_t *value, place at, int depth, plim_jv *out)
{
    plim_jv *items = NULL;
    size_t count = json_array_size(value);
    if (at.messages == 2 && count > INT32_MAX) return plim_fail(p->ctx, PLIM_E_RANGE, "%zu messages", count);
    TRY(plim_jv_list(p, PLIM_JV_LIST, count, &items, out));
    for (size_t i = 0; i < count; i++) {
        place below = {at.origin, at.message, 0};
        if (at.messages == 2) below = (place){PLIM_ORIGIN_MESSAGE, (int32_t)i, 3};
        TRY(from_json(p, json_array_get(value, i), below, depth, &items[i]));
    }
    return PLIM_OK;
}

static plim_status from_json(plim_pool *p, const json_t *value, place at, int depth, plim_jv *out)
{
    if (depth == 0) return plim_fail(p->ctx, PLIM_E_RANGE, "the row is nested too deeply");
    switch (json_typeof(value)) {
    case JSON_OBJECT: TRY(object_value(p, value, at, depth - 1, out)); break;
    case JSON_ARRAY: TRY(array_value(p, value, at, depth - 1, out)); break;
    case JSON_STRING: return string_value(p, json_string_value(value), json_string_length(value), at, out);
    case JSON_INTEGER: *out = plim_jv_int(json_integer_value(value)); break;
    case JSON_REAL: *out = plim_jv_float(json_real_value(value)); break;
    case JSON_TRUE: *out = plim_jv_bool(true); break;
    case JSON_FALSE: *out = plim_jv_bool(false); break;
    case JSON_NULL: *out = plim_jv_none(); break;
    }
    out->origin = (uint8_t)at.origin;
    out->message = at.message;
    return PLIM_OK;
}

plim_status plim_jv_from_json(plim_pool *p, const json_t *value, plim_jv *out)
{
    return from_json(p, value, (place){PLIM_ORIGIN_VARIABLE, -1, 1}, 300, out);
}
