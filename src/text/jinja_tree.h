/* jinja_tree.h - a compiled template: tokens, nodes, and where both stand in the source. */
#ifndef PLIM_TEXT_JINJA_TREE_H
#define PLIM_TEXT_JINJA_TREE_H

#include "text/jinja_value.h"

typedef enum plim_jtoken_type {
    PLIM_JT_END,
    PLIM_JT_DATA,
    PLIM_JT_BLOCK_BEGIN,
    PLIM_JT_BLOCK_END,
    PLIM_JT_PRINT_BEGIN,
    PLIM_JT_PRINT_END,
    PLIM_JT_NAME,
    PLIM_JT_STRING,
    PLIM_JT_INT,
    PLIM_JT_FLOAT,
    PLIM_JT_OPERATOR, /* op: PLIM_JOP_... */
} plim_jtoken_type;

/* Operators by the characters they are written with; two characters as one number. */
#define PLIM_JOP(a, b) ((int)(unsigned char)(a) | (int)(unsigned char)(b) << 8)

typedef struct plim_jtoken {
    plim_jtoken_type type;
    int op;
    size_t at;
    const char *text; /* data, name, decoded string */
    size_t bytes;
    int64_t i;
    double f;
} plim_jtoken;

typedef enum plim_jnode_type {
    /* expressions */
    PLIM_JN_CONST,   /* value */
    PLIM_JN_STRING,  /* name: its text */
    PLIM_JN_NAME,    /* name */
    PLIM_JN_LIST,    /* items */
    PLIM_JN_TUPLE,   /* items */
    PLIM_JN_DICT,    /* items: key, value, key, ... */
    PLIM_JN_UNARY,   /* op a */
    PLIM_JN_BINARY,  /* a op b */
    PLIM_JN_AND,     /* a b */
    PLIM_JN_OR,      /* a b */
    PLIM_JN_NOT,     /* a */
    PLIM_JN_CONCAT,  /* items */
    PLIM_JN_COMPARE, /* a, then items with ops */
    PLIM_JN_COND,    /* a if b else c */
    PLIM_JN_ATTR,    /* a . name */
    PLIM_JN_ITEM,    /* a [ b ] */
    PLIM_JN_SLICE,   /* a [ items[0] : items[1] : items[2] ], each may be NULL */
    PLIM_JN_CALL,    /* a ( args ) */
    PLIM_JN_FILTER,  /* a | name ( args ); a NULL: the text of a filter block */
    PLIM_JN_TEST,    /* a is name ( args ) */
    /* statements */
    PLIM_JN_DATA,        /* name: its text */
    PLIM_JN_PRINT,       /* a */
    PLIM_JN_FOR,         /* a: target, b: iterated, c: condition or NULL; items: body, more: else */
    PLIM_JN_IF,          /* a; items: body, more: else */
    PLIM_JN_SET,         /* a: target, b: value */
    PLIM_JN_SETBLOCK,    /* a: target, b: filter or NULL; items: body */
    PLIM_JN_MACRO,       /* name, params; items: body */
    PLIM_JN_CALLBLOCK,   /* a: call, params; items: body */
    PLIM_JN_FILTERBLOCK, /* a: filter; items: body */
    PLIM_JN_WITH,        /* more: target, value, target, ...; items: body */
    PLIM_JN_GENERATION,  /* items: body */
    PLIM_JN_BREAK,
    PLIM_JN_CONTINUE,
    PLIM_JN_NSREF, /* name . member: the target of a set */
} plim_jnode_type;

typedef struct plim_jnode plim_jnode;

typedef struct plim_jkeyword {
    const plim_js *name;
    plim_jnode *value; /* default of a parameter: NULL, none */
} plim_jkeyword;

typedef struct plim_jargs {
    plim_jnode **items;
    plim_jkeyword *keywords;
    size_t count, keyword_count;
    plim_jnode *list, *dict; /* *list, **dict; NULL: none */
} plim_jargs;

struct plim_jnode {
    plim_jnode_type type;
    int op;
    size_t at;
    const plim_js *name, *member;
    plim_jv value;
    plim_jnode *a, *b, *c;
    plim_jnode **items, **more;
    int *ops;
    size_t count, more_count;
    plim_jargs args;
    plim_jkeyword *params;
    size_t param_count;
    const void *entry; /* the filter or test that name stands for */
};

struct plim_jinja {
    plim_ctx *ctx;
    plim_pool pool;
    const char *name;   /* of the template */
    const char *source; /* line ends are "\n" */
    size_t bytes;
    plim_jtoken *tokens;
    size_t token_count;
    plim_jnode **body;
    size_t body_count;
    int32_t depth_limit;
};

/* Fails with "name:line:column: " before the message; the place is byte at of the source. */
plim_status plim_jinja_fail(plim_ctx *c, const plim_jinja *t, size_t at, plim_status st, const char *fmt, ...)
    PLIM_PRINTF(5, 6);

/* jinja_lexer.c: source -> tokens.  jinja_literal.c: a string between its quotes, a number. */
plim_status plim_jinja_lex(plim_jinja *t);
plim_status plim_jinja_unescape(plim_jinja *t, size_t at, size_t bytes, const char **out, size_t *out_bytes);
plim_status plim_jinja_number(plim_jinja *t, size_t *at, bool after_dot, plim_jtoken *out);
bool plim_jinja_space(uint32_t code); /* what Python's str.isspace says of one character */

/* The parser: tokens -> nodes.  jinja_parser.c has statements, jinja_expression.c expressions. */
typedef struct plim_jparser {
    plim_jinja *t;
    size_t at; /* token */
    int32_t depth;
    int32_t loops; /* for loops around */
} plim_jparser;

plim_status plim_jinja_parse(plim_jinja *t);
const plim_jtoken *plim_jparse_token(const plim_jparser *p, size_t ahead);
bool plim_jparse_is_op(const plim_jparser *p, int op);
bool plim_jparse_is_name(const plim_jparser *p, const char *word);
bool plim_jparse_skip_op(plim_jparser *p, int op);
bool plim_jparse_skip_name(plim_jparser *p, const char *word);
plim_status plim_jparse_expect_op(plim_jparser *p, int op);
plim_status plim_jparse_expect_name(plim_jparser *p, const plim_js **out);
plim_status plim_jparse_unexpected(plim_jparser *p, const char *wanted);
plim_status plim_jparse_node(plim_jparser *p, plim_jnode_type type, plim_jnode **out);
plim_status plim_jparse_push(plim_jparser *p, plim_jnode ***items, size_t *count, size_t *cap,
                             plim_jnode *item);
plim_status plim_jparse_js(plim_jparser *p, const plim_jtoken *token, const plim_js **out);
plim_status plim_jparse_expression(plim_jparser *p, bool with_condition, plim_jnode **out);
/* A tuple without brackets, or one expression; simple: targets of an assignment alone. */
plim_status plim_jparse_tuple(plim_jparser *p, bool with_condition, bool in_brackets, plim_jnode **out);
plim_status plim_jparse_target(plim_jparser *p, bool with_namespace, plim_jnode **out);
plim_status plim_jparse_filters(plim_jparser *p, plim_jnode *of, bool inline_start, plim_jnode **out);

/* One level deeper; the caller leaves it again by p->depth--. */
plim_status plim_jparse_enter(plim_jparser *p);

#endif
