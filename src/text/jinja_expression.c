/* jinja_expression.c - decides how tight operators bind, as Jinja has it:
 * if-else, or, and, not, comparisons, + -, ~, * / // %, **, unary, then calls, items, filters and tests. */
#include "text/jinja_machine.h"

#include <string.h>

static plim_status parse_or(plim_jparser *p, plim_jnode **out);
static plim_status parse_unary(plim_jparser *p, bool with_filter, plim_jnode **out);

static plim_status pair(plim_jparser *p, plim_jnode_type type, int op, plim_jnode *a, plim_jnode *b,
                        plim_jnode **out)
{
    size_t at = plim_jparse_token(p, 0)->at;
    TRY(plim_jparse_node(p, type, out));
    (*out)->at = a ? a->at : at;
    (*out)->op = op;
    (*out)->a = a;
    (*out)->b = b;
    return PLIM_OK;
}

/* ---- primary ------------------------------------------------------------------------------------------- */

static plim_status items(plim_jparser *p, plim_jnode_type type, int close, plim_jnode **out)
{
    size_t cap = 0;
    plim_jnode *n = NULL, *item = NULL;
    TRY(plim_jparse_node(p, type, &n));
    p->at++;
    while (!plim_jparse_is_op(p, close)) {
        if (n->count) TRY(plim_jparse_expect_op(p, ','));
        if (plim_jparse_is_op(p, close)) break;
        TRY(plim_jparse_expression(p, true, &item));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
        if (type != PLIM_JN_DICT) continue;
        TRY(plim_jparse_expect_op(p, ':'));
        TRY(plim_jparse_expression(p, true, &item));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
    }
    p->at++;
    *out = n;
    return PLIM_OK;
}

static plim_status name(plim_jparser *p, plim_jnode **out)
{
    static const struct {
        const char *word;
        plim_jv value;
    } words[] = {
        {"true", {.kind = PLIM_JV_BOOL, .message = -1, .u.b = true}},
        {"True", {.kind = PLIM_JV_BOOL, .message = -1, .u.b = true}},
        {"false", {.kind = PLIM_JV_BOOL, .message = -1}},
        {"False", {.kind = PLIM_JV_BOOL, .message = -1}},
        {"none", {.kind = PLIM_JV_NONE, .message = -1}},
        {"None", {.kind = PLIM_JV_NONE, .message = -1}},
    };
    const plim_jtoken *token = plim_jparse_token(p, 0);
    plim_jnode *n = NULL;
    TRY(plim_jparse_node(p, PLIM_JN_NAME, &n));
    TRY(plim_jparse_js(p, token, &n->name));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (plim_js_is(n->name, words[i].word)) {
            n->type = PLIM_JN_CONST;
            n->value = words[i].value;
        }
    p->at++;
    *out = n;
    return PLIM_OK;
}

/* Strings beside each other are one. */
static plim_status strings(plim_jparser *p, plim_jnode **out)
{
    plim_jbuilder b = {.pool = &p->t->pool};
    plim_jnode *n = NULL;
    plim_jv made;
    TRY(plim_jparse_node(p, PLIM_JN_STRING, &n));
    n->at--; /* messages point at the quote */
    for (const plim_jtoken *k; (k = plim_jparse_token(p, 0))->type == PLIM_JT_STRING; p->at++) {
        if (plim_jparse_token(p, 1)->type != PLIM_JT_STRING && !b.bytes) {
            TRY(plim_jparse_js(p, k, &n->name));
            continue;
        }
        TRY(plim_jbuilder_add(&b, k->text, k->bytes, plim_jrun_template(k->at, -1)));
    }
    if (b.bytes) {
        TRY(plim_jbuilder_done(&b, false, &made));
        n->name = made.u.s;
    }
    *out = n;
    return PLIM_OK;
}

