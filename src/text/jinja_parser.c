/* jinja_parser.c - decides which statements a template may hold, and compiles it. */
#include "text/jinja_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

plim_jinja_limits plim_jinja_limits_defaults(void)
{
    return (plim_jinja_limits){
        .steps = 100000000, .depth = 600, .output_bytes = (size_t)256 << 20, .memory_bytes = (size_t)1 << 30};
}

plim_status plim_jinja_fail(plim_ctx *c, const plim_jinja *t, size_t at, plim_status st, const char *fmt, ...)
{
    char what[3000];
    size_t line, column;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    plim_json_position(t->source, t->bytes, at, &line, &column);
    return plim_fail(c, st, "%s:%zu:%zu: %s", t->name, line, column, what);
}

/* ---- tokens and nodes ---------------------------------------------------------------------------------- */

const plim_jtoken *plim_jparse_token(const plim_jparser *p, size_t ahead)
{
    size_t at = p->at + ahead;
    return &p->t->tokens[at < p->t->token_count ? at : p->t->token_count - 1];
}

bool plim_jparse_is_op(const plim_jparser *p, int op)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    return token->type == PLIM_JT_OPERATOR && token->op == op;
}

bool plim_jparse_is_name(const plim_jparser *p, const char *word)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    return token->type == PLIM_JT_NAME && token->bytes == strlen(word) &&
           !memcmp(token->text, word, token->bytes);
}

bool plim_jparse_skip_op(plim_jparser *p, int op)
{
    bool is = plim_jparse_is_op(p, op);
    p->at += is;
    return is;
}

bool plim_jparse_skip_name(plim_jparser *p, const char *word)
{
    bool is = plim_jparse_is_name(p, word);
    p->at += is;
    return is;
}

plim_status plim_jparse_unexpected(plim_jparser *p, const char *wanted)
{
    static const char *const names[] = {
        [PLIM_JT_END] = "the end of the template",
        [PLIM_JT_DATA] = "text",
        [PLIM_JT_BLOCK_BEGIN] = "'{%'",
        [PLIM_JT_BLOCK_END] = "'%}'",
        [PLIM_JT_PRINT_BEGIN] = "'{{'",
        [PLIM_JT_PRINT_END] = "'}}'",
        [PLIM_JT_NAME] = "a name",
        [PLIM_JT_STRING] = "a string",
        [PLIM_JT_INT] = "an integer",
        [PLIM_JT_FLOAT] = "a float",
    };
    const plim_jtoken *token = plim_jparse_token(p, 0);
    char found[80];
    if (token->type == PLIM_JT_OPERATOR && token->op >> 8)
        snprintf(found, sizeof found, "'%c%c'", token->op & 0xff, token->op >> 8);
    else if (token->type == PLIM_JT_OPERATOR) snprintf(found, sizeof found, "'%c'", token->op);
    else if (token->type == PLIM_JT_NAME)
        snprintf(found, sizeof found, "'%.*s'", (int)(token->bytes > 60 ? 60 : token->bytes), token->text);
    else snprintf(found, sizeof found, "%s", names[token->type]);
    if (wanted)
        return plim_jinja_fail(p->t->ctx, p->t, token->at, PLIM_E_FORMAT, "expected %s, got %s", wanted,
                               found);
    return plim_jinja_fail(p->t->ctx, p->t, token->at, PLIM_E_FORMAT, "unexpected %s", found);
}

plim_status plim_jparse_expect_op(plim_jparser *p, int op)
{
    char wanted[8] = {'\'', (char)(op & 0xff), '\'', 0};
    if (plim_jparse_skip_op(p, op)) return PLIM_OK;
    return plim_jparse_unexpected(p, wanted);
}

plim_status plim_jparse_js(plim_jparser *p, const plim_jtoken *token, const plim_js **out)
{
    return plim_js_make(&p->t->pool, token->text, token->bytes, plim_jrun_template(token->at, -1), out);
}

plim_status plim_jparse_expect_name(plim_jparser *p, const plim_js **out)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    if (token->type != PLIM_JT_NAME) return plim_jparse_unexpected(p, "a name");
    p->at++;
    return plim_jparse_js(p, token, out);
}

plim_status plim_jparse_node(plim_jparser *p, plim_jnode_type type, plim_jnode **out)
{
    plim_jnode *n = NULL;
    TRY(plim_pool_take(&p->t->pool, 1, sizeof *n, &n));
    n->type = type;
    n->at = plim_jparse_token(p, 0)->at;
    *out = n;
    return PLIM_OK;
}

