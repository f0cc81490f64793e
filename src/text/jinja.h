/* jinja.h - chat templates: a Jinja interpreter whose output remembers where every byte came from.
 *
 * What is understood is what chat templates are written in: Jinja 3.1 with trim_blocks, lstrip_blocks, loop
 * controls and the generation tag, in the immutable sandbox that transformers renders them in.  A template or
 * a row from a stranger can neither crash, hang, nor fill the memory: limits end it with an ordinary error.
 * docs/labels.md describes what becomes of the runs. */
#ifndef PLIM_TEXT_JINJA_H
#define PLIM_TEXT_JINJA_H

#include <jansson.h>

#include "base/context.h"

/* What one compilation or one render may take. */
typedef struct plim_jinja_limits {
    int64_t steps;       /* evaluated nodes, and one for every 64 bytes that are touched */
    int32_t depth;       /* expressions, blocks and calls inside each other */
    size_t output_bytes; /* rendered text */
    size_t memory_bytes; /* all values together */
} plim_jinja_limits;

/* 100 million steps, depth 600, 256 MiB of output, 1 GiB of values: far above any honest row. */
plim_jinja_limits plim_jinja_limits_defaults(void);

/* Where a stretch of text came from. */
typedef enum plim_origin {
    PLIM_ORIGIN_TEMPLATE,   /* the template's own text, or computed by it */
    PLIM_ORIGIN_VARIABLE,   /* a variable other than messages: tools, bos_token */
    PLIM_ORIGIN_MESSAGE,    /* a message: a field without an origin of its own */
    PLIM_ORIGIN_ROLE,       /* "role" of a message */
    PLIM_ORIGIN_CONTENT,    /* "content" */
    PLIM_ORIGIN_REASONING,  /* "reasoning_content", "reasoning", "thinking" */
    PLIM_ORIGIN_TOOL_CALLS, /* "tool_calls" */
} plim_origin;

/* Bytes begin .. end - 1 of a rendered text.  Runs are in order, leave no gap and are never empty. */
typedef struct plim_text_run {
    size_t begin, end;
    plim_origin origin;
    int32_t message;    /* index of the message the text belongs to; -1: none */
    int32_t turn;       /* index of the message that the loop around was at; -1: outside such a loop */
    size_t template_at; /* PLIM_ORIGIN_TEMPLATE: byte of the template; line ends count as one byte */
} plim_text_run;

/* A {% generation %} block: bytes begin .. end - 1. */
typedef struct plim_text_mark {
    size_t begin, end;
} plim_text_mark;

/* A rendered text, zero-terminated. */
typedef struct plim_rendered {
    plim_ctx *ctx;
    char *text;
    size_t bytes;
    plim_text_run *runs;
    size_t run_count;
    plim_text_mark *marked;
    size_t marked_count;
} plim_rendered;

/* A compiled template.  Rendering does not write it: several threads, each with a context of its own, may
 * render one at once. */
typedef struct plim_jinja plim_jinja;

/* Compiles text[0 .. bytes); name is used in messages and copied.
 * Errors: PLIM_E_FORMAT (not UTF-8, not Jinja: "name:line:column: ..."), PLIM_E_UNSUPPORTED (a tag, filter,
 * test that is not known), PLIM_E_RANGE (a limit), PLIM_E_OOM_HOST. */
plim_status plim_jinja_open(plim_ctx *c, const char *name, const char *text, size_t bytes,
                            const plim_jinja_limits *limits, plim_jinja **out);
void plim_jinja_close(plim_jinja *t); /* NULL is fine */

/* Renders with the members of the object variables; "messages", if there, is a list of messages.  The error
 * of a template is its own message behind "name:line:column: ".  strftime_now tells SOURCE_DATE_EPOCH, else
 * now, in UTC. Errors: PLIM_E_FORMAT (raised by the template, or a wrong operation in it), PLIM_E_UNSUPPORTED
 * (a method), PLIM_E_RANGE (a limit; an integer beyond 64 bits), PLIM_E_OOM_HOST. */
plim_status plim_jinja_render(plim_ctx *c, const plim_jinja *t, const json_t *variables,
                              const plim_jinja_limits *limits, plim_rendered *out);
void plim_rendered_close(plim_rendered *r); /* zeroes; NULL and a zeroed one are fine */

#endif
