/* jinja_eval.c - decides what an expression is worth. */
#include "text/jinja_machine.h"

#include <stdarg.h>

plim_status plim_jm_fail(plim_jm *m, plim_status st, const char *fmt, ...)
{
    char what[3000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return plim_jinja_fail(m->ctx, m->t, m->at, st, "%s", what);
}

plim_status plim_jm_enter(plim_jm *m)
{
    if (++m->depth > m->depth_limit)
        return plim_jm_fail(m, PLIM_E_RANGE, "deeper than %d calls, blocks and expressions inside each other",
                            (int)m->depth_limit);
    return PLIM_OK;
}

plim_status plim_jm_use(plim_jm *m, plim_jv v)
{
    if (v.kind != PLIM_JV_UNDEFINED) return PLIM_OK;
    return plim_jm_fail(m, PLIM_E_FORMAT, "%.*s", (int)v.u.s->bytes, v.u.s->text);
}

static plim_status eval_name(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    const plim_jpair *pair = NULL;
    for (const plim_jscope *s = m->scope; s; s = s->parent) {
        TRY(plim_jdict_find(m->pool, &s->names, plim_jv_string(n->name), &pair));
        if (!pair) continue;
        *out = pair->value;
        return PLIM_OK;
    }
    const plim_jfunction *global = plim_jinja_global(n->name);
    if (global) {
        *out = (plim_jv){.kind = PLIM_JV_FUNCTION, .message = -1, .u.function = global};
        return PLIM_OK;
    }
    size_t shown = n->name->bytes > 100 ? 100 : n->name->bytes;
    return plim_jm_undefined(m, out, "'%.*s' is undefined", (int)shown, n->name->text);
}

static plim_status eval_list(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv *items = NULL, list;
    TRY(plim_jv_list(m->pool, n->type == PLIM_JN_LIST ? PLIM_JV_LIST : PLIM_JV_TUPLE, n->count, &items,
                     &list));
    for (size_t i = 0; i < n->count; i++) TRY(plim_jm_eval(m, n->items[i], &items[i]));
    *out = list;
    return PLIM_OK;
}

static plim_status eval_dict(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv dict, key, value;
    TRY(plim_jv_dict(m->pool, n->count / 2, &dict));
    for (size_t i = 0; i + 1 < n->count; i += 2) {
        TRY(plim_jm_eval(m, n->items[i], &key));
        TRY(plim_jm_eval(m, n->items[i + 1], &value));
        if (key.kind == PLIM_JV_LIST || key.kind == PLIM_JV_DICT)
            return plim_jm_fail(m, PLIM_E_FORMAT, "unhashable type: '%s'", plim_jv_type(key));
        TRY(plim_jdict_set(m->pool, dict.u.dict, key, value));
    }
    *out = dict;
    return PLIM_OK;
}

/* a op b op c: each operand once, and only as far as it holds. */
static plim_status eval_compare(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv left, right;
    bool holds = true;
    TRY(plim_jm_eval(m, n->a, &left));
    for (size_t i = 0; i < n->count && holds; i++) {
        TRY(plim_jm_eval(m, n->items[i], &right));
        m->at = n->at;
        TRY(plim_jm_compare(m, n->ops[i], left, right, &holds));
        left = right;
    }
    *out = plim_jv_bool(holds);
    return PLIM_OK;
}

static plim_status eval_concat(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    for (size_t i = 0; i < n->count; i++) {
        plim_jv v;
        TRY(plim_jm_eval(m, n->items[i], &v));
        m->at = n->items[i]->at;
        TRY(plim_jm_text(m, v, &v));
        TRY(plim_jbuilder_add_string(&b, v.u.s));
    }
    return plim_jbuilder_done(&b, false, out);
}

static plim_status eval_slice(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv of, part[3] = {{0}, {0}, {0}};
    TRY(plim_jm_eval(m, n->a, &of));
    for (int i = 0; i < 3; i++)
        if (n->items[i]) TRY(plim_jm_eval(m, n->items[i], &part[i]));
    m->at = n->at;
    return plim_jm_slice(m, of, part[0], part[1], part[2], out);
}

static plim_status eval_call(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv callee;
    plim_jcall call = {0};
    TRY(plim_jm_eval(m, n->a, &callee));
    TRY(plim_jm_args(m, &n->args, &call));
    m->at = n->at;
    return plim_jm_call(m, callee, &call, out);
}

plim_status plim_jm_filter(plim_jm *m, const plim_jnode *n, plim_jv value, plim_jv *out)
{
    plim_jcall call = {0};
    if (n->a) TRY(plim_jm_filter(m, n->a, value, &value)); /* filters before it, of a block */
    TRY(plim_jm_args(m, &n->args, &call));
    m->at = n->at;
    return plim_jm_invoke(m, n->entry, "filter", value, &call, out);
}

static plim_status eval_filter(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv value;
    plim_jcall call = {0};
    TRY(plim_jm_eval(m, n->a, &value));
    TRY(plim_jm_args(m, &n->args, &call));
    m->at = n->at;
    return plim_jm_invoke(m, n->entry, "filter", value, &call, out);
}

static plim_status eval_test(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv value;
    plim_jcall call = {0};
    TRY(plim_jm_eval(m, n->a, &value));
    TRY(plim_jm_args(m, &n->args, &call));
    m->at = n->at;
    return plim_jm_invoke(m, n->entry, "test", value, &call, out);
}

static plim_status eval_two(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv a, b;
    TRY(plim_jm_eval(m, n->a, &a));
    TRY(plim_jm_eval(m, n->b, &b));
    m->at = n->at;
    return n->type == PLIM_JN_ITEM ? plim_jm_item(m, a, b, out) : plim_jm_binary(m, n->op, a, b, out);
}

/* and, or: the operand that decides, unchanged. */
static plim_status eval_logic(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv a;
    TRY(plim_jm_eval(m, n->a, &a));
    if (plim_jv_true(a) == (n->type == PLIM_JN_AND)) return plim_jm_eval(m, n->b, out);
    *out = a;
    return PLIM_OK;
}

static plim_status eval_cond(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv condition;
    TRY(plim_jm_eval(m, n->b, &condition));
    if (plim_jv_true(condition)) return plim_jm_eval(m, n->a, out);
    if (n->c) return plim_jm_eval(m, n->c, out);
    return plim_jm_undefined(m, out,
                             "the inline if-expression evaluated to false and no else section was defined.");
}

/* The template's own text; inside the loop over messages it belongs to the turn of the message there. */
static plim_status eval_string(plim_jm *m, const plim_js *s, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool};
    if (m->turn < 0 || !s->bytes) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    if (s->run_count != 1) {
        for (size_t i = 0, at = 0; i < s->run_count; at += s->runs[i++].bytes) {
            plim_jrun run = s->runs[i];
            run.turn = m->turn;
            TRY(plim_jbuilder_add(&b, s->text + at, run.bytes, run));
        }
        return plim_jbuilder_done(&b, false, out);
    }
    const plim_js *turned = NULL;
    plim_jrun run = s->runs[0];
    run.turn = m->turn;
    TRY(plim_js_make(m->pool, s->text, s->bytes, run, &turned));
    *out = plim_jv_string(turned);
    return PLIM_OK;
}