plim_status plim_jparse_push(plim_jparser *p, plim_jnode ***items, size_t *count, size_t *cap,
                             plim_jnode *item)
{
    if (*count == *cap) {
        size_t want = *cap ? 2 * *cap : 4;
        plim_jnode **more = NULL;
        TRY(plim_pool_take(&p->t->pool, want, sizeof *more, &more));
        if (*count) memcpy(more, *items, *count * sizeof *more);
        *items = more;
        *cap = want;
    }
    (*items)[(*count)++] = item;
    return PLIM_OK;
}

plim_status plim_jparse_enter(plim_jparser *p)
{
    if (++p->depth > p->t->depth_limit)
        return plim_jinja_fail(p->t->ctx, p->t, plim_jparse_token(p, 0)->at, PLIM_E_RANGE,
                               "nested deeper than %d levels, the most that is read", (int)p->t->depth_limit);
    return PLIM_OK;
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static plim_status statements(plim_jparser *p, const char *const *ends, plim_jnode ***items, size_t *count);

static plim_status block_end(plim_jparser *p)
{
    if (plim_jparse_token(p, 0)->type != PLIM_JT_BLOCK_END) return plim_jparse_unexpected(p, "'%}'");
    p->at++;
    return PLIM_OK;
}

/* The rest of a tag, a body, and the name that ends it; "%}" is left for the caller. */
static plim_status body(plim_jparser *p, const char *end, plim_jnode *n)
{
    const char *const ends[] = {end, NULL};
    TRY(block_end(p));
    TRY(statements(p, ends, &n->items, &n->count));
    p->at++;
    return PLIM_OK;
}

static plim_status parse_for(plim_jparser *p, plim_jnode *n)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    n->type = PLIM_JN_FOR;
    TRY(plim_jparse_target(p, false, &n->a));
    if (!plim_jparse_skip_name(p, "in")) return plim_jparse_unexpected(p, "'in'");
    TRY(plim_jparse_tuple(p, false, false, &n->b));
    if (plim_jparse_skip_name(p, "if")) TRY(plim_jparse_expression(p, true, &n->c));
    if (plim_jparse_is_name(p, "recursive"))
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_UNSUPPORTED,
                               "a recursive for loop; write a macro");
    TRY(block_end(p));
    p->loops++;
    TRY(statements(p, ends, &n->items, &n->count));
    p->loops--;
    if (plim_jparse_skip_name(p, "endfor")) return PLIM_OK;
    p->at++;
    TRY(block_end(p));
    TRY(statements(p, (const char *const[]){"endfor", NULL}, &n->more, &n->more_count));
    p->at++;
    return PLIM_OK;
}

/* elif is an if alone in the else. */
static plim_status parse_if(plim_jparser *p, plim_jnode *n)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    for (;;) {
        plim_jnode *next = NULL;
        size_t cap = 0;
        n->type = PLIM_JN_IF;
        TRY(plim_jparse_tuple(p, false, false, &n->a));
        TRY(block_end(p));
        TRY(statements(p, ends, &n->items, &n->count));
        if (!plim_jparse_skip_name(p, "elif")) break;
        TRY(plim_jparse_node(p, PLIM_JN_IF, &next));
        TRY(plim_jparse_push(p, &n->more, &n->more_count, &cap, next));
        n = next;
    }
    if (plim_jparse_skip_name(p, "endif")) return PLIM_OK;
    p->at++;
    TRY(block_end(p));
    TRY(statements(p, (const char *const[]){"endif", NULL}, &n->more, &n->more_count));
    p->at++;
    return PLIM_OK;
}

static plim_status parse_set(plim_jparser *p, plim_jnode *n)
{
    n->type = PLIM_JN_SET;
    TRY(plim_jparse_target(p, true, &n->a));
    if (plim_jparse_skip_op(p, '=')) return plim_jparse_tuple(p, true, false, &n->b);
    n->type = PLIM_JN_SETBLOCK;
    TRY(plim_jparse_filters(p, NULL, false, &n->b));
    return body(p, "endset", n);
}

