/* delta_scratch.c - decides what the delta rule keeps between its phases, and how many bytes that is. */
#include "ops/delta_scratch.h"

#include "base/arena.h"

/* Offset of the next region of count x rows x cols elements; *bytes moves past it, or stays at SIZE_MAX. */
static size_t take(size_t *bytes, size_t element_bytes, int64_t count, int64_t rows, int64_t cols)
{
    size_t at = *bytes, size;
    int64_t n;
    if (at == SIZE_MAX) return at;
    if (count < 0 || rows < 0 || cols < 0 || __builtin_mul_overflow(count, rows, &n) ||
        __builtin_mul_overflow(n, cols, &n) || __builtin_mul_overflow((size_t)n, element_bytes, &size) ||
        size > (size_t)INT64_MAX - PLIM_ARENA_ALIGN ||
        __builtin_add_overflow(at, (size + PLIM_ARENA_ALIGN - 1) / PLIM_ARENA_ALIGN * PLIM_ARENA_ALIGN,
                               bytes) ||
        *bytes > (size_t)INT64_MAX)
        *bytes = SIZE_MAX;
    return at;
}

plim_delta_layout plim_delta_layout_of(plim_dtype act, int64_t value_heads, int64_t key_dim,
                                       int64_t value_dim, int64_t chunk_count, bool backward)
{
    plim_delta_layout l = {0};
    const size_t element = plim_dtype_bytes(act);
    int64_t n;
    if (value_heads < 0 || chunk_count < 0 || __builtin_mul_overflow(value_heads, chunk_count, &n)) {
        l.bytes = SIZE_MAX;
        return l;
    }
    l.state = take(&l.bytes, element, n, key_dim, value_dim);
    l.t = take(&l.bytes, element, n, PLIM_CHUNK_TOKENS, PLIM_CHUNK_TOKENS);
    l.d = take(&l.bytes, element, n, PLIM_CHUNK_TOKENS, value_dim);
    if (backward) {
        l.dstate = take(&l.bytes, element, n, key_dim, value_dim);
        l.dr = take(&l.bytes, element, n, PLIM_CHUNK_TOKENS, value_dim);
        l.pdo = take(&l.bytes, element, n, PLIM_CHUNK_TOKENS, value_dim);
    }
    return l;
}

size_t plim_delta_scratch_bytes(plim_dtype act, plim_dtype stat, int64_t value_heads, int64_t key_heads,
                                int64_t key_dim, int64_t value_dim, int64_t chunk_count, bool backward)
{
    (void)stat,
        (void)key_heads; /* what is carried or summed in STAT lives in the arguments or in registers */
    return plim_delta_layout_of(act, value_heads, key_dim, value_dim, chunk_count, backward).bytes;
}
