/* jinja_call.c - decides how arguments meet parameters: of macros, and of what is built in. */
#include "text/jinja_machine.h"

#include <string.h>

static plim_status eval_keywords(plim_jm *m, const plim_jargs *args, plim_jcall *out)
{
    plim_jv extra = {0};
    size_t more = 0;
    if (args->dict) {
        TRY(plim_jm_eval(m, args->dict, &extra));
        if (extra.kind != PLIM_JV_DICT)
            return plim_jm_fail(m, PLIM_E_FORMAT, "argument after ** must be a mapping, not %s",
                                plim_jv_type(extra));
        more = extra.u.dict->count;
    }
    if (!args->keyword_count && !more) return PLIM_OK;
    TRY(plim_pool_take(m->pool, args->keyword_count + more, sizeof *out->keywords, &out->keywords));
    for (size_t i = 0; i < args->keyword_count; i++) {
        plim_jpair *pair = &out->keywords[out->keyword_count++];
        pair->key = plim_jv_string(args->keywords[i].name);
        TRY(plim_jm_eval(m, args->keywords[i].value, &pair->value));
    }
    for (size_t i = 0; i < more; i++) {
        if (extra.u.dict->pairs[i].key.kind != PLIM_JV_STRING)
            return plim_jm_fail(m, PLIM_E_FORMAT, "keywords must be strings");
        out->keywords[out->keyword_count++] = extra.u.dict->pairs[i];
    }
    return PLIM_OK;
}

plim_status plim_jm_args(plim_jm *m, const plim_jargs *args, plim_jcall *out)
{
    plim_jcall call = {0};
    const plim_jv *rest = NULL;
    size_t rest_count = 0;
    if (args->list) {
        plim_jv list;
        TRY(plim_jm_eval(m, args->list, &list));
        TRY(plim_jm_items(m, list, &rest, &rest_count));
    }
    call.count = args->count + rest_count;
    if (call.count) TRY(plim_pool_take(m->pool, call.count, sizeof *call.args, &call.args));
    for (size_t i = 0; i < args->count; i++) TRY(plim_jm_eval(m, args->items[i], &call.args[i]));
    if (rest_count) memcpy(call.args + args->count, rest, rest_count * sizeof *rest);
    TRY(eval_keywords(m, args, &call));
    *out = call;
    return PLIM_OK;
}

/* ---- built-ins ----------------------------------------------------------------------------------------- */

static plim_status take_keyword(plim_jm *m, const plim_jfunction *f, const char *what,
                                plim_jv args[PLIM_JARGS], const plim_jpair *pair)
{
    const plim_js *name = pair->key.u.s;
    int place = 0;
    for (const char *p = f->params; *p;) {
        size_t n = strcspn(p, " /");
        if (n && n == name->bytes && !memcmp(p, name->text, n)) {
            if (args[place].kind)
                return plim_jm_fail(m, PLIM_E_FORMAT, "%s %s() got multiple values for argument '%.*s'", what,
                                    f->name, (int)n, p);
            args[place] = pair->value;
            return PLIM_OK;
        }
        place += n > 0;
        p += n;
        p += strspn(p, " /");
    }
    return plim_jm_fail(m, PLIM_E_FORMAT, "%s %s() got an unexpected keyword argument '%.*s'", what, f->name,
                        (int)(name->bytes > 60 ? 60 : name->bytes), name->text);
}

plim_status plim_jm_invoke(plim_jm *m, const plim_jfunction *f, const char *what, plim_jv self,
                           const plim_jcall *call, plim_jv *out)
{
    plim_jv args[PLIM_JARGS];
    size_t params = 0, required = 0;
    memset(args, 0, sizeof args);
    if (f->params[0] == '*') return f->run(m, self, args, call, out);
    for (const char *p = f->params; *p;) {
        size_t n = strcspn(p, " /");
        params += n > 0;
        p += n;
        if (*p == '/') required = params;
        p += strspn(p, " /");
    }
    if (call->count > params)
        return plim_jm_fail(m, PLIM_E_FORMAT, "%s %s() takes at most %zu arguments, %zu were given", what,
                            f->name, params, call->count);
    for (size_t i = 0; i < call->count; i++) args[i] = call->args[i];
    for (size_t i = 0; i < call->keyword_count; i++) TRY(take_keyword(m, f, what, args, &call->keywords[i]));
    for (size_t i = 0; i < required; i++)
        if (!args[i].kind)
            return plim_jm_fail(m, PLIM_E_FORMAT, "%s %s() is missing a required argument", what, f->name);
    return f->run(m, self, args, call, out);
}

