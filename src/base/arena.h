/* arena.h - one block of memory handed out as a stack; dry, it only counts.
 *
 * The same layout function walks a dry arena (plan) and a live one (memtest, train), so what is printed and
 * what is used come from the same lines.  Overflow and exhaustion are sticky flags, checked once after the
 * walk. */
#ifndef PLIM_BASE_ARENA_H
#define PLIM_BASE_ARENA_H

#include "base/tensor.h"

#define PLIM_ARENA_ALIGN 256 /* bytes; what the fastest device loads and cuBLASLt want */

/* One push, for whoever wants to list or check a layout. */
typedef struct plim_arena_entry {
    const char *name;
    plim_component component;
    size_t offset_bytes, size_bytes;
    plim_dtype dtype;
    int64_t rows, cols, pitch;
} plim_arena_entry;

typedef struct plim_arena {
    char *base; /* NULL: dry */
    size_t capacity_bytes;
    plim_usage used, peak;
    plim_usage phase_peak;                                    /* since the last plim_arena_phase */
    bool overflow;                                            /* a size passed 2^63 or was negative */
    bool exhausted;                                           /* live: a push did not fit */
    void (*visit)(void *user, const plim_arena_entry *entry); /* NULL, or called for every push */
    void *visit_user;
} plim_arena;

/* A dry arena counts without limit.  A live one hands out memory[0 .. capacity_bytes), aligned by the
 * caller. */
void plim_arena_dry(plim_arena *a);
void plim_arena_live(plim_arena *a, void *memory, size_t capacity_bytes);

/* rows x cols elements, pitch = cols rounded up so that every row starts on 16 bytes.  A push after overflow
 * or exhaustion returns a view without memory.  rows * cols == 0 takes nothing. */
plim_tensor plim_arena_push(plim_arena *a, plim_component m, const char *name, plim_dtype d, int64_t rows,
                            int64_t cols);

/* The same with room for pad_rows more rows below and pad_cols more columns beside, reachable through the
 * pitch. */
plim_tensor plim_arena_push_padded(plim_arena *a, plim_component m, const char *name, plim_dtype d,
                                   int64_t rows, int64_t cols, int64_t pad_rows, int64_t pad_cols);

/* Bytes that a library takes beside our tensors (a workspace, a context). */
void *plim_arena_push_bytes(plim_arena *a, plim_component m, const char *name, size_t bytes);

/* pop returns the arena to the state at mark.  Marks nest. */
typedef plim_usage plim_mark;
plim_mark plim_arena_mark(const plim_arena *a);
void plim_arena_pop(plim_arena *a, const plim_mark *mark);

/* Usage at the highest point since opening; and since the last plim_arena_phase, which also starts a new
 * phase. */
plim_usage plim_arena_peak(plim_arena *a);
plim_usage plim_arena_phase(plim_arena *a);

#endif