static plim_status parse_primary(plim_jparser *p, plim_jnode **out)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    switch (token->type) {
    case PLIM_JT_NAME: return name(p, out);
    case PLIM_JT_STRING: return strings(p, out);
    case PLIM_JT_INT:
    case PLIM_JT_FLOAT:
        TRY(plim_jparse_node(p, PLIM_JN_CONST, out));
        (*out)->value = token->type == PLIM_JT_INT ? plim_jv_int(token->i) : plim_jv_float(token->f);
        p->at++;
        return PLIM_OK;
    default: break;
    }
    if (plim_jparse_is_op(p, '[')) return items(p, PLIM_JN_LIST, ']', out);
    if (plim_jparse_is_op(p, '{')) return items(p, PLIM_JN_DICT, '}', out);
    if (!plim_jparse_skip_op(p, '(')) return plim_jparse_unexpected(p, NULL);
    TRY(plim_jparse_tuple(p, true, true, out));
    return plim_jparse_expect_op(p, ')');
}

/* ---- what follows a primary ---------------------------------------------------------------------------- */

static plim_status parse_args(plim_jparser *p, plim_jargs *args)
{
    size_t cap = 0, keyword_cap = 0;
    plim_jnode *value = NULL;
    TRY(plim_jparse_expect_op(p, '('));
    for (bool first = true; !plim_jparse_is_op(p, ')'); first = false) {
        if (!first) TRY(plim_jparse_expect_op(p, ','));
        if (plim_jparse_is_op(p, ')')) break;
        if (plim_jparse_is_op(p, '*') && !args->list && !args->dict) {
            p->at++;
            TRY(plim_jparse_expression(p, true, &args->list));
        } else if (plim_jparse_is_op(p, PLIM_JOP('*', '*')) && !args->dict) {
            p->at++;
            TRY(plim_jparse_expression(p, true, &args->dict));
        } else if (plim_jparse_token(p, 0)->type == PLIM_JT_NAME &&
                   plim_jparse_token(p, 1)->type == PLIM_JT_OPERATOR && plim_jparse_token(p, 1)->op == '=') {
            const plim_js *key = NULL;
            if (args->dict) return plim_jparse_unexpected(p, "')'");
            TRY(plim_jparse_expect_name(p, &key));
            p->at++;
            TRY(plim_jparse_expression(p, true, &value));
            if (args->keyword_count == keyword_cap) {
                plim_jkeyword *more = NULL;
                keyword_cap = keyword_cap ? 2 * keyword_cap : 4;
                TRY(plim_pool_take(&p->t->pool, keyword_cap, sizeof *more, &more));
                if (args->keyword_count) memcpy(more, args->keywords, args->keyword_count * sizeof *more);
                args->keywords = more;
            }
            args->keywords[args->keyword_count++] = (plim_jkeyword){key, value};
        } else {
            if (args->list || args->dict || args->keyword_count)
                return plim_jparse_unexpected(p, "a keyword argument");
            TRY(plim_jparse_expression(p, true, &value));
            TRY(plim_jparse_push(p, &args->items, &args->count, &cap, value));
        }
    }
    p->at++;
    return PLIM_OK;
}

/* Behind "[": an expression, or a slice when it has colons. */
static plim_status subscript(plim_jparser *p, plim_jnode *of, plim_jnode **out)
{
    plim_jnode *part[3] = {NULL, NULL, NULL}, *n = NULL;
    size_t colons = 0, cap = 0;
    if (!plim_jparse_is_op(p, ':')) TRY(plim_jparse_expression(p, true, &part[0]));
    while (colons < 2 && plim_jparse_skip_op(p, ':')) {
        colons++;
        if (!plim_jparse_is_op(p, ':') && !plim_jparse_is_op(p, ']'))
            TRY(plim_jparse_expression(p, true, &part[colons]));
    }
    if (!plim_jparse_is_op(p, ']')) return plim_jparse_unexpected(p, "']'");
    p->at++;
    TRY(pair(p, colons ? PLIM_JN_SLICE : PLIM_JN_ITEM, 0, of, part[0], &n));
    for (int i = 0; colons && i < 3; i++) TRY(plim_jparse_push(p, &n->items, &n->count, &cap, part[i]));
    *out = n;
    return PLIM_OK;
}

static plim_status attribute(plim_jparser *p, plim_jnode *of, plim_jnode **out)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    if (token->type == PLIM_JT_INT) {
        plim_jnode *key = NULL;
        TRY(parse_primary(p, &key));
        return pair(p, PLIM_JN_ITEM, 0, of, key, out);
    }
    TRY(pair(p, PLIM_JN_ATTR, 0, of, NULL, out));
    if (token->type != PLIM_JT_NAME) return plim_jparse_unexpected(p, "a name or a number");
    return plim_jparse_expect_name(p, &(*out)->name);
}

