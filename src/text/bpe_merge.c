/* bpe_merge.c - decides which pair of symbols is merged next.
 * Short pieces look through all pairs, which is fastest there; long ones keep a heap.  Both take the lowest
 * rank, and of equal ranks the leftmost, so they agree. */
#include <string.h>

#include "text/bpe.h"

#define SHORT 48 /* symbols */

static void merge_short(const plim_bpe *b, plim_bpe_scratch *s)
{
    plim_symbol *y = s->symbols;
    const plim_merge *pair[SHORT];
    uint32_t rank[SHORT];
    size_t n = s->count;
    for (size_t i = 0; i + 1 < n; i++) {
        pair[i] = plim_bpe_find(b, y[i].id, y[i + 1].id);
        rank[i] = pair[i] ? pair[i]->rank : UINT32_MAX;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == UINT32_MAX) break;
        y[best].id = pair[best]->id;
        y[best].end = y[best + 1].end;
        size_t tail = n - best - 2; /* symbols behind the pair */
        memmove(&y[best + 1], &y[best + 2], tail * sizeof *y);
        if (tail) {
            memmove(&pair[best], &pair[best + 1], tail * sizeof *pair);
            memmove(&rank[best], &rank[best + 1], tail * sizeof *rank);
        }
        n--;
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            pair[i] = plim_bpe_find(b, y[i].id, y[i + 1].id);
            rank[i] = pair[i] ? pair[i]->rank : UINT32_MAX;
        }
    }
    s->count = n;
}

static bool before(plim_bpe_queued a, plim_bpe_queued b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static plim_status push(plim_bpe_scratch *s, plim_bpe_queued q)
{
    TRY(plim_grow(s->ctx, &s->heap, &s->heap_cap, s->heap_count + 1, sizeof *s->heap, "pairs to merge"));
    size_t i = s->heap_count++;
    for (; i > 0 && before(q, s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = q;
    return PLIM_OK;
}

static plim_bpe_queued pop(plim_bpe_scratch *s)
{
    plim_bpe_queued top = s->heap[0], last = s->heap[--s->heap_count];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < s->heap_count; i = child) {
        if (child + 1 < s->heap_count && before(s->heap[child + 1], s->heap[child])) child++;
        if (!before(s->heap[child], last)) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* Queues the pair that begins at symbol i, if it can be merged. */
static plim_status queue_pair(const plim_bpe *b, plim_bpe_scratch *s, int32_t i)
{
    const plim_symbol *y = s->symbols;
    if (i < 0 || y[i].next < 0) return PLIM_OK;
    const plim_merge *m = plim_bpe_find(b, y[i].id, y[y[i].next].id);
    return m ? push(s, (plim_bpe_queued){m->rank, i, m->id}) : PLIM_OK;
}

static plim_status merge_long(const plim_bpe *b, plim_bpe_scratch *s)
{
    plim_symbol *y = s->symbols;
    int32_t n = (int32_t)s->count;
    s->heap_count = 0;
    for (int32_t i = 0; i < n; i++) {
        y[i].previous = i - 1;
        y[i].next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i < n; i++) TRY(queue_pair(b, s, i));
    while (s->heap_count) {
        plim_bpe_queued q = pop(s);
        plim_symbol *left = &y[q.at];
        if (left->end == left->begin || left->next < 0) continue; /* merged into its neighbour since */
        plim_symbol *right = &y[left->next];
        const plim_merge *m = plim_bpe_find(b, left->id, right->id);
        if (!m || m->id != q.id) continue; /* another pair stands there since */
        left->id = m->id;
        left->end = right->end;
        left->next = right->next;
        right->begin = right->end;
        if (left->next >= 0) y[left->next].previous = q.at;
        TRY(queue_pair(b, s, left->previous));
        TRY(queue_pair(b, s, q.at));
    }
    s->count = 0;
    /* count never passes i, so what is read is not yet written over */
    for (int32_t i = 0; i >= 0; i = y[i].next) y[s->count++] = y[i];
    return PLIM_OK;
}

plim_status plim_bpe_merge(const plim_bpe *b, plim_bpe_scratch *s)
{
    if (s->count > SHORT) return merge_long(b, s);
    merge_short(b, s);
    return PLIM_OK;
}
