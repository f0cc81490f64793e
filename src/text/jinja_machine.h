/* jinja_machine.h - the state of one render, and what the parts of the interpreter ask of each other. */
#ifndef PLIM_TEXT_JINJA_MACHINE_H
#define PLIM_TEXT_JINJA_MACHINE_H

#include "text/jinja_tree.h"

/* Names of one block; the chain of parents ends at the row's variables. */
typedef struct plim_jscope {
    plim_jdict names;
    struct plim_jscope *parent;
} plim_jscope;

typedef struct plim_jm {
    plim_ctx *ctx;
    const plim_jinja *t;
    plim_pool *pool;
    plim_jscope *scope;
    plim_jbuilder *out;
    plim_jbuilder *root; /* generation marks count in it */
    size_t at;           /* byte of the template that is evaluated: for errors and for origins */
    int32_t turn;        /* message the loop around is at; -1: none */
    int32_t depth, depth_limit;
    bool broke, continued;
    plim_text_mark *marked;
    size_t marked_count, marked_cap;
} plim_jm;

typedef struct plim_jloop {
    const plim_jv *items;
    size_t count, index;
    plim_jv changed; /* what loop.changed saw last */
} plim_jloop;

typedef struct plim_jmacro {
    const plim_jnode *node; /* params and body */
    plim_jscope *scope;     /* where it was defined */
    bool takes_caller, takes_rest, takes_keywords;
} plim_jmacro;

/* Arguments of a call, evaluated. */
typedef struct plim_jcall {
    plim_jv *args;
    size_t count;
    plim_jpair *keywords;
    size_t keyword_count;
} plim_jcall;

#define PLIM_JARGS 8 /* most parameters of a built-in */

/* A filter, test, global function or method.  params names its parameters after the value itself, "a b c";
 * those before a '/' must be given; "*" alone: the function looks at the call. */
typedef struct plim_jfunction {
    const char *name, *params;
    plim_status (*run)(plim_jm *m, plim_jv self, const plim_jv args[PLIM_JARGS], const plim_jcall *call,
                       plim_jv *out);
} plim_jfunction;

typedef struct plim_jmethod {
    plim_jv self;
    const plim_jfunction *function;
} plim_jmethod;

/* Fails with the place of what is evaluated. */
plim_status plim_jm_fail(plim_jm *m, plim_status st, const char *fmt, ...) PLIM_PRINTF(3, 4);
plim_status plim_jm_enter(plim_jm *m);          /* one deeper; the caller leaves by m->depth-- */
plim_status plim_jm_use(plim_jm *m, plim_jv v); /* fails if v is undefined */

/* jinja_eval.c */
plim_status plim_jm_eval(plim_jm *m, const plim_jnode *n, plim_jv *out);
plim_status plim_jm_filter(plim_jm *m, const plim_jnode *n, plim_jv value, plim_jv *out);
/* jinja_statement.c */
plim_status plim_jm_run(plim_jm *m, plim_jnode *const *body, size_t count);
plim_status plim_jm_assign(plim_jm *m, const plim_jnode *target, plim_jv value);
plim_status plim_jm_capture(plim_jm *m, plim_jnode *const *body, size_t count, plim_jv *out);
plim_status plim_jm_scope(plim_jm *m, plim_jscope *parent, plim_jscope **out);
/* jinja_call.c */
plim_status plim_jm_args(plim_jm *m, const plim_jargs *args, plim_jcall *out);
plim_status plim_jm_call(plim_jm *m, plim_jv callee, const plim_jcall *call, plim_jv *out);
plim_status plim_jm_invoke(plim_jm *m, const plim_jfunction *f, const char *what, plim_jv self,
                           const plim_jcall *call, plim_jv *out);
plim_status plim_jm_macro(plim_jm *m, const plim_jnode *n, plim_jv *out);
/* jinja_access.c */
plim_status plim_jm_attr(plim_jm *m, plim_jv of, const plim_js *name, plim_jv *out);
plim_status plim_jm_item(plim_jm *m, plim_jv of, plim_jv key, plim_jv *out);
plim_status plim_jm_slice(plim_jm *m, plim_jv of, plim_jv first, plim_jv end, plim_jv step, plim_jv *out);
plim_status plim_jm_items(plim_jm *m, plim_jv of, const plim_jv **items,
                          size_t *count); /* what a loop sees */
