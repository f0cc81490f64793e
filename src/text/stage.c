/* stage.c - decides which bytes of the original a rewritten text answers for. */
#include "text/stage.h"

#include <string.h>

void plim_stage_start(plim_stage *st, plim_ctx *c, plim_span source)
{
    st->ctx = c;
    st->parent = source.stage;
    st->base = st->head = source.begin;
    st->tracked = source.stage->tracked;
    st->text = st->own;
    st->bytes = 0;
    st->edit_count = 0;
}

plim_status plim_stage_keep(plim_stage *st, const char *text, size_t bytes)
{
    if (st->own_cap - st->bytes < bytes || !st->own) {
        size_t need;
        if (__builtin_add_overflow(st->bytes, bytes, &need)) need = SIZE_MAX;
        TRY(plim_grow(st->ctx, &st->own, &st->own_cap, need + (need == 0), 1, "a rewritten text"));
        st->text = st->own;
    }
    if (bytes) memcpy(st->own + st->bytes, text, bytes);
    st->bytes += bytes;
    return PLIM_OK;
}

plim_status plim_stage_put(plim_stage *st, const char *text, size_t bytes, size_t from, size_t to)
{
    size_t begin = st->bytes;
    TRY(plim_stage_keep(st, text, bytes));
    if (begin == 0) st->head = bytes ? from : to;
    if (!st->tracked) return PLIM_OK;
    TRY(plim_grow(st->ctx, &st->edits, &st->edit_cap, st->edit_count + 1, sizeof *st->edits,
                  "offsets of a text"));
    st->edits[st->edit_count++] = (plim_edit){begin, st->bytes, from, to};
    return PLIM_OK;
}

plim_span plim_stage_span(const plim_stage *st)
{
    return (plim_span){st, 0, st->bytes};
}

void plim_stage_close(plim_stage *st)
{
    plim_release(st->ctx, st->own);
    plim_release(st->ctx, st->edits);
    *st = (plim_stage){0};
}

bool plim_span_is_first(plim_span s)
{
    size_t at = s.begin;
    for (const plim_stage *st = s.stage; at == 0 && st->parent; st = st->parent) at = st->head;
    return at == 0;
}

/* How many edits begin at or before byte at. */
static size_t edits_before(const plim_stage *st, size_t at)
{
    size_t low = 0, high = st->edit_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (st->edits[middle].begin <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Where in the parent byte at comes from: a range, of one byte if it is the parent's own. */
static void origin_of_byte(const plim_stage *st, size_t at, size_t *from, size_t *to)
{
    size_t n = edits_before(st, at);
    const plim_edit *e = n ? &st->edits[n - 1] : NULL;
    if (e && at < e->end) {
        *from = e->from;
        *to = e->to;
        return;
    }
    *from = e ? e->to + (at - e->end) : st->base + at;
    *to = *from + 1;
}

void plim_span_origin(plim_span s, size_t *begin, size_t *end)
{
    size_t from = s.begin, to = s.end, unused;
    for (const plim_stage *st = s.stage; st->parent; st = st->parent) {
        size_t last = to - 1;
        origin_of_byte(st, from, &from, &unused);
        origin_of_byte(st, last, &unused, &to);
        if (to <= from) to = from + 1 > st->parent->bytes ? from : from + 1;
        if (to == from) break;
    }
    *begin = from;
    *end = to;
}
