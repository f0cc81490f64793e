/* labels_header.c - decides what a template writes before a model speaks: it is asked, with one user
 * message. */
#include "text/labels.h"

#include <string.h>

#define PROBE_ROLE "user"

static plim_status render(plim_ctx *c, const plim_jinja *t, const json_t *variables,
                          const plim_jinja_limits *limits, bool prompt, plim_rendered *out)
{
    json_t *row = json_object(), *messages = json_pack("[{s:s, s:s}]", "role", PROBE_ROLE, "content", "x");
    plim_status st = PLIM_OK;
    if (!row || !messages || (variables && json_object_update(row, (json_t *)(uintptr_t)variables)) ||
        json_object_set(row, "messages", messages) ||
        json_object_set_new(row, "add_generation_prompt", json_boolean(prompt)))
        st = plim_fail_alloc(c, sizeof *row, "a message to try a template with");
    if (!st) st = plim_jinja_render(c, t, row, limits, out);
    json_decref(row);
    json_decref(messages);
    return st;
}

/* text[begin .. end) on its own. */
static plim_status piece(plim_ctx *c, const char *text, size_t begin, size_t end, char **out)
{
    TRY(plim_alloc(c, end - begin + 1, 1, "what a template writes before a turn", out));
    if (end > begin) memcpy(*out, text + begin, end - begin);
    return PLIM_OK;
}

/* Where the role ends and where the content begins, of the message tried. */
static bool role_and_content(const plim_rendered *r, size_t *role_end, size_t *content)
{
    bool found = false;
    size_t n = strlen(PROBE_ROLE);
    *content = SIZE_MAX;
    for (size_t i = 0; i < r->run_count && *content == SIZE_MAX; i++) {
        if (r->runs[i].message != 0) continue;
        if (r->runs[i].origin == PLIM_ORIGIN_CONTENT) *content = r->runs[i].begin;
        if (r->runs[i].origin != PLIM_ORIGIN_ROLE) continue;
        *role_end = r->runs[i].end;
        found = true;
    }
    if (*content == SIZE_MAX) return false;
    for (size_t at = *content; !found && at >= n; at--) {
        if (memcmp(r->text + at - n, PROBE_ROLE, n) != 0) continue;
        *role_end = at;
        found = true;
    }
    return found;
}

static plim_status learn(plim_ctx *c, const plim_rendered *without, const plim_rendered *with,
                         plim_turn_header *h)
{
    size_t role_end = 0, content = 0;
    bool prefix = with->bytes >= without->bytes && !memcmp(with->text, without->text, without->bytes);
    TRY(piece(c, with->text, prefix ? without->bytes : with->bytes, with->bytes, &h->prompt));
    bool known = role_and_content(without, &role_end, &content) && role_end <= content;
    return piece(c, without->text, known ? role_end : 0, known ? content : 0, &h->behind);
}

plim_status plim_turn_header_learn(plim_ctx *c, const plim_jinja *t, const json_t *variables,
                                   const plim_jinja_limits *limits, plim_turn_header *out)
{
    plim_rendered without = {0}, with = {0};
    plim_turn_header h = {.ctx = c};
    plim_status st = render(c, t, variables, limits, false, &without);
    if (!st) st = render(c, t, variables, limits, true, &with);
    if (!st) st = learn(c, &without, &with, &h);
    plim_rendered_close(&without);
    plim_rendered_close(&with);
    if (st && st != PLIM_E_OOM_HOST) { /* a template that wants more than one message */
        plim_ctx_clear(c);
        *out = (plim_turn_header){0};
        return PLIM_OK;
    }
    if (st) plim_turn_header_close(&h);
    else *out = h;
    return st;
}

void plim_turn_header_close(plim_turn_header *h)
{
    if (!h || !h->ctx) return;
    plim_release(h->ctx, h->prompt);
    plim_release(h->ctx, h->behind);
    *h = (plim_turn_header){0};
}