plim_status plim_jm_need_string(plim_jm *m, const char *what, plim_jv v, const plim_js **out)
{
    TRY(plim_jm_use(m, v));
    if (v.kind != PLIM_JV_STRING)
        return plim_jm_fail(m, PLIM_E_FORMAT, "%s: a str is wanted, not %s", what, plim_jv_type(v));
    *out = v.u.s;
    return PLIM_OK;
}

plim_status plim_jm_need_int(plim_jm *m, const char *what, plim_jv v, int64_t *out)
{
    TRY(plim_jm_use(m, v));
    if (!plim_jv_as_int(v, out))
        return plim_jm_fail(m, PLIM_E_FORMAT, "%s: an int is wanted, not %s", what, plim_jv_type(v));
    return PLIM_OK;
}

/* ---- macros -------------------------------------------------------------------------------------------- */

/* Whether a macro's body speaks of a name (caller, varargs, kwargs): only then it takes what that name
 * holds. */
static bool mentions(plim_jnode *const *nodes, size_t count, const char *word);

static bool node_mentions(const plim_jnode *n, const char *word)
{
    if (!n) return false;
    if (n->type == PLIM_JN_NAME && plim_js_is(n->name, word)) return true;
    if (node_mentions(n->a, word) || node_mentions(n->b, word) || node_mentions(n->c, word)) return true;
    if (mentions(n->items, n->count, word) || mentions(n->more, n->more_count, word)) return true;
    if (mentions(n->args.items, n->args.count, word)) return true;
    for (size_t i = 0; i < n->args.keyword_count; i++)
        if (node_mentions(n->args.keywords[i].value, word)) return true;
    for (size_t i = 0; i < n->param_count; i++)
        if (node_mentions(n->params[i].value, word)) return true;
    return node_mentions(n->args.list, word) || node_mentions(n->args.dict, word);
}

static bool mentions(plim_jnode *const *nodes, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (node_mentions(nodes[i], word)) return true;
    return false;
}

plim_status plim_jm_macro(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jmacro *macro = NULL;
    TRY(plim_pool_take(m->pool, 1, sizeof *macro, &macro));
    *macro = (plim_jmacro){.node = n,
                           .scope = m->scope,
                           .takes_caller = mentions(n->items, n->count, "caller"),
                           .takes_rest = mentions(n->items, n->count, "varargs"),
                           .takes_keywords = mentions(n->items, n->count, "kwargs")};
    *out = (plim_jv){.kind = PLIM_JV_MACRO, .message = -1, .u.macro = macro};
    return PLIM_OK;
}

static const char *macro_name(const plim_jmacro *macro, int *bytes)
{
    const plim_js *name = macro->node->name;
    *bytes = name ? (int)(name->bytes > 60 ? 60 : name->bytes) : 6;
    return name ? name->text : "caller";
}

/* Keywords that are no parameters: caller, and kwargs. */
static plim_status rest_keywords(plim_jm *m, const plim_jmacro *macro, const plim_jcall *call,
                                 const bool *used)
{
    plim_jv kwargs;
    int bytes = 0;
    const char *name = macro_name(macro, &bytes);
    TRY(plim_jv_dict(m->pool, 0, &kwargs));
    for (size_t i = 0; i < call->keyword_count; i++) {
        const plim_js *key = call->keywords[i].key.u.s;
        if (used[i]) continue;
        if (plim_js_is(key, "caller") && macro->takes_caller) {
            TRY(plim_jdict_set(m->pool, &m->scope->names, call->keywords[i].key, call->keywords[i].value));
            continue;
        }
        if (!macro->takes_keywords)
            return plim_jm_fail(m, PLIM_E_FORMAT, "macro '%.*s' takes no keyword argument '%.*s'", bytes,
                                name, (int)(key->bytes > 60 ? 60 : key->bytes), key->text);
        TRY(plim_jdict_set(m->pool, kwargs.u.dict, call->keywords[i].key, call->keywords[i].value));
    }
    if (!macro->takes_keywords) return PLIM_OK;
    const plim_js *word = NULL;
    TRY(plim_js_make(m->pool, "kwargs", 6, plim_jrun_template(m->at, -1), &word));
    return plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(word), kwargs);
}

