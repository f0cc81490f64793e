/* jinja_global.c - decides which functions a template can call without being given them. */
#include "text/jinja_machine.h"

#define MAX_RANGE 100000 /* items, as Jinja's sandbox allows */

#define GLOBAL(name)                                                                                         \
    static plim_status name(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS],                        \
                            const plim_jcall *call, plim_jv *out)

GLOBAL(global_raise)
{
    plim_jv text;
    (void)self;
    (void)call;
    (void)out;
    TRY(plim_jm_text(m, args[0], &text));
    return plim_jm_fail(m, PLIM_E_FORMAT, "%.*s", (int)(text.u.s->bytes > 2000 ? 2000 : text.u.s->bytes),
                        text.u.s->text);
}

GLOBAL(global_strftime)
{
    const plim_js *format = NULL;
    (void)self;
    (void)call;
    TRY(plim_jm_need_string(m, "strftime_now", args[0], &format));
    return plim_jm_strftime(m, format, out);
}

GLOBAL(global_range)
{
    int64_t first = 0, end = 0, step = 1;
    plim_jrange *r = NULL;
    (void)self;
    (void)call;
    TRY(plim_jm_need_int(m, "range", args[0], &end));
    if (args[1].kind) {
        first = end;
        TRY(plim_jm_need_int(m, "range", args[1], &end));
    }
    if (args[2].kind) TRY(plim_jm_need_int(m, "range", args[2], &step));
    if (!step) return plim_jm_fail(m, PLIM_E_FORMAT, "range() arg 3 must not be zero");
    uint64_t span = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && end > first) span = (uint64_t)end - (uint64_t)first;
    if (step < 0 && end < first) span = (uint64_t)first - (uint64_t)end;
    uint64_t count = span ? (span - 1) / stride + 1 : 0;
    if (count > MAX_RANGE)
        return plim_jm_fail(m, PLIM_E_RANGE,
                            "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                            MAX_RANGE);
    TRY(plim_pool_take(m->pool, 1, sizeof *r, &r));
    *r = (plim_jrange){first, step, end, (size_t)count};
    *out = (plim_jv){.kind = PLIM_JV_RANGE, .message = -1, .u.range = r};
    return PLIM_OK;
}

/* Keywords, behind the pairs of one dict if there is one. */
static plim_status dict_of(plim_jm *m, const char *what, const plim_jcall *call, plim_jv *out)
{
    plim_jv made;
    TRY(plim_jv_dict(m->pool, call->keyword_count, &made));
    if (call->count > 1) return plim_jm_fail(m, PLIM_E_FORMAT, "%s takes one dict and keywords", what);
    if (call->count) {
        TRY(plim_jm_use(m, call->args[0]));
        if (call->args[0].kind != PLIM_JV_DICT)
            return plim_jm_fail(m, PLIM_E_FORMAT, "%s: a dict is wanted, not %s", what,
                                plim_jv_type(call->args[0]));
        for (size_t i = 0; i < call->args[0].u.dict->count; i++) {
            const plim_jpair *pair = &call->args[0].u.dict->pairs[i];
            TRY(plim_jdict_set(m->pool, made.u.dict, pair->key, pair->value));
        }
    }
    for (size_t i = 0; i < call->keyword_count; i++)
        TRY(plim_jdict_set(m->pool, made.u.dict, call->keywords[i].key, call->keywords[i].value));
    *out = made;
    return PLIM_OK;
}

GLOBAL(global_dict)
{
    (void)self;
    (void)args;
    return dict_of(m, "dict", call, out);
}

GLOBAL(global_namespace)
{
    (void)self;
    (void)args;
    TRY(dict_of(m, "namespace", call, out));
    out->kind = PLIM_JV_NAMESPACE;
    return PLIM_OK;
}

static const plim_jfunction globals[] = {
    {"dict", "*", global_dict},
    {"namespace", "*", global_namespace},
    {"raise_exception", "message/", global_raise},
    {"range", "start/ stop step", global_range},
    {"strftime_now", "format/", global_strftime},
    {NULL, NULL, NULL},
};

const plim_jfunction *plim_jinja_global(const plim_js *name)
{
    return plim_jinja_find(globals, name);
}