static plim_status signature(plim_jparser *p, plim_jnode *n)
{
    size_t cap = 0;
    TRY(plim_jparse_expect_op(p, '('));
    while (!plim_jparse_is_op(p, ')')) {
        plim_jkeyword param = {NULL, NULL};
        if (n->param_count) TRY(plim_jparse_expect_op(p, ','));
        TRY(plim_jparse_expect_name(p, &param.name));
        if (plim_jparse_skip_op(p, '=')) TRY(plim_jparse_expression(p, true, &param.value));
        else if (n->param_count && n->params[n->param_count - 1].value)
            return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_FORMAT,
                                   "non-default argument follows default argument");
        if (n->param_count == cap) {
            plim_jkeyword *more = NULL;
            cap = cap ? 2 * cap : 4;
            TRY(plim_pool_take(&p->t->pool, cap, sizeof *more, &more));
            if (n->param_count) memcpy(more, n->params, n->param_count * sizeof *more);
            n->params = more;
        }
        n->params[n->param_count++] = param;
    }
    p->at++;
    return PLIM_OK;
}

static plim_status parse_macro(plim_jparser *p, plim_jnode *n)
{
    int32_t loops = p->loops;
    n->type = PLIM_JN_MACRO;
    TRY(plim_jparse_expect_name(p, &n->name));
    TRY(signature(p, n));
    p->loops = 0;
    TRY(body(p, "endmacro", n));
    p->loops = loops;
    return PLIM_OK;
}

static plim_status parse_callblock(plim_jparser *p, plim_jnode *n)
{
    int32_t loops = p->loops;
    n->type = PLIM_JN_CALLBLOCK;
    if (plim_jparse_is_op(p, '(')) TRY(signature(p, n));
    TRY(plim_jparse_expression(p, true, &n->a));
    if (n->a->type != PLIM_JN_CALL)
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_FORMAT, "expected call");
    p->loops = 0;
    TRY(body(p, "endcall", n));
    p->loops = loops;
    return PLIM_OK;
}

static plim_status parse_filterblock(plim_jparser *p, plim_jnode *n)
{
    n->type = PLIM_JN_FILTERBLOCK;
    TRY(plim_jparse_filters(p, NULL, true, &n->a));
    return body(p, "endfilter", n);
}

static plim_status parse_with(plim_jparser *p, plim_jnode *n)
{
    size_t cap = 0;
    n->type = PLIM_JN_WITH;
    while (plim_jparse_token(p, 0)->type != PLIM_JT_BLOCK_END) {
        plim_jnode *target = NULL, *value = NULL;
        if (n->more_count) TRY(plim_jparse_expect_op(p, ','));
        TRY(plim_jparse_target(p, false, &target));
        TRY(plim_jparse_expect_op(p, '='));
        TRY(plim_jparse_expression(p, true, &value));
        TRY(plim_jparse_push(p, &n->more, &n->more_count, &cap, target));
        TRY(plim_jparse_push(p, &n->more, &n->more_count, &cap, value));
    }
    return body(p, "endwith", n);
}

static plim_status parse_generation(plim_jparser *p, plim_jnode *n)
{
    n->type = PLIM_JN_GENERATION;
    return body(p, "endgeneration", n);
}

static plim_status parse_jump(plim_jparser *p, plim_jnode *n, plim_jnode_type type)
{
    if (!p->loops)
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_FORMAT, "'%s' outside a loop",
                               type == PLIM_JN_BREAK ? "break" : "continue");
    n->type = type;
    return PLIM_OK;
}

static plim_status parse_break(plim_jparser *p, plim_jnode *n)
{
    return parse_jump(p, n, PLIM_JN_BREAK);
}

static plim_status parse_continue(plim_jparser *p, plim_jnode *n)
{
    return parse_jump(p, n, PLIM_JN_CONTINUE);
}

static plim_status statement(plim_jparser *p, plim_jnode **out)
{
    static const struct {
        const char *tag;
        plim_status (*parse)(plim_jparser *p, plim_jnode *n);
    } tags[] = {
        {"for", parse_for},        {"if", parse_if},
        {"set", parse_set},        {"macro", parse_macro},
        {"call", parse_callblock}, {"filter", parse_filterblock},
        {"with", parse_with},      {"generation", parse_generation},
        {"break", parse_break},    {"continue", parse_continue},
    };
    const plim_jtoken *token = plim_jparse_token(p, 0);
    plim_jnode *n = NULL;
    if (token->type != PLIM_JT_NAME) return plim_jparse_unexpected(p, "a tag's name");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!plim_jparse_is_name(p, tags[i].tag)) continue;
        TRY(plim_jparse_node(p, PLIM_JN_IF, &n));
        p->at++;
        TRY(tags[i].parse(p, n));
        *out = n;
        return block_end(p);
    }
    return plim_jinja_fail(p->t->ctx, p->t, token->at, PLIM_E_UNSUPPORTED, "Encountered unknown tag '%.*s'.",
                           (int)(token->bytes > 60 ? 60 : token->bytes), token->text);
}

