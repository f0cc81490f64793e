/* jinja_filter_list.c - decides what filters of lists and dicts do.  What Jinja makes a generator is a list
 * here. */
#include "text/jinja_machine.h"

#include <string.h>

#define FILTER(name)                                                                                         \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

static bool given(plim_jv v)
{
    return v.kind && v.kind != PLIM_JV_NONE;
}

static plim_status empty_item(plim_jm *m, const char *which, plim_jv *out)
{
    return plim_jm_undefined(m, out, "No %s item, sequence was empty.", which);
}

FILTER(filter_first)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    (void)args;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    if (!count) return empty_item(m, "first", out);
    *out = items[0];
    return PLIM_OK;
}

FILTER(filter_last)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    (void)args;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    if (!count) return empty_item(m, "last", out);
    *out = items[count - 1];
    return PLIM_OK;
}

/* A list of these items. */
static plim_status list_of(plim_jm *m, const plim_jv *items, size_t count, plim_jv *out)
{
    plim_jv *made = NULL;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &made, out));
    if (count) memcpy(made, items, count * sizeof *made);
    return PLIM_OK;
}

FILTER(filter_list)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    (void)args;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    plim_jv of = self;
    TRY(list_of(m, items, count, out));
    out->origin = of.origin;
    out->message = of.message;
    return PLIM_OK;
}

FILTER(filter_reverse)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL;
    size_t count = 0;
    (void)args;
    (void)call;
    if (self.kind == PLIM_JV_STRING)
        return plim_jm_slice(m, self, (plim_jv){0}, (plim_jv){0}, plim_jv_int(-1), out);
    TRY(plim_jm_items(m, self, &items, &count));
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &made, out));
    for (size_t i = 0; i < count; i++) made[i] = items[count - 1 - i];
    return PLIM_OK;
}

FILTER(filter_items)
{
    plim_jv *pairs = NULL;
    (void)args;
    (void)call;
    if (self.kind == PLIM_JV_UNDEFINED) return list_of(m, NULL, 0, out);
    if (self.kind != PLIM_JV_DICT)
        return plim_jm_fail(m, PLIM_E_FORMAT, "Can only get item pairs from a mapping.");
    const plim_jdict *d = self.u.dict;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, d->count, &pairs, out));
    for (size_t i = 0; i < d->count; i++) {
        plim_jv *pair = NULL;
        TRY(plim_jv_list(m->pool, PLIM_JV_TUPLE, 2, &pair, &pairs[i]));
        pair[0] = d->pairs[i].key;
        pair[1] = d->pairs[i].value;
    }
    return PLIM_OK;
}

FILTER(filter_join)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL, list, between = {0};
    size_t count = 0;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    if (given(args[1])) {
        TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &made, &list));
        for (size_t i = 0; i < count; i++) TRY(plim_jm_path(m, items[i], args[1], &made[i]));
        items = made;
    }
    if (args[0].kind) TRY(plim_jm_text(m, args[0], &between));
    return plim_jm_join(m, args[0].kind ? between.u.s : NULL, items, count, true, out);
}

/* ---- map, select --------------------------------------------------------------------------------------- */

/* A call without its first skip arguments. */
static plim_jcall rest_of(const plim_jcall *call, size_t skip)
{
    plim_jcall rest = *call;
    rest.args += skip;
    rest.count -= skip;
    return rest;
}

static const plim_jv *keyword(const plim_jcall *call, const char *name)
{
    for (size_t i = 0; i < call->keyword_count; i++)
        if (plim_js_is(call->keywords[i].key.u.s, name)) return &call->keywords[i].value;
    return NULL;
}

FILTER(filter_map)
{
    const plim_jv *items = NULL, *attribute = keyword(call, "attribute"), *instead = keyword(call, "default");
    plim_jv *made = NULL;
    size_t count = 0;
    const plim_js *name = NULL;
    const plim_jfunction *filter = NULL;
    (void)args;
    if (plim_jv_true(self)) TRY(plim_jm_items(m, self, &items, &count)); /* nothing has no items */
    if (!attribute) {
        if (!call->count) return plim_jm_fail(m, PLIM_E_FORMAT, "map requires a filter argument");
        TRY(plim_jm_need_string(m, "map", call->args[0], &name));
        filter = plim_jinja_filter(name);
        if (!filter)
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "No filter named '%.*s'.",
                                (int)(name->bytes > 60 ? 60 : name->bytes), name->text);
    } else if (call->count || call->keyword_count > 1 + (instead != NULL))
        return plim_jm_fail(m, PLIM_E_FORMAT, "map with attribute takes only a default beside it");
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &made, out));
    for (size_t i = 0; i < count; i++) {
        TRY(plim_pool_step(m->pool, 0));
        if (filter) {
            plim_jcall rest = rest_of(call, 1);
            TRY(plim_jm_enter(m));
            TRY(plim_jm_invoke(m, filter, "filter", items[i], &rest, &made[i]));
            m->depth--;
            continue;
        }
        TRY(plim_jm_path(m, items[i], *attribute, &made[i]));
        if (made[i].kind == PLIM_JV_UNDEFINED && instead) made[i] = *instead;
    }
    return PLIM_OK;
}