plim_status plim_jm_length(plim_jm *m, plim_jv of, int64_t *out);
plim_status plim_jm_undefined(plim_jm *m, plim_jv *out, const char *fmt, ...) PLIM_PRINTF(3, 4);
/* "a.b.0" of v, as map(attribute=...) follows it. */
plim_status plim_jm_path(plim_jm *m, plim_jv of, plim_jv path, plim_jv *out);
/* jinja_operator.c */
bool plim_jv_true(plim_jv v);
plim_status plim_jv_equal(plim_pool *p, plim_jv a, plim_jv b, int depth, bool *out);
plim_status plim_jm_binary(plim_jm *m, int op, plim_jv a, plim_jv b, plim_jv *out);
plim_status plim_jm_unary(plim_jm *m, int op, plim_jv a, plim_jv *out);
plim_status plim_jm_compare(plim_jm *m, int op, plim_jv a, plim_jv b, bool *out);
plim_status plim_jm_contains(plim_jm *m, plim_jv in, plim_jv what, bool *out);
/* Python's sorted(): stable. by[i] is what items[i] is sorted by. */
plim_status plim_jm_sort(plim_jm *m, plim_jv *items, plim_jv *by, size_t count, bool reverse);
/* jinja_print.c */
plim_status plim_jm_text(plim_jm *m, plim_jv v, plim_jv *out); /* str(v), as a string */
plim_status plim_jm_repr(plim_jm *m, plim_jbuilder *b, plim_jv v);
plim_jrun plim_jm_origin(const plim_jm *m, plim_jv v); /* the run of text that a value turns into */
size_t plim_jinja_float_text(char buf[40], double f);  /* repr(f) */
plim_status plim_jm_escape(plim_jm *m, const plim_js *s, plim_jv *out); /* HTML; a marked string stays */
/* jinja_tojson.c, jinja_strftime.c */
plim_status plim_jm_tojson(plim_jm *m, plim_jv v, const plim_jv args[PLIM_JARGS], plim_jv *out);
plim_status plim_jm_strftime(plim_jm *m, const plim_js *format, plim_jv *out);
/* jinja_string.c: what methods and filters do alike */
plim_status plim_jm_strip(plim_jm *m, const plim_js *s, const plim_js *chars, bool left, bool right,
                          plim_jv *out);
plim_status plim_jm_case(plim_jm *m, const plim_js *s, char how, plim_jv *out); /* 'u' 'l' 't' 'c' 's' */
plim_status plim_jm_replace(plim_jm *m, const plim_js *s, const plim_js *from, const plim_js *to,
                            int64_t most, plim_jv *out);
plim_status plim_jm_join(plim_jm *m, const plim_js *between, const plim_jv *items, size_t count, bool convert,
                         plim_jv *out);
plim_status plim_jm_pad(plim_jm *m, const plim_js *s, int64_t width, const plim_js *fill, char where,
                        plim_jv *out);
/* jinja_case.c: upper, lower and title of one character, up to 3 code points */
size_t plim_jinja_case(uint32_t code, char how, uint32_t out[3]);
bool plim_jinja_cased(uint32_t code);

/* Tables of built-ins; NULL: not known. */
const plim_jfunction *plim_jinja_filter(const plim_js *name);
const plim_jfunction *plim_jinja_test(const plim_js *name);
const plim_jfunction *plim_jinja_global(const plim_js *name);
const plim_jfunction *plim_jinja_method(plim_jv of, const plim_js *name);
const plim_jfunction *plim_jinja_find(const plim_jfunction *table, const plim_js *name);
/* Methods Python has that the sandbox refuses, or that are not done here. */
bool plim_jinja_method_unsafe(plim_jv of, const plim_js *name);
bool plim_jinja_method_unknown(plim_jv of, const plim_js *name);

/* jinja_filter_list.c: filters of lists, the other half of the table in jinja_filter.c. */
extern const plim_jfunction plim_jinja_list_filters[];
/* jinja_method_string.c: methods of strings, for the tables in jinja_method.c. */
extern const plim_jfunction plim_jinja_string_methods[];

/* Typed arguments; what names the function in the message. */
plim_status plim_jm_need_string(plim_jm *m, const char *what, plim_jv v, const plim_js **out);
plim_status plim_jm_need_int(plim_jm *m, const char *what, plim_jv v, int64_t *out);

#endif
