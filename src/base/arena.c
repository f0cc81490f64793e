/* arena.c - decides where in a block each tensor lies, and remembers the highest point and what it was made
 * of. A peak always stands just before a pop (or the end), so pushes stay cheap and pop looks. */
#include "base/arena.h"

#include <string.h>

static const struct {
    const char *key, *label;
} component_table[PLIM_COMPONENT_COUNT] = {
#define ROW(name, key, label) {key, label},
    PLIM_COMPONENT_MAP(ROW)
#undef ROW
};

const char *plim_component_key(plim_component m)
{
    return (unsigned)m < PLIM_COMPONENT_COUNT ? component_table[m].key : "?";
}

const char *plim_component_label(plim_component m)
{
    return (unsigned)m < PLIM_COMPONENT_COUNT ? component_table[m].label : "?";
}

void plim_arena_dry(plim_arena *a)
{
    memset(a, 0, sizeof *a);
    a->capacity_bytes = SIZE_MAX;
}

void plim_arena_live(plim_arena *a, void *memory, size_t capacity_bytes)
{
    memset(a, 0, sizeof *a);
    a->base = memory;
    a->capacity_bytes = capacity_bytes;
}

/* Takes bytes from the arena; false (and a sticky flag) if they do not fit. */
static bool take(plim_arena *a, const plim_arena_entry *e, void **out)
{
    *out = NULL;
    size_t bytes;
    if (__builtin_add_overflow(e->size_bytes, (size_t)PLIM_ARENA_ALIGN - 1, &bytes) ||
        bytes > INT64_MAX / 2 || a->used.total_bytes > INT64_MAX / 2)
        a->overflow = true;
    if (a->overflow || a->exhausted) return false;
    bytes &= ~(size_t)(PLIM_ARENA_ALIGN - 1);
    if (bytes > a->capacity_bytes - a->used.total_bytes) {
        a->exhausted = true;
        return false;
    }
    if (a->base) *out = a->base + a->used.total_bytes;
    if (a->visit) a->visit(a->visit_user, e);
    a->used.total_bytes += bytes;
    a->used.component_bytes[e->component] += bytes;
    return true;
}

/* Elements of a row, rounded up so that rows start on 16 bytes, and bytes of all rows; false on overflow. */
static bool measure(plim_dtype d, int64_t all_rows, int64_t all_cols, int64_t *pitch, size_t *bytes)
{
    int shift = plim_dtype_shift(d);
    int64_t unit = 16 >> shift, elements;
    if (__builtin_add_overflow(all_cols, unit - 1, pitch)) return false;
    *pitch &= ~(unit - 1);
    if (__builtin_mul_overflow(all_rows, *pitch, &elements) || elements > INT64_MAX >> shift) return false;
    *bytes = (size_t)elements << shift;
    return true;
}

plim_tensor plim_arena_push_padded(plim_arena *a, plim_component m, const char *name, plim_dtype d,
                                   int64_t rows, int64_t cols, int64_t pad_rows, int64_t pad_cols)
{
    int64_t all_rows, all_cols, pitch = 0;
    size_t bytes = 0;
    void *data = NULL;
    if ((rows | cols | pad_rows | pad_cols) < 0 || __builtin_add_overflow(rows, pad_rows, &all_rows) ||
        __builtin_add_overflow(cols, pad_cols, &all_cols) || !measure(d, all_rows, all_cols, &pitch, &bytes))
        a->overflow = true;
    else if (rows > 0 && cols > 0)
        take(a, &(plim_arena_entry){name, m, a->used.total_bytes, bytes, d, rows, cols, pitch}, &data);
    return (plim_tensor){data, d, rows, cols, pitch};
}

plim_tensor plim_arena_push(plim_arena *a, plim_component m, const char *name, plim_dtype d, int64_t rows,
                            int64_t cols)
{
    return plim_arena_push_padded(a, m, name, d, rows, cols, 0, 0);
}

void *plim_arena_push_bytes(plim_arena *a, plim_component m, const char *name, size_t bytes)
{
    void *p = NULL;
    if (bytes == 0) return NULL;
    plim_arena_entry e = {name, m, a->used.total_bytes, bytes, PLIM_U8, 1, (int64_t)bytes, (int64_t)bytes};
    take(a, &e, &p);
    return p;
}

static void settle(plim_arena *a)
{
    if (a->used.total_bytes > a->phase_peak.total_bytes) a->phase_peak = a->used;
    if (a->phase_peak.total_bytes > a->peak.total_bytes) a->peak = a->phase_peak;
}

plim_mark plim_arena_mark(const plim_arena *a)
{
    return a->used;
}

void plim_arena_pop(plim_arena *a, const plim_mark *mark)
{
    settle(a);
    if (mark->total_bytes <= a->used.total_bytes) a->used = *mark;
}

plim_usage plim_arena_peak(plim_arena *a)
{
    settle(a);
    return a->peak;
}

plim_usage plim_arena_phase(plim_arena *a)
{
    settle(a);
    plim_usage u = a->phase_peak;
    a->phase_peak = a->used;
    return u;
}
