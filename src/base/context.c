/* context.c - decides how a failure is remembered and where host memory comes from. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 4096
#define ALIGN_BYTES   64

struct plim_ctx {
    plim_allocator allocator;
    plim_status status;
    char message[MESSAGE_BYTES];
};

static const struct {
    const char *name, *text;
} status_table[PLIM_STATUS_COUNT] = {
#define ROW(name, text) {#name, text},
    PLIM_STATUS_MAP(ROW)
#undef ROW
};

static const struct {
    const char *name;
    size_t bytes;
} dtype_table[PLIM_DTYPE_COUNT] = {
#define ROW(name, bytes) {#name, bytes},
    PLIM_DTYPE_MAP(ROW)
#undef ROW
};

const char *plim_status_name(plim_status st)
{
    return (unsigned)st < PLIM_STATUS_COUNT ? status_table[st].name : "?";
}

const char *plim_status_text(plim_status st)
{
    return (unsigned)st < PLIM_STATUS_COUNT ? status_table[st].text : "?";
}

const char *plim_dtype_name(plim_dtype d)
{
    return (unsigned)d < PLIM_DTYPE_COUNT ? dtype_table[d].name : "?";
}

size_t plim_dtype_bytes(plim_dtype d)
{
    return (unsigned)d < PLIM_DTYPE_COUNT ? dtype_table[d].bytes : 0;
}

static void *libc_alloc(void *user, size_t bytes)
{
    (void)user;
    if (bytes > SIZE_MAX - ALIGN_BYTES) return NULL;
    return aligned_alloc(ALIGN_BYTES, (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);
}

static void libc_release(void *user, void *p)
{
    (void)user;
    free(p);
}

plim_status plim_ctx_open(const plim_allocator *allocator, plim_ctx **out)
{
    plim_allocator a = {libc_alloc, libc_release, NULL};
    if (allocator) a = *allocator;
    plim_ctx *c = a.alloc(a.user, sizeof *c);
    if (!c) return PLIM_E_OOM_HOST;
    memset(c, 0, sizeof *c);
    c->allocator = a;
    *out = c;
    return PLIM_OK;
}

void plim_ctx_close(plim_ctx *c)
{
    if (!c) return;
    plim_allocator a = c->allocator;
    a.release(a.user, c);
}

const char *plim_ctx_message(const plim_ctx *c)
{
    return c->message;
}

plim_status plim_ctx_status(const plim_ctx *c)
{
    return c->status;
}

void plim_ctx_clear(plim_ctx *c)
{
    c->status = PLIM_OK;
    c->message[0] = 0;
}

plim_status plim_fail(plim_ctx *c, plim_status st, const char *fmt, ...)
{
    if (c->status) return st;
    c->status = st;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->message, sizeof c->message, fmt, ap);
    va_end(ap);
    return st;
}

plim_status plim_fail_alloc(plim_ctx *c, size_t bytes, const char *what)
{
    return plim_fail(c, PLIM_E_OOM_HOST, "out of host memory: %zu bytes for %s could not be allocated", bytes,
                     what);
}

plim_status plim_alloc(plim_ctx *c, size_t count, size_t size, const char *what, void *out)
{
    if (size && count > SIZE_MAX / size)
        return plim_fail(c, PLIM_E_OOM_HOST, "out of host memory: %zu x %zu bytes for %s overflow", count,
                         size, what);
    size_t bytes = count * size;
    if (bytes == 0) bytes = 1;
    void *p = c->allocator.alloc(c->allocator.user, bytes);
    if (!p) return plim_fail_alloc(c, bytes, what);
    memset(p, 0, bytes);
    memcpy(out, &p, sizeof p);
    return PLIM_OK;
}

void plim_release(plim_ctx *c, void *p)
{
    if (p) c->allocator.release(c->allocator.user, p);
}

plim_status plim_grow(plim_ctx *c, void *items, size_t *cap, size_t need, size_t size, const char *what)
{
    if (need <= *cap) return PLIM_OK;
    size_t want = *cap ? *cap : 16;
    while (want < need) {
        if (want > SIZE_MAX / 2) return plim_fail_alloc(c, need, what);
        want *= 2;
    }
    void *fresh = NULL, *old = NULL;
    TRY(plim_alloc(c, want, size, what, &fresh));
    memcpy(&old, items, sizeof old);
    if (old) memcpy(fresh, old, *cap * size);
    plim_release(c, old);
    memcpy(items, &fresh, sizeof fresh);
    *cap = want;
    return PLIM_OK;
}