static plim_status eval_inner(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jv a;
    m->at = n->at;
    switch (n->type) {
    case PLIM_JN_CONST: *out = n->value; return PLIM_OK;
    case PLIM_JN_STRING: return eval_string(m, n->name, out);
    case PLIM_JN_NAME: return eval_name(m, n, out);
    case PLIM_JN_LIST:
    case PLIM_JN_TUPLE: return eval_list(m, n, out);
    case PLIM_JN_DICT: return eval_dict(m, n, out);
    case PLIM_JN_UNARY:
        TRY(plim_jm_eval(m, n->a, &a));
        m->at = n->at;
        return plim_jm_unary(m, n->op, a, out);
    case PLIM_JN_NOT:
        TRY(plim_jm_eval(m, n->a, &a));
        *out = plim_jv_bool(!plim_jv_true(a));
        return PLIM_OK;
    case PLIM_JN_AND:
    case PLIM_JN_OR: return eval_logic(m, n, out);
    case PLIM_JN_CONCAT: return eval_concat(m, n, out);
    case PLIM_JN_COMPARE: return eval_compare(m, n, out);
    case PLIM_JN_COND: return eval_cond(m, n, out);
    case PLIM_JN_ATTR:
        TRY(plim_jm_eval(m, n->a, &a));
        m->at = n->at;
        return plim_jm_attr(m, a, n->name, out);
    case PLIM_JN_BINARY:
    case PLIM_JN_ITEM: return eval_two(m, n, out);
    case PLIM_JN_SLICE: return eval_slice(m, n, out);
    case PLIM_JN_CALL: return eval_call(m, n, out);
    case PLIM_JN_FILTER: return eval_filter(m, n, out);
    case PLIM_JN_TEST: return eval_test(m, n, out);
    default: return plim_jm_fail(m, PLIM_E_FORMAT, "a statement stands where an expression is wanted");
    }
}

plim_status plim_jm_eval(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    TRY(plim_pool_step(m->pool, 0));
    TRY(plim_jm_enter(m));
    plim_status st = eval_inner(m, n, out);
    m->depth--;
    return st;
}