static plim_status rest_positions(plim_jm *m, const plim_jmacro *macro, const plim_jcall *call)
{
    plim_jv *items = NULL, rest;
    const plim_js *word = NULL;
    int bytes = 0;
    const char *name = macro_name(macro, &bytes);
    size_t params = macro->node->param_count, more = call->count > params ? call->count - params : 0;
    if (more && !macro->takes_rest)
        return plim_jm_fail(m, PLIM_E_FORMAT, "macro '%.*s' takes not more than %zu argument(s)", bytes, name,
                            params);
    if (!macro->takes_rest) return PLIM_OK;
    TRY(plim_jv_list(m->pool, PLIM_JV_TUPLE, more, &items, &rest));
    if (more) memcpy(items, call->args + params, more * sizeof *items);
    TRY(plim_js_make(m->pool, "varargs", 7, plim_jrun_template(m->at, -1), &word));
    return plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(word), rest);
}

/* Parameters into the present scope, which is the macro's own. */
static plim_status bind_params(plim_jm *m, const plim_jmacro *macro, const plim_jcall *call, bool *used)
{
    const plim_jnode *n = macro->node;
    for (size_t i = 0; i < n->param_count; i++) {
        plim_jv value = {0};
        if (i < call->count) value = call->args[i];
        for (size_t k = 0; k < call->keyword_count; k++) {
            if (!plim_js_equal(call->keywords[k].key.u.s, n->params[i].name)) continue;
            if (value.kind) {
                int bytes = 0;
                const char *name = macro_name(macro, &bytes);
                return plim_jm_fail(m, PLIM_E_FORMAT, "macro '%.*s' got multiple values for one argument",
                                    bytes, name);
            }
            value = call->keywords[k].value;
            used[k] = true;
        }
        bool given = value.kind != PLIM_JV_MISSING;
        if (!given)
            TRY(plim_jm_undefined(m, &value, "parameter '%.*s' was not provided",
                                  (int)(n->params[i].name->bytes > 60 ? 60 : n->params[i].name->bytes),
                                  n->params[i].name->text));
        TRY(plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(n->params[i].name), value));
        if (given || !n->params[i].value) continue;
        TRY(plim_jm_eval(m, n->params[i].value, &value)); /* it sees its own name as not provided */
        TRY(plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(n->params[i].name), value));
    }
    return PLIM_OK;
}

static plim_status call_inner(plim_jm *m, const plim_jmacro *macro, const plim_jcall *call, plim_jv *out)
{
    bool *used = NULL;
    TRY(plim_pool_take(m->pool, call->keyword_count + 1, sizeof *used, &used));
    TRY(plim_jm_scope(m, macro->scope, &m->scope));
    TRY(bind_params(m, macro, call, used));
    TRY(rest_positions(m, macro, call));
    TRY(rest_keywords(m, macro, call, used));
    /* a message handed to a macro, outside any loop over messages, is the turn */
    for (size_t i = 0; i < call->count && m->turn < 0; i++)
        if (call->args[i].whole) m->turn = call->args[i].message;
    return plim_jm_capture(m, macro->node->items, macro->node->count, out);
}

static plim_status call_macro(plim_jm *m, const plim_jmacro *macro, const plim_jcall *call, plim_jv *out)
{
    plim_jscope *scope = m->scope;
    int32_t turn = m->turn;
    TRY(plim_jm_enter(m));
    plim_status st = call_inner(m, macro, call, out);
    m->depth--;
    m->scope = scope;
    m->turn = turn;
    return st;
}

plim_status plim_jm_call(plim_jm *m, plim_jv callee, const plim_jcall *call, plim_jv *out)
{
    TRY(plim_jm_use(m, callee));
    switch ((plim_jv_kind)callee.kind) {
    case PLIM_JV_MACRO: return call_macro(m, callee.u.macro, call, out);
    case PLIM_JV_FUNCTION: return plim_jm_invoke(m, callee.u.function, "function", (plim_jv){0}, call, out);
    case PLIM_JV_METHOD:
        return plim_jm_invoke(m, callee.u.method->function, "method", callee.u.method->self, call, out);
    default: return plim_jm_fail(m, PLIM_E_FORMAT, "'%s' object is not callable", plim_jv_type(callee));
    }
}
