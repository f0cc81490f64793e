/* jinja_value.h - values of a template: immutable, each with the place it came from, all in one pool of
 * memory.
 *
 * A pool only grows and is released whole, so no value is ever freed alone and a failure leaves nothing
 * behind. */
#ifndef PLIM_TEXT_JINJA_VALUE_H
#define PLIM_TEXT_JINJA_VALUE_H

#include "text/jinja.h"

/* ---- pool ---------------------------------------------------------------------------------------------- */

typedef struct plim_pool_block {
    struct plim_pool_block *next;
    size_t bytes;
} plim_pool_block;

typedef struct plim_pool {
    plim_ctx *ctx;
    plim_pool_block *blocks;
    char *at;
    size_t left_bytes, used_bytes, limit_bytes;
    int64_t steps, limit_steps;
    const struct plim_jinja *t; /* whose values: for messages */
    const size_t *at_byte;      /* byte of the template that is evaluated; NULL: none */
} plim_pool;

/* Zeroed memory, aligned for any value; costs a step for every 64 bytes.
 * Errors: PLIM_E_RANGE (a limit), PLIM_E_OOM_HOST. */
plim_status plim_pool_take(plim_pool *p, size_t count, size_t size, void *out);
plim_status plim_pool_step(plim_pool *p, size_t touched_bytes); /* one step, and one for every 64 bytes */
void plim_pool_close(plim_pool *p);

/* ---- values -------------------------------------------------------------------------------------------- */

typedef enum plim_jv_kind {
    PLIM_JV_MISSING, /* zeroed: an argument that was not given */
    PLIM_JV_UNDEFINED,
    PLIM_JV_NONE,
    PLIM_JV_BOOL,
    PLIM_JV_INT,
    PLIM_JV_FLOAT,
    PLIM_JV_STRING,
    PLIM_JV_LIST,
    PLIM_JV_TUPLE,
    PLIM_JV_DICT,
    PLIM_JV_RANGE,
    PLIM_JV_NAMESPACE,
    PLIM_JV_LOOP,
    PLIM_JV_MACRO,
    PLIM_JV_FUNCTION, /* a global function */
    PLIM_JV_METHOD,   /* a method of a value */
} plim_jv_kind;

/* A run of a string: as plim_text_run, but with its length. */
typedef struct plim_jrun {
    size_t bytes, template_at;
    int32_t message, turn;
    plim_origin origin;
} plim_jrun;

/* UTF-8; not zero-terminated.  Runs cover it without gaps. */
typedef struct plim_js {
    const char *text;
    size_t bytes, chars;
    const plim_jrun *runs;
    size_t run_count;
    bool markup; /* marked safe: what is added to it is escaped */
} plim_js;

struct plim_jlist;
struct plim_jdict;
struct plim_jmacro;
struct plim_jloop;
struct plim_jmethod;
struct plim_jfunction;

typedef struct plim_jv {
    uint8_t kind;    /* plim_jv_kind */
    uint8_t origin;  /* plim_origin of what is no string */
    bool whole;      /* this dict is a message, not a part of one */
    int32_t message; /* index, -1: none */
    union {
        bool b;
        int64_t i;
        double f;
        const plim_js *s; /* also the message of an undefined value */
        const struct plim_jlist *list;
        struct plim_jdict *dict; /* only a namespace's is ever written */
        const struct plim_jrange *range;
        const struct plim_jmacro *macro;
        struct plim_jloop *loop;
        const struct plim_jmethod *method;
        const struct plim_jfunction *function;
    } u;
} plim_jv;

typedef struct plim_jlist {
    const plim_jv *items;
    size_t count;
} plim_jlist;

typedef struct plim_jpair {
    plim_jv key, value;
} plim_jpair;

typedef struct plim_jdict {
    plim_jpair *pairs;
    size_t count, cap;
} plim_jdict;

typedef struct plim_jrange {
    int64_t first, step, end;
    size_t count;
} plim_jrange;

static inline plim_jv plim_jv_none(void)
{
    return (plim_jv){.kind = PLIM_JV_NONE, .message = -1};
}

static inline plim_jv plim_jv_bool(bool b)
{
    return (plim_jv){.kind = PLIM_JV_BOOL, .message = -1, .u.b = b};
}

static inline plim_jv plim_jv_int(int64_t i)
{
    return (plim_jv){.kind = PLIM_JV_INT, .message = -1, .u.i = i};
}

static inline plim_jv plim_jv_float(double f)
{
    return (plim_jv){.kind = PLIM_JV_FLOAT, .message = -1, .u.f = f};
}