/* skip: arguments before the test's name, of which the first is an attribute. */
static plim_status choose(plim_jm *m, plim_jv self, const plim_jcall *call, size_t skip, bool want,
                          plim_jv *out)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL;
    size_t count = 0, kept = 0;
    const plim_jfunction *test = NULL;
    plim_jcall rest = {0};
    if (call->count < skip) return plim_jm_fail(m, PLIM_E_FORMAT, "Missing parameter for attribute name");
    if (plim_jv_true(self)) TRY(plim_jm_items(m, self, &items, &count)); /* nothing has no items */
    if (call->count > skip) {
        const plim_js *name = NULL;
        TRY(plim_jm_need_string(m, "select", call->args[skip], &name));
        test = plim_jinja_test(name);
        if (!test)
            return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "No test named '%.*s'.",
                                (int)(name->bytes > 60 ? 60 : name->bytes), name->text);
        rest = rest_of(call, skip + 1);
    }
    TRY(plim_pool_take(m->pool, count + 1, sizeof *made, &made));
    for (size_t i = 0; i < count; i++) {
        plim_jv v = items[i], holds;
        TRY(plim_pool_step(m->pool, 0));
        if (skip) TRY(plim_jm_path(m, v, call->args[0], &v));
        holds = v;
        if (test) TRY(plim_jm_invoke(m, test, "test", v, &rest, &holds));
        if (plim_jv_true(holds) == want) made[kept++] = items[i];
    }
    return list_of(m, made, kept, out);
}

FILTER(filter_select)
{
    (void)args;
    return choose(m, self, call, 0, true, out);
}

FILTER(filter_reject)
{
    (void)args;
    return choose(m, self, call, 0, false, out);
}

FILTER(filter_selectattr)
{
    (void)args;
    return choose(m, self, call, 1, true, out);
}

FILTER(filter_rejectattr)
{
    (void)args;
    return choose(m, self, call, 1, false, out);
}

/* ---- order --------------------------------------------------------------------------------------------- */

/* What items are compared by: the item or an attribute of it, in lower case unless case counts. */
static plim_status sort_key(plim_jm *m, plim_jv v, plim_jv attribute, bool case_sensitive, plim_jv *out)
{
    if (given(attribute)) TRY(plim_jm_path(m, v, attribute, &v));
    if (v.kind == PLIM_JV_STRING && !case_sensitive) TRY(plim_jm_case(m, v.u.s, 'l', &v));
    *out = v;
    return PLIM_OK;
}

FILTER(filter_sort)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL, *by = NULL, list;
    size_t count = 0;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    if (args[2].kind == PLIM_JV_STRING && memchr(args[2].u.s->text, ',', args[2].u.s->bytes))
        return plim_jm_fail(m, PLIM_E_UNSUPPORTED, "sort: more than one attribute");
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &by, &list));
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &made, out));
    for (size_t i = 0; i < count; i++) {
        TRY(sort_key(m, items[i], args[2], plim_jv_true(args[1]), &by[i]));
        made[i] = items[i];
    }
    return plim_jm_sort(m, made, by, count, plim_jv_true(args[0]));
}

FILTER(filter_unique)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL, seen, key;
    size_t count = 0, kept = 0;
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    TRY(plim_jv_dict(m->pool, 0, &seen));
    TRY(plim_pool_take(m->pool, count + 1, sizeof *made, &made));
    for (size_t i = 0; i < count; i++) {
        TRY(sort_key(m, items[i], args[1], plim_jv_true(args[0]), &key));
        if (key.kind == PLIM_JV_LIST || key.kind == PLIM_JV_DICT)
            return plim_jm_fail(m, PLIM_E_FORMAT, "unhashable type: '%s'", plim_jv_type(key));
        size_t before = seen.u.dict->count;
        TRY(plim_jdict_set(m->pool, seen.u.dict, key, plim_jv_none()));
        if (seen.u.dict->count > before) made[kept++] = items[i];
    }
    return list_of(m, made, kept, out);
}

static plim_status extreme(plim_jm *m, plim_jv self, const plim_jv *args, int op, plim_jv *out)
{
    const plim_jv *items = NULL;
    plim_jv best, key;
    size_t count = 0, at = 0;
    TRY(plim_jm_items(m, self, &items, &count));
    if (!count) return plim_jm_undefined(m, out, "No aggregated item, sequence was empty.");
    TRY(sort_key(m, items[0], args[1], plim_jv_true(args[0]), &best));
    for (size_t i = 1; i < count; i++) {
        bool beats = false;
        TRY(sort_key(m, items[i], args[1], plim_jv_true(args[0]), &key));
        TRY(plim_jm_compare(m, op, key, best, &beats));
        if (!beats) continue;
        best = key;
        at = i;
    }
    *out = items[at];
    return PLIM_OK;
}

