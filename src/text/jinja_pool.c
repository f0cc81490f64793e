/* jinja_pool.c - decides how much a render may take: memory, steps. */
#include "text/jinja_tree.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 16)
#define ALIGN_BYTES ((size_t)16)

plim_status plim_pool_step(plim_pool *p, size_t touched_bytes)
{
    int64_t cost = 1 + (int64_t)(touched_bytes / 64 > INT32_MAX ? INT32_MAX : touched_bytes / 64);
    p->steps += cost;
    if (p->steps > p->limit_steps)
        return plim_jinja_fail(p->ctx, p->t, p->at_byte ? *p->at_byte : 0, PLIM_E_RANGE,
                               "the template takes more than %" PRId64
                               " steps; it loops too often, or the limit is too low",
                               p->limit_steps);
    return PLIM_OK;
}

static plim_status fresh_block(plim_pool *p, size_t bytes)
{
    plim_pool_block *block = NULL;
    size_t header = (sizeof *block + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    size_t whole = bytes > BLOCK_BYTES - header ? bytes + header : BLOCK_BYTES;
    TRY(plim_alloc(p->ctx, whole, 1, "values of a template", &block));
    block->bytes = whole;
    block->next = p->blocks;
    p->blocks = block;
    /* a large value gets a block of its own; the present one stays in use */
    p->at = (char *)block + header;
    p->left_bytes = whole - header;
    return PLIM_OK;
}

plim_status plim_pool_take(plim_pool *p, size_t count, size_t size, void *out)
{
    size_t bytes = 0;
    char *at = p->at;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > p->limit_bytes - p->used_bytes ||
        bytes > SIZE_MAX - ALIGN_BYTES)
        return plim_jinja_fail(
            p->ctx, p->t, p->at_byte ? *p->at_byte : 0, PLIM_E_RANGE,
            "the template's values take more than %zu bytes; it builds too much, or the limit is too low",
            p->limit_bytes);
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    TRY(plim_pool_step(p, bytes));
    if (bytes > p->left_bytes) {
        size_t left = p->left_bytes;
        TRY(fresh_block(p, bytes));
        void *fresh = p->at;
        if (p->left_bytes - bytes < left) {
            p->at = at;
            p->left_bytes = left;
        } else {
            p->at += bytes;
            p->left_bytes -= bytes;
        }
        at = fresh;
    } else {
        p->at += bytes;
        p->left_bytes -= bytes;
    }
    p->used_bytes += bytes > p->limit_bytes - p->used_bytes ? p->limit_bytes - p->used_bytes : bytes;
    memcpy(out, &at, sizeof at);
    return PLIM_OK;
}

void plim_pool_close(plim_pool *p)
{
    while (p->blocks) {
        plim_pool_block *next = p->blocks->next;
        plim_release(p->ctx, p->blocks);
        p->blocks = next;
    }
    p->at = NULL;
    p->left_bytes = 0;
}