static inline plim_jv plim_jv_string(const plim_js *s)
{
    return (plim_jv){.kind = PLIM_JV_STRING, .message = -1, .u.s = s};
}

static inline bool plim_jv_is_number(plim_jv v)
{
    return v.kind == PLIM_JV_INT || v.kind == PLIM_JV_FLOAT || v.kind == PLIM_JV_BOOL;
}

static inline bool plim_jv_is_list(plim_jv v)
{
    return v.kind == PLIM_JV_LIST || v.kind == PLIM_JV_TUPLE;
}

/* 1 and True are the integer 1. */
static inline bool plim_jv_as_int(plim_jv v, int64_t *out)
{
    if (v.kind != PLIM_JV_INT && v.kind != PLIM_JV_BOOL) return false;
    *out = v.kind == PLIM_JV_BOOL ? v.u.b : v.u.i;
    return true;
}

/* Of any number; 0 of anything else. */
static inline double plim_jv_as_double(plim_jv v)
{
    return v.kind == PLIM_JV_FLOAT  ? v.u.f
           : v.kind == PLIM_JV_BOOL ? v.u.b
           : v.kind == PLIM_JV_INT  ? (double)v.u.i
                                    : 0;
}

/* The name Python has for the type: "str", "NoneType". */
const char *plim_jv_type(plim_jv v);

/* A list or tuple of count items; items are then written by the caller. */
plim_status plim_jv_list(plim_pool *p, plim_jv_kind kind, size_t count, plim_jv **items, plim_jv *out);

/* An empty dict, and adding to it; set replaces an equal key. */
plim_status plim_jv_dict(plim_pool *p, size_t cap, plim_jv *out);
plim_status plim_jdict_set(plim_pool *p, plim_jdict *d, plim_jv key, plim_jv value);
plim_status plim_jdict_find(plim_pool *p, const plim_jdict *d, plim_jv key,
                            const plim_jpair **out);                    /* or NULL */
const plim_jpair *plim_jdict_get(const plim_jdict *d, const char *key); /* by a known name; or NULL */

/* The row's JSON as values, with origins. */
plim_status plim_jv_from_json(plim_pool *p, const json_t *value, plim_jv *out);

/* ---- strings ------------------------------------------------------------------------------------------- */

typedef struct plim_jbuilder {
    plim_pool *pool;
    char *text;
    plim_jrun *runs;
    size_t bytes, cap, run_count, run_cap, limit_bytes;
} plim_jbuilder;

/* A run of the template's text at byte at; its length is set by what it is put on. */
static inline plim_jrun plim_jrun_template(size_t at, int32_t turn)
{
    return (plim_jrun){.template_at = at, .message = -1, .turn = turn, .origin = PLIM_ORIGIN_TEMPLATE};
}

/* Adding to a builder; limit_bytes 0: none of its own. */
plim_status plim_jbuilder_add(plim_jbuilder *b, const char *text, size_t bytes, plim_jrun run);
plim_status plim_jbuilder_add_string(plim_jbuilder *b, const plim_js *s);
plim_status plim_jbuilder_add_part(plim_jbuilder *b, const plim_js *s, size_t begin, size_t end);
plim_status plim_jbuilder_done(plim_jbuilder *b, bool markup, plim_jv *out);

/* A string of one run; the text is kept, not copied. */
plim_status plim_js_make(plim_pool *p, const char *text, size_t bytes, plim_jrun run, const plim_js **out);
/* Bytes begin .. end - 1 of s; the text is shared. */
plim_status plim_js_part(plim_pool *p, const plim_js *s, size_t begin, size_t end, plim_jv *out);
plim_status plim_js_join2(plim_pool *p, const plim_js *a, const plim_js *b, bool markup, plim_jv *out);
size_t plim_js_offset(const plim_js *s, size_t character); /* byte of a character; chars: the end */
bool plim_js_is(const plim_js *s, const char *word);
bool plim_js_equal(const plim_js *a, const plim_js *b);
int plim_js_order(const plim_js *a, const plim_js *b); /* by code points */
/* First byte at or after from where part starts; SIZE_MAX: nowhere. */
size_t plim_js_find(const plim_js *s, const plim_js *part, size_t from);
size_t plim_js_find_last(const plim_js *s, const plim_js *part, size_t end); /* wholly before end */
/* The run of byte at, cut to nothing behind or before; its template position moved along. */
plim_jrun plim_js_run_at(const plim_js *s, size_t at);

/* One character: its code point, and its bytes in *n. */
uint32_t plim_utf8_decode(const char *text, size_t bytes, size_t *n);
size_t plim_utf8_encode(char out[4], uint32_t code);

#endif