static plim_status parse_call(plim_jparser *p, plim_jnode *of, plim_jnode **out)
{
    TRY(pair(p, PLIM_JN_CALL, 0, of, NULL, out));
    return parse_args(p, &(*out)->args);
}

static plim_status parse_postfix(plim_jparser *p, plim_jnode **node)
{
    for (;;) {
        if (plim_jparse_skip_op(p, '.')) TRY(attribute(p, *node, node));
        else if (plim_jparse_skip_op(p, '[')) TRY(subscript(p, *node, node));
        else if (plim_jparse_is_op(p, '(')) TRY(parse_call(p, *node, node));
        else return PLIM_OK;
    }
}

static plim_status one_filter(plim_jparser *p, plim_jnode *of, plim_jnode **out)
{
    plim_jnode *n = NULL;
    TRY(plim_jparse_node(p, PLIM_JN_FILTER, &n));
    n->a = of;
    TRY(plim_jparse_expect_name(p, &n->name));
    n->entry = plim_jinja_filter(n->name);
    if (!n->entry)
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_UNSUPPORTED, "No filter named '%.*s'.",
                               (int)(n->name->bytes > 60 ? 60 : n->name->bytes), n->name->text);
    if (plim_jparse_is_op(p, '(')) TRY(parse_args(p, &n->args));
    *out = n;
    return PLIM_OK;
}

plim_status plim_jparse_filters(plim_jparser *p, plim_jnode *of, bool inline_start, plim_jnode **out)
{
    *out = of;
    if (inline_start) TRY(one_filter(p, *out, out));
    while (plim_jparse_skip_op(p, '|')) TRY(one_filter(p, *out, out));
    return PLIM_OK;
}

/* Whether a test's argument without brackets starts here: "x is divisibleby 3". */
static bool bare_argument(const plim_jparser *p)
{
    const plim_jtoken *token = plim_jparse_token(p, 0);
    if (token->type == PLIM_JT_NAME)
        return !plim_jparse_is_name(p, "else") && !plim_jparse_is_name(p, "or") &&
               !plim_jparse_is_name(p, "and");
    return token->type == PLIM_JT_STRING || token->type == PLIM_JT_INT || token->type == PLIM_JT_FLOAT ||
           plim_jparse_is_op(p, '[') || plim_jparse_is_op(p, '{');
}

static plim_status parse_test(plim_jparser *p, plim_jnode *of, plim_jnode **out)
{
    bool negated = plim_jparse_skip_name(p, "not");
    size_t cap = 0;
    plim_jnode *n = NULL, *argument = NULL;
    TRY(plim_jparse_node(p, PLIM_JN_TEST, &n));
    n->a = of;
    TRY(plim_jparse_expect_name(p, &n->name));
    n->entry = plim_jinja_test(n->name);
    if (!n->entry)
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_UNSUPPORTED, "No test named '%.*s'.",
                               (int)(n->name->bytes > 60 ? 60 : n->name->bytes), n->name->text);
    if (plim_jparse_is_op(p, '(')) TRY(parse_args(p, &n->args));
    else if (bare_argument(p)) {
        if (plim_jparse_is_name(p, "is"))
            return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_FORMAT,
                                   "You cannot chain multiple tests with is");
        TRY(parse_primary(p, &argument));
        TRY(parse_postfix(p, &argument));
        TRY(plim_jparse_push(p, &n->args.items, &n->args.count, &cap, argument));
    }
    return negated ? pair(p, PLIM_JN_NOT, 0, n, NULL, out) : (*out = n, PLIM_OK);
}

/* ---- operators ----------------------------------------------------------------------------------------- */

static plim_status unary_inner(plim_jparser *p, bool with_filter, plim_jnode **out)
{
    if (plim_jparse_is_op(p, '-') || plim_jparse_is_op(p, '+')) {
        plim_jnode *n = NULL;
        TRY(plim_jparse_node(p, PLIM_JN_UNARY, &n));
        n->op = plim_jparse_token(p, 0)->op;
        p->at++;
        TRY(parse_unary(p, false, &n->a));
        *out = n;
    } else TRY(parse_primary(p, out));
    TRY(parse_postfix(p, out));
    while (with_filter) {
        if (plim_jparse_is_op(p, '|')) TRY(plim_jparse_filters(p, *out, false, out));
        else if (plim_jparse_skip_name(p, "is")) TRY(parse_test(p, *out, out));
        else if (plim_jparse_is_op(p, '(')) TRY(parse_call(p, *out, out));
        else break;
    }
    return PLIM_OK;
}

