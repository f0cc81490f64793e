/* jinja_render.c - decides how a render starts and what it hands back. */
#include "text/jinja_machine.h"

#include <string.h>

static plim_status hand_over(plim_jm *m, const plim_jbuilder *b, plim_rendered *out)
{
    plim_rendered r = {
        .ctx = m->ctx, .bytes = b->bytes, .run_count = b->run_count, .marked_count = m->marked_count};
    size_t at = 0;
    plim_status st = plim_alloc(m->ctx, b->bytes + 1, 1, "a rendered text", &r.text);
    if (!st) st = plim_alloc(m->ctx, b->run_count, sizeof *r.runs, "the origins of a text", &r.runs);
    if (!st) st = plim_alloc(m->ctx, m->marked_count, sizeof *r.marked, "the marks of a text", &r.marked);
    if (st) {
        plim_rendered_close(&r);
        return st;
    }
    if (b->bytes) memcpy(r.text, b->text, b->bytes);
    for (size_t i = 0; i < b->run_count; at += b->runs[i++].bytes)
        r.runs[i] = (plim_text_run){.begin = at,
                                    .end = at + b->runs[i].bytes,
                                    .origin = b->runs[i].origin,
                                    .message = b->runs[i].message,
                                    .turn = b->runs[i].turn,
                                    .template_at = b->runs[i].template_at};
    if (m->marked_count) memcpy(r.marked, m->marked, m->marked_count * sizeof *r.marked);
    *out = r;
    return PLIM_OK;
}

static plim_status render(plim_jm *m, const json_t *variables, const plim_jinja_limits *limits,
                          plim_rendered *out)
{
    plim_jv row;
    plim_jscope globals = {.parent = NULL};
    plim_jbuilder text = {.pool = m->pool, .limit_bytes = limits->output_bytes};
    TRY(plim_jv_from_json(m->pool, variables, &row));
    if (row.kind != PLIM_JV_DICT)
        return plim_fail(m->ctx, PLIM_E_FORMAT, "%s: the row is no object of variables", m->t->name);
    globals.names = *row.u.dict;
    m->scope = &globals;
    m->out = m->root = &text;
    TRY(plim_jm_run(m, m->t->body, m->t->body_count));
    return hand_over(m, &text, out);
}

plim_status plim_jinja_render(plim_ctx *c, const plim_jinja *t, const json_t *variables,
                              const plim_jinja_limits *limits, plim_rendered *out)
{
    plim_pool pool = {.ctx = c, .limit_bytes = limits->memory_bytes, .limit_steps = limits->steps, .t = t};
    plim_jm m = {.ctx = c, .t = t, .pool = &pool, .turn = -1, .depth_limit = limits->depth};
    pool.at_byte = &m.at;
    plim_status st = render(&m, variables, limits, out);
    plim_pool_close(&pool);
    return st;
}

void plim_rendered_close(plim_rendered *r)
{
    if (!r || !r->ctx) return;
    plim_release(r->ctx, r->text);
    plim_release(r->ctx, r->runs);
    plim_release(r->ctx, r->marked);
    *r = (plim_rendered){0};
}
