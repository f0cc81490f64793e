/* jinja_statement.c - decides what statements do, and renders: where text goes, which names are seen, and
 * which message's turn the output belongs to. */
#include "text/jinja_machine.h"

#include <string.h>

static plim_status emit(plim_jm *m, const plim_js *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->run_count; at += s->runs[i++].bytes) {
        plim_jrun run = s->runs[i];
        if (run.turn < 0) run.turn = m->turn;
        TRY(plim_jbuilder_add(m->out, s->text + at, run.bytes, run));
    }
    return PLIM_OK;
}

plim_status plim_jm_scope(plim_jm *m, plim_jscope *parent, plim_jscope **out)
{
    plim_jscope *s = NULL;
    TRY(plim_pool_take(m->pool, 1, sizeof *s, &s));
    s->parent = parent;
    *out = s;
    return PLIM_OK;
}

plim_status plim_jm_capture(plim_jm *m, plim_jnode *const *body, size_t count, plim_jv *out)
{
    plim_jbuilder b = {.pool = m->pool}, *outer = m->out;
    m->out = &b;
    plim_status st = plim_jm_run(m, body, count);
    m->out = outer;
    return st ? st : plim_jbuilder_done(&b, false, out);
}

static plim_status unpack(plim_jm *m, const plim_jnode *target, plim_jv value)
{
    const plim_jv *items = NULL;
    size_t count = 0;
    TRY(plim_jm_use(m, value));
    if (value.kind != PLIM_JV_STRING && value.kind != PLIM_JV_DICT && !plim_jv_is_list(value) &&
        value.kind != PLIM_JV_RANGE)
        return plim_jm_fail(m, PLIM_E_FORMAT, "cannot unpack non-iterable %s object", plim_jv_type(value));
    TRY(plim_jm_items(m, value, &items, &count));
    if (count < target->count)
        return plim_jm_fail(m, PLIM_E_FORMAT, "not enough values to unpack (expected %zu, got %zu)",
                            target->count, count);
    if (count > target->count)
        return plim_jm_fail(m, PLIM_E_FORMAT, "too many values to unpack (expected %zu)", target->count);
    for (size_t i = 0; i < count; i++) TRY(plim_jm_assign(m, target->items[i], items[i]));
    return PLIM_OK;
}

plim_status plim_jm_assign(plim_jm *m, const plim_jnode *target, plim_jv value)
{
    m->at = target->at;
    if (target->type == PLIM_JN_TUPLE) return unpack(m, target, value);
    if (target->type == PLIM_JN_NAME)
        return plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(target->name), value);
    plim_jv space;
    plim_jnode name = *target;
    name.type = PLIM_JN_NAME;
    TRY(plim_jm_eval(m, &name, &space));
    if (space.kind != PLIM_JV_NAMESPACE)
        return plim_jm_fail(m, PLIM_E_FORMAT, "cannot assign attribute on non-namespace object");
    return plim_jdict_set(m->pool, space.u.dict, plim_jv_string(target->member), value);
}

/* ---- for ----------------------------------------------------------------------------------------------- */

/* The items that the loop's own condition lets through. */
static plim_status choose(plim_jm *m, const plim_jnode *n, const plim_jv **items, size_t *count)
{
    plim_jv *kept = NULL, list, holds;
    size_t n_kept = 0;
    plim_jscope *outer = m->scope;
    if (!n->c) return PLIM_OK;
    TRY(plim_jv_list(m->pool, PLIM_JV_LIST, *count, &kept, &list));
    for (size_t i = 0; i < *count; i++) {
        TRY(plim_jm_scope(m, outer, &m->scope));
        TRY(plim_jm_assign(m, n->a, (*items)[i]));
        TRY(plim_jm_eval(m, n->c, &holds));
        if (plim_jv_true(holds)) kept[n_kept++] = (*items)[i];
    }
    m->scope = outer;
    *items = kept;
    *count = n_kept;
    return PLIM_OK;
}

