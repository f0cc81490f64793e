/* jinja_method.c - decides which methods values have, and what the sandbox refuses: whatever would change a
 * value. */
#include "text/jinja_machine.h"

#include <string.h>

#define METHOD(name)                                                                                         \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

static const char *const str_unknown[] = {"casefold",    "encode",    "expandtabs",   "format",
                                          "format_map",  "isascii",   "isidentifier", "istitle",
                                          "isprintable", "maketrans", "translate",    NULL};

/* ---- dict ---------------------------------------------------------------------------------------------- */

METHOD(dict_get)
{
    const plim_jpair *pair = NULL;
    (void)call;
    TRY(plim_jdict_find(m->pool, self.u.dict, args[0], &pair));
    *out = pair ? pair->value : args[1].kind ? args[1] : plim_jv_none();
    return PLIM_OK;
}

static plim_status members(plim_jm *m, plim_jv self, bool keys, bool values, plim_jv *out)
{
    const plim_jdict *d = self.u.dict;
    plim_jv *items = NULL;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, d->count, &items, out));
    for (size_t i = 0; i < d->count; i++) {
        plim_jv *pair = NULL;
        items[i] = keys ? d->pairs[i].key : d->pairs[i].value;
        if (!keys || !values) continue;
        TRY(plim_jv_list(m->pool, PLIM_JV_TUPLE, 2, &pair, &items[i]));
        pair[0] = d->pairs[i].key;
        pair[1] = d->pairs[i].value;
    }
    return PLIM_OK;
}

METHOD(dict_items)
{
    (void)args;
    (void)call;
    return members(m, self, true, true, out);
}

METHOD(dict_keys)
{
    (void)args;
    (void)call;
    return members(m, self, true, false, out);
}

METHOD(dict_values)
{
    (void)args;
    (void)call;
    return members(m, self, false, true, out);
}

METHOD(any_copy)
{
    (void)m;
    (void)args;
    (void)call;
    *out = self; /* nothing can change it */
    return PLIM_OK;
}

static const plim_jfunction dict_methods[] = {
    {"copy", "", any_copy},  {"get", "key/ default", dict_get}, {"items", "", dict_items},
    {"keys", "", dict_keys}, {"values", "", dict_values},       {NULL, NULL, NULL},
};

static const char *const dict_unsafe[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
static const char *const dict_unknown[] = {"fromkeys", NULL};

/* ---- list, loop ---------------------------------------------------------------------------------------- */

METHOD(list_count)
{
    int64_t n = 0;
    (void)call;
    for (size_t i = 0; i < self.u.list->count; i++) {
        bool same = false;
        TRY(plim_jv_equal(m->pool, self.u.list->items[i], args[0], 0, &same));
        n += same;
    }
    *out = plim_jv_int(n);
    return PLIM_OK;
}

METHOD(list_index)
{
    (void)call;
    for (size_t i = 0; i < self.u.list->count; i++) {
        bool same = false;
        TRY(plim_jv_equal(m->pool, self.u.list->items[i], args[0], 0, &same));
        if (!same) continue;
        *out = plim_jv_int((int64_t)i);
        return PLIM_OK;
    }
    return plim_jm_fail(m, PLIM_E_FORMAT, "the value is not in the %s", plim_jv_type(self));
}

static const plim_jfunction list_methods[] = {{"copy", "", any_copy},
                                              {"count", "value/", list_count},
                                              {"index", "value/", list_index},
                                              {NULL, NULL, NULL}};
static const char *const list_unsafe[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL};

METHOD(loop_cycle)
{
    (void)args;
    if (!call->count) return plim_jm_fail(m, PLIM_E_FORMAT, "no items for cycling given");
    *out = call->args[self.u.loop->index % call->count];
    return PLIM_OK;
}

METHOD(loop_changed)
{
    plim_jv *items = NULL, now;
    bool same = false;
    (void)args;
    TRY(plim_jv_list(m->pool, PLIM_JV_TUPLE, call->count, &items, &now));
    if (call->count) memcpy(items, call->args, call->count * sizeof *items);
    if (self.u.loop->changed.kind) TRY(plim_jv_equal(m->pool, self.u.loop->changed, now, 0, &same));
    self.u.loop->changed = now;
    *out = plim_jv_bool(!same);
    return PLIM_OK;
}

static const plim_jfunction loop_methods[] = {
    {"changed", "*", loop_changed}, {"cycle", "*", loop_cycle}, {NULL, NULL, NULL}};

const plim_jfunction *plim_jinja_method(plim_jv of, const plim_js *name)
{
    switch ((plim_jv_kind)of.kind) {
    case PLIM_JV_STRING: return plim_jinja_find(plim_jinja_string_methods, name);
    case PLIM_JV_DICT: return plim_jinja_find(dict_methods, name);
    case PLIM_JV_LIST: return plim_jinja_find(list_methods, name);
    case PLIM_JV_TUPLE: return plim_js_is(name, "copy") ? NULL : plim_jinja_find(list_methods, name);
    case PLIM_JV_LOOP: return plim_jinja_find(loop_methods, name);
    default: return NULL;
    }
}

static bool listed(const char *const *names, const plim_js *name)
{
    for (; *names; names++)
        if (plim_js_is(name, *names)) return true;
    return false;
}

bool plim_jinja_method_unsafe(plim_jv of, const plim_js *name)
{
    if (name->bytes > 4 && !memcmp(name->text, "__", 2)) return true;
    if (of.kind == PLIM_JV_DICT) return listed(dict_unsafe, name);
    return of.kind == PLIM_JV_LIST && listed(list_unsafe, name);
}

bool plim_jinja_method_unknown(plim_jv of, const plim_js *name)
{
    if (of.kind == PLIM_JV_DICT) return listed(dict_unknown, name);
    return of.kind == PLIM_JV_STRING && listed(str_unknown, name);
}