static plim_status parse_unary(plim_jparser *p, bool with_filter, plim_jnode **out)
{
    TRY(plim_jparse_enter(p));
    plim_status st = unary_inner(p, with_filter, out);
    p->depth--;
    return st;
}

/* Binary operators that group from the left, tightest last. */
static plim_status parse_level(plim_jparser *p, int level, plim_jnode **out)
{
    static const int ops[][4] = {
        {'+', '-', 0, 0}, {0}, {'*', '/', PLIM_JOP('/', '/'), '%'}, {PLIM_JOP('*', '*'), 0, 0, 0}};
    if (level == 4) return parse_unary(p, true, out);
    TRY(parse_level(p, level + 1, out));
    if (level == 1) { /* ~ joins any number at once */
        size_t cap = 0;
        plim_jnode *n = NULL, *more = *out;
        if (!plim_jparse_is_op(p, '~')) return PLIM_OK;
        TRY(pair(p, PLIM_JN_CONCAT, 0, *out, NULL, &n));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, more));
        while (plim_jparse_skip_op(p, '~')) {
            TRY(parse_level(p, level + 1, &more));
            TRY(plim_jparse_push(p, &n->items, &n->count, &cap, more));
        }
        *out = n;
        return PLIM_OK;
    }
    for (;;) {
        int found = 0;
        plim_jnode *right = NULL;
        for (int i = 0; i < 4; i++)
            if (ops[level][i] && plim_jparse_is_op(p, ops[level][i])) found = ops[level][i];
        if (!found) return PLIM_OK;
        p->at++;
        TRY(parse_level(p, level + 1, &right));
        TRY(pair(p, PLIM_JN_BINARY, found, *out, right, out));
    }
}

static int compare_op(plim_jparser *p)
{
    static const int ops[] = {
        PLIM_JOP('=', '='), PLIM_JOP('!', '='), PLIM_JOP('<', '='), PLIM_JOP('>', '='), '<', '>'};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (plim_jparse_skip_op(p, ops[i])) return ops[i];
    if (plim_jparse_skip_name(p, "in")) return 'i';
    const plim_jtoken *next = plim_jparse_token(p, 1);
    if (!plim_jparse_is_name(p, "not") || next->type != PLIM_JT_NAME || next->bytes != 2 ||
        memcmp(next->text, "in", 2))
        return 0;
    p->at += 2;
    return 'n';
}

static plim_status parse_compare(plim_jparser *p, plim_jnode **out)
{
    size_t cap = 0, op_cap = 0;
    plim_jnode *n = NULL, *right = NULL;
    TRY(parse_level(p, 0, out));
    for (int op; (op = compare_op(p)) != 0;) {
        if (!n) TRY(pair(p, PLIM_JN_COMPARE, 0, *out, NULL, &n));
        if (n->count == op_cap) {
            int *more = NULL;
            op_cap = op_cap ? 2 * op_cap : 4;
            TRY(plim_pool_take(&p->t->pool, op_cap, sizeof *more, &more));
            if (n->count) memcpy(more, n->ops, n->count * sizeof *more);
            n->ops = more;
        }
        n->ops[n->count] = op;
        TRY(parse_level(p, 0, &right));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, right));
        *out = n;
    }
    return PLIM_OK;
}

static plim_status parse_not(plim_jparser *p, plim_jnode **out)
{
    if (!plim_jparse_is_name(p, "not")) return parse_compare(p, out);
    plim_jnode *n = NULL;
    TRY(plim_jparse_enter(p));
    TRY(plim_jparse_node(p, PLIM_JN_NOT, &n));
    p->at++;
    TRY(parse_not(p, &n->a));
    p->depth--;
    *out = n;
    return PLIM_OK;
}