static plim_status iterate(plim_jm *m, const plim_jnode *n, plim_jloop *loop, plim_jscope *outer)
{
    const plim_js *word = NULL;
    int32_t turn = m->turn;
    plim_jv value = {.kind = PLIM_JV_LOOP, .message = -1, .u.loop = loop};
    TRY(plim_js_make(m->pool, "loop", 4, plim_jrun_template(n->at, -1), &word));
    for (; loop->index < loop->count && !m->broke; loop->index++) {
        plim_jv item = loop->items[loop->index];
        TRY(plim_pool_step(m->pool, 0));
        TRY(plim_jm_scope(m, outer, &m->scope));
        TRY(plim_jm_assign(m, n->a, item));
        TRY(plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(word), value));
        m->turn = item.whole ? item.message : turn;
        TRY(plim_jm_run(m, n->items, n->count));
        m->continued = false;
    }
    m->turn = turn;
    m->broke = false;
    return PLIM_OK;
}

static plim_status run_for(plim_jm *m, const plim_jnode *n)
{
    plim_jv over;
    plim_jloop *loop = NULL;
    plim_jscope *outer = m->scope;
    TRY(plim_pool_take(m->pool, 1, sizeof *loop, &loop));
    TRY(plim_jm_eval(m, n->b, &over));
    m->at = n->b->at;
    TRY(plim_jm_items(m, over, &loop->items, &loop->count));
    TRY(choose(m, n, &loop->items, &loop->count));
    if (!loop->count) {
        TRY(plim_jm_scope(m, outer, &m->scope));
        TRY(plim_jm_run(m, n->more, n->more_count));
    } else TRY(iterate(m, n, loop, outer));
    m->scope = outer;
    return PLIM_OK;
}

/* ---- the others ---------------------------------------------------------------------------------------- */

static plim_status run_if(plim_jm *m, const plim_jnode *n)
{
    for (;;) {
        plim_jv holds;
        TRY(plim_jm_eval(m, n->a, &holds));
        if (plim_jv_true(holds)) return plim_jm_run(m, n->items, n->count);
        if (n->more_count != 1 || n->more[0]->type != PLIM_JN_IF)
            return plim_jm_run(m, n->more, n->more_count);
        n = n->more[0];
        TRY(plim_pool_step(m->pool, 0));
    }
}

static plim_status run_set(plim_jm *m, const plim_jnode *n)
{
    plim_jv value;
    TRY(plim_jm_eval(m, n->b, &value));
    /* a message picked inside a loop over something else, as over range(n), is the turn until the round
     * ends */
    if (m->turn < 0 && value.whole && m->scope->parent && n->a->type == PLIM_JN_NAME) m->turn = value.message;
    return plim_jm_assign(m, n->a, value);
}

static plim_status capture_scoped(plim_jm *m, const plim_jnode *n, plim_jv *out)
{
    plim_jscope *outer = m->scope;
    TRY(plim_jm_scope(m, outer, &m->scope));
    TRY(plim_jm_capture(m, n->items, n->count, out));
    m->scope = outer;
    return PLIM_OK;
}

static plim_status run_setblock(plim_jm *m, const plim_jnode *n)
{
    plim_jv value;
    TRY(capture_scoped(m, n, &value));
    if (n->b) TRY(plim_jm_filter(m, n->b, value, &value));
    return plim_jm_assign(m, n->a, value);
}

static plim_status run_filterblock(plim_jm *m, const plim_jnode *n)
{
    plim_jv value;
    TRY(capture_scoped(m, n, &value));
    TRY(plim_jm_filter(m, n->a, value, &value));
    TRY(plim_jm_text(m, value, &value));
    return emit(m, value.u.s);
}

static plim_status run_callblock(plim_jm *m, const plim_jnode *n)
{
    plim_jv callee, value;
    plim_jcall call = {0};
    const plim_js *word = NULL;
    plim_jpair *keywords = NULL;
    TRY(plim_jm_eval(m, n->a->a, &callee));
    TRY(plim_jm_args(m, &n->a->args, &call));
    TRY(plim_pool_take(m->pool, call.keyword_count + 1, sizeof *keywords, &keywords));
    if (call.keyword_count) memcpy(keywords, call.keywords, call.keyword_count * sizeof *keywords);
    TRY(plim_js_make(m->pool, "caller", 6, plim_jrun_template(n->at, -1), &word));
    keywords[call.keyword_count].key = plim_jv_string(word);
    TRY(plim_jm_macro(m, n, &keywords[call.keyword_count].value));
    call.keywords = keywords;
    call.keyword_count++;
    m->at = n->a->at;
    TRY(plim_jm_call(m, callee, &call, &value));
    TRY(plim_jm_text(m, value, &value));
    return emit(m, value.u.s);
}

