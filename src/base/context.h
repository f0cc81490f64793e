/* context.h - the context behind plim_ctx: message buffer, allocator, log.  Every module fails through
 * here. */
#ifndef PLIM_BASE_CONTEXT_H
#define PLIM_BASE_CONTEXT_H

#include "plimsoll.h"

/* Keeps the first message since the last clear and returns st, so that a caller can write
 * `return plim_fail(c, PLIM_E_SHAPE, "...")`.  Say where, what was wanted, what there was, what would
 * work. */
plim_status plim_fail(plim_ctx *c, plim_status st, const char *fmt, ...) PLIM_PRINTF(3, 4);

/* PLIM_E_OOM_HOST with the number of bytes and what they were for. */
plim_status plim_fail_alloc(plim_ctx *c, size_t bytes, const char *what);

/* Forwards a failure when nothing is owned. */
#define TRY(expr)                                                                                            \
    do {                                                                                                     \
        plim_status try_st_ = (expr);                                                                        \
        if (try_st_) return try_st_;                                                                         \
    } while (0)

/* Memory through the context's allocator: 64-byte aligned, zeroed.  *out is written only on success; count *
 * size that overflows is an ordinary PLIM_E_OOM_HOST.  what names it in the message.  release accepts
 * NULL. */
plim_status plim_alloc(plim_ctx *c, size_t count, size_t size, const char *what, void *out);
void plim_release(plim_ctx *c, void *p);

/* Doubles *items (of size bytes each) until it holds at least need; *cap is its present capacity. */
plim_status plim_grow(plim_ctx *c, void *items, size_t *cap, size_t need, size_t size, const char *what);

#endif