static plim_status parse_and(plim_jparser *p, plim_jnode **out)
{
    TRY(parse_not(p, out));
    while (plim_jparse_skip_name(p, "and")) {
        plim_jnode *right = NULL;
        TRY(parse_not(p, &right));
        TRY(pair(p, PLIM_JN_AND, 0, *out, right, out));
    }
    return PLIM_OK;
}

static plim_status parse_or(plim_jparser *p, plim_jnode **out)
{
    TRY(parse_and(p, out));
    while (plim_jparse_skip_name(p, "or")) {
        plim_jnode *right = NULL;
        TRY(parse_and(p, &right));
        TRY(pair(p, PLIM_JN_OR, 0, *out, right, out));
    }
    return PLIM_OK;
}

plim_status plim_jparse_expression(plim_jparser *p, bool with_condition, plim_jnode **out)
{
    TRY(plim_jparse_enter(p));
    TRY(parse_or(p, out));
    while (with_condition && plim_jparse_skip_name(p, "if")) {
        plim_jnode *condition = NULL, *n = NULL;
        TRY(parse_or(p, &condition));
        TRY(pair(p, PLIM_JN_COND, 0, *out, condition, &n));
        if (plim_jparse_skip_name(p, "else")) TRY(plim_jparse_expression(p, true, &n->c));
        *out = n;
    }
    p->depth--;
    return PLIM_OK;
}

static bool tuple_ends(const plim_jparser *p)
{
    plim_jtoken_type type = plim_jparse_token(p, 0)->type;
    return type == PLIM_JT_PRINT_END || type == PLIM_JT_BLOCK_END || plim_jparse_is_op(p, ')');
}

plim_status plim_jparse_tuple(plim_jparser *p, bool with_condition, bool in_brackets, plim_jnode **out)
{
    size_t cap = 0;
    plim_jnode *n = NULL, *item = NULL;
    TRY(plim_jparse_node(p, PLIM_JN_TUPLE, &n));
    if (tuple_ends(p)) {
        if (!in_brackets) return plim_jparse_unexpected(p, "an expression");
        *out = n;
        return PLIM_OK;
    }
    TRY(plim_jparse_expression(p, with_condition, &item));
    if (!plim_jparse_is_op(p, ',')) {
        *out = item;
        return PLIM_OK;
    }
    TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
    while (plim_jparse_skip_op(p, ',') && !tuple_ends(p)) {
        TRY(plim_jparse_expression(p, with_condition, &item));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
    }
    *out = n;
    return PLIM_OK;
}

static plim_status one_target(plim_jparser *p, bool with_namespace, plim_jnode **out)
{
    plim_jnode *n = NULL;
    if (plim_jparse_skip_op(p, '(')) {
        TRY(plim_jparse_target(p, false, out));
        return plim_jparse_expect_op(p, ')');
    }
    const plim_jtoken *token = plim_jparse_token(p, 0);
    if (token->type != PLIM_JT_NAME) return plim_jparse_unexpected(p, "a name");
    TRY(name(p, &n));
    if (n->type != PLIM_JN_NAME)
        return plim_jinja_fail(p->t->ctx, p->t, n->at, PLIM_E_FORMAT, "can't assign to 'const'");
    if (with_namespace && plim_jparse_skip_op(p, '.')) {
        n->type = PLIM_JN_NSREF;
        TRY(plim_jparse_expect_name(p, &n->member));
    }
    *out = n;
    return PLIM_OK;
}

plim_status plim_jparse_target(plim_jparser *p, bool with_namespace, plim_jnode **out)
{
    size_t cap = 0;
    plim_jnode *n = NULL, *item = NULL;
    TRY(plim_jparse_enter(p));
    TRY(one_target(p, with_namespace, &item));
    if (plim_jparse_is_op(p, ',')) {
        TRY(plim_jparse_node(p, PLIM_JN_TUPLE, &n));
        TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
        while (plim_jparse_skip_op(p, ',') && plim_jparse_token(p, 0)->type == PLIM_JT_NAME &&
               !plim_jparse_is_name(p, "in")) {
            TRY(one_target(p, with_namespace, &item));
            TRY(plim_jparse_push(p, &n->items, &n->count, &cap, item));
        }
        item = n;
    }
    p->depth--;
    *out = item;
    return PLIM_OK;
}