FILTER(filter_min)
{
    (void)call;
    return extreme(m, self, args, '<', out);
}

FILTER(filter_max)
{
    (void)call;
    return extreme(m, self, args, '>', out);
}

FILTER(filter_sum)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    plim_jv total = args[1].kind ? args[1] : plim_jv_int(0);
    (void)call;
    TRY(plim_jm_items(m, self, &items, &count));
    if (total.kind == PLIM_JV_STRING)
        return plim_jm_fail(m, PLIM_E_FORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < count; i++) {
        plim_jv v = items[i];
        if (given(args[0])) TRY(plim_jm_path(m, v, args[0], &v));
        TRY(plim_jm_binary(m, '+', total, v, &total));
    }
    *out = total;
    return PLIM_OK;
}

FILTER(filter_dictsort)
{
    plim_jv pairs, *by = NULL, *items = NULL, list;
    bool by_value = args[1].kind == PLIM_JV_STRING && plim_js_is(args[1].u.s, "value");
    if (args[1].kind && !by_value && !(args[1].kind == PLIM_JV_STRING && plim_js_is(args[1].u.s, "key")))
        return plim_jm_fail(m, PLIM_E_FORMAT, "You can only sort by either \"key\" or \"value\"");
    if (self.kind != PLIM_JV_DICT)
        return plim_jm_fail(m, PLIM_E_FORMAT, "'%s' object has no attribute 'items'", plim_jv_type(self));
    TRY(filter_items(m, self, args, call, &pairs));
    size_t count = pairs.u.list->count;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &by, &list));
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, count, &items, out));
    for (size_t i = 0; i < count; i++) {
        items[i] = pairs.u.list->items[i];
        TRY(sort_key(m, items[i].u.list->items[by_value], (plim_jv){0}, plim_jv_true(args[0]), &by[i]));
    }
    return plim_jm_sort(m, items, by, count, plim_jv_true(args[2]));
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

FILTER(filter_batch)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL;
    size_t count = 0;
    int64_t size = 0;
    (void)call;
    TRY(plim_jm_need_int(m, "batch", args[0], &size));
    TRY(plim_jm_items(m, self, &items, &count));
    if (size < 1 || size > INT32_MAX)
        return plim_jm_fail(m, PLIM_E_RANGE, "batch: a size of %lld", (long long)size);
    size_t by = (size_t)size, batches = (count + by - 1) / by;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, batches, &made, out));
    for (size_t i = 0; i < batches; i++) {
        plim_jv *part = NULL;
        size_t have = count - i * by < by ? count - i * by : by, want = given(args[1]) ? by : have;
        TRY(plim_jv_list(m->pool, PLIM_JV_LIST, want, &part, &made[i]));
        for (size_t k = 0; k < want; k++) part[k] = k < have ? items[i * by + k] : args[1];
    }
    return PLIM_OK;
}

FILTER(filter_slice)
{
    const plim_jv *items = NULL;
    plim_jv *made = NULL;
    size_t count = 0, at = 0;
    int64_t slices = 0;
    (void)call;
    TRY(plim_jm_need_int(m, "slice", args[0], &slices));
    TRY(plim_jm_items(m, self, &items, &count));
    if (slices < 1 || slices > INT32_MAX)
        return plim_jm_fail(m, PLIM_E_RANGE, "slice: %lld slices", (long long)slices);
    size_t per = count / (size_t)slices, more = count % (size_t)slices;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, (size_t)slices, &made, out));
    for (size_t i = 0; i < (size_t)slices; i++) {
        plim_jv *part = NULL;
        size_t have = per + (i < more), fill = given(args[1]) && i >= more;
        TRY(plim_jv_list(m->pool, PLIM_JV_LIST, have + fill, &part, &made[i]));
        for (size_t k = 0; k < have; k++) part[k] = items[at++];
        if (fill) part[have] = args[1];
    }
    return PLIM_OK;
}

const plim_jfunction plim_jinja_list_filters[] = {
    {"batch", "linecount/ fill_with", filter_batch},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"first", "", filter_first},
    {"items", "", filter_items},
    {"join", "d attribute", filter_join},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"map", "*", filter_map},
    {"max", "case_sensitive attribute", filter_max},
    {"min", "case_sensitive attribute", filter_min},
    {"reject", "*", filter_reject},
    {"rejectattr", "*", filter_rejectattr},
    {"reverse", "", filter_reverse},
    {"select", "*", filter_select},
    {"selectattr", "*", filter_selectattr},
    {"slice", "slices/ fill_with", filter_slice},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"sum", "attribute start", filter_sum},
    {"unique", "case_sensitive attribute", filter_unique},
    {NULL, NULL, NULL},
};