static plim_status run_with(plim_jm *m, const plim_jnode *n)
{
    plim_jscope *outer = m->scope, *inner = NULL;
    TRY(plim_jm_scope(m, outer, &inner));
    for (size_t i = 0; i + 1 < n->more_count; i += 2) {
        plim_jv value;
        TRY(plim_jm_eval(m, n->more[i + 1], &value)); /* values do not see each other */
        m->scope = inner;
        TRY(plim_jm_assign(m, n->more[i], value));
        m->scope = outer;
    }
    m->scope = inner;
    TRY(plim_jm_run(m, n->items, n->count));
    m->scope = outer;
    return PLIM_OK;
}

static plim_status run_generation(plim_jm *m, const plim_jnode *n)
{
    size_t begin = m->root->bytes;
    TRY(plim_jm_run(m, n->items, n->count));
    if (m->out != m->root) return PLIM_OK; /* inside a macro the place in the text is not known */
    if (m->marked_count == m->marked_cap) {
        size_t cap = m->marked_cap ? 2 * m->marked_cap : 8;
        plim_text_mark *more = NULL;
        TRY(plim_pool_take(m->pool, cap, sizeof *more, &more));
        if (m->marked_count) memcpy(more, m->marked, m->marked_count * sizeof *more);
        m->marked = more;
        m->marked_cap = cap;
    }
    m->marked[m->marked_count++] = (plim_text_mark){begin, m->root->bytes};
    return PLIM_OK;
}

static plim_status run_print(plim_jm *m, const plim_jnode *n)
{
    plim_jv value;
    TRY(plim_jm_eval(m, n->a, &value));
    m->at = n->a->at;
    /* an undefined value prints as nothing; one that the sandbox refused is an error */
    if (value.kind == PLIM_JV_UNDEFINED && value.u.s->bytes > 10 &&
        !memcmp(value.u.s->text + value.u.s->bytes - 10, "is unsafe.", 10))
        return plim_jm_use(m, value);
    TRY(plim_jm_text(m, value, &value));
    return emit(m, value.u.s);
}

static plim_status run_data(plim_jm *m, const plim_jnode *n)
{
    return emit(m, n->name);
}

static plim_status run_one(plim_jm *m, const plim_jnode *n)
{
    plim_jv value;
    m->at = n->at;
    switch (n->type) {
    case PLIM_JN_DATA: return run_data(m, n);
    case PLIM_JN_PRINT: return run_print(m, n);
    case PLIM_JN_FOR: return run_for(m, n);
    case PLIM_JN_IF: return run_if(m, n);
    case PLIM_JN_SET: return run_set(m, n);
    case PLIM_JN_SETBLOCK: return run_setblock(m, n);
    case PLIM_JN_MACRO:
        TRY(plim_jm_macro(m, n, &value));
        return plim_jdict_set(m->pool, &m->scope->names, plim_jv_string(n->name), value);
    case PLIM_JN_CALLBLOCK: return run_callblock(m, n);
    case PLIM_JN_FILTERBLOCK: return run_filterblock(m, n);
    case PLIM_JN_WITH: return run_with(m, n);
    case PLIM_JN_GENERATION: return run_generation(m, n);
    case PLIM_JN_BREAK: m->broke = true; return PLIM_OK;
    case PLIM_JN_CONTINUE: m->continued = true; return PLIM_OK;
    default: return plim_jm_fail(m, PLIM_E_FORMAT, "an expression stands where a statement is wanted");
    }
}

plim_status plim_jm_run(plim_jm *m, plim_jnode *const *body, size_t count)
{
    TRY(plim_jm_enter(m));
    for (size_t i = 0; i < count && !m->broke && !m->continued; i++) {
        TRY(plim_pool_step(m->pool, 0));
        TRY(run_one(m, body[i]));
    }
    m->depth--;
    return PLIM_OK;
}