static plim_status print(plim_jparser *p, plim_jnode **out)
{
    TRY(plim_jparse_node(p, PLIM_JN_PRINT, out));
    p->at++;
    TRY(plim_jparse_tuple(p, true, false, &(*out)->a));
    if (plim_jparse_token(p, 0)->type != PLIM_JT_PRINT_END) return plim_jparse_unexpected(p, "'}}'");
    p->at++;
    return PLIM_OK;
}

static bool is_end(const plim_jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (plim_jparse_is_name(p, *ends)) return true;
    return false;
}

static plim_status one(plim_jparser *p, plim_jnode **out)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    if (token->type == PLIM_JT_PRINT_BEGIN) return print(p, out);
    if (token->type == PLIM_JT_BLOCK_BEGIN) {
        p->at++;
        return statement(p, out);
    }
    if (token->type != PLIM_JT_DATA) return plim_jparse_unexpected(p, "text or a tag");
    TRY(plim_jparse_node(p, PLIM_JN_DATA, out));
    p->at++;
    return plim_jparse_js(p, token, &(*out)->name);
}

/* Up to a tag whose name is one of ends (that name is the next token then), or to the end of the template. */
static plim_status statements(plim_jparser *p, const char *const *ends, plim_jnode ***items, size_t *count)
{
    size_t cap = 0;
    TRY(plim_jparse_enter(p));
    for (;;) {
        plim_jnode *n = NULL;
        const plim_jtoken *token = plim_jparse_token(p, 0);
        if (token->type == PLIM_JT_END) {
            if (!ends) break;
            return plim_jinja_fail(p->t->ctx, p->t, token->at, PLIM_E_FORMAT,
                                   "Unexpected end of template; '%s' is missing", *ends);
        }
        if (token->type == PLIM_JT_BLOCK_BEGIN) {
            p->at++;
            if (is_end(p, ends)) break;
            p->at--;
        }
        TRY(one(p, &n));
        TRY(plim_jparse_push(p, items, count, &cap, n));
    }
    p->depth--;
    return PLIM_OK;
}

plim_status plim_jinja_parse(plim_jinja *t)
{
    plim_jparser p = {.t = t};
    return statements(&p, NULL, &t->body, &t->body_count);
}

/* ---- compiling ----------------------------------------------------------------------------------------- */

/* Copies the source: line ends become "\n", one at the very end goes. */
static plim_status copy_source(plim_jinja *t, const char *name, const char *text, size_t bytes)
{
    char *source = NULL, *title = NULL;
    size_t n = 0;
    TRY(plim_pool_take(&t->pool, strlen(name) + 1, 1, &title));
    memcpy(title, name, strlen(name) + 1);
    t->name = title;
    TRY(plim_pool_take(&t->pool, bytes + 5, 1, &source));
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n') continue;
        source[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n && source[n - 1] == '\n') source[--n] = 0;
    t->source = source;
    t->bytes = n;
    return PLIM_OK;
}

plim_status plim_jinja_open(plim_ctx *c, const char *name, const char *text, size_t bytes,
                            const plim_jinja_limits *limits, plim_jinja **out)
{
    plim_jinja *t = NULL;
    TRY(plim_alloc(c, 1, sizeof *t, "a template", &t));
    t->ctx = c;
    t->name = name;
    t->source = "";
    t->pool =
        (plim_pool){.ctx = c, .limit_bytes = limits->memory_bytes, .limit_steps = limits->steps, .t = t};
    t->depth_limit = limits->depth;
    plim_status st = copy_source(t, name, text, bytes);
    if (!st) st = plim_jinja_lex(t);
    if (!st) st = plim_jinja_parse(t);
    if (st) plim_jinja_close(t);
    else *out = t;
    return st;
}

void plim_jinja_close(plim_jinja *t)
{
    if (!t) return;
    plim_pool_close(&t->pool);
    plim_release(t->ctx, t);
}
