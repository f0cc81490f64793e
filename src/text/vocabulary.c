/* vocabulary.c - decides which id a token string has. */
#include "text/vocabulary.h"

#include <string.h>

#include "base/fnv.h"

plim_status plim_vocabulary_open(plim_ctx *c, size_t tokens, plim_vocabulary *out)
{
    plim_vocabulary v = {.ctx = c, .slot_count = 64};
    while (v.slot_count < 2 * tokens + 2) v.slot_count *= 2;
    TRY(plim_alloc(c, v.slot_count, sizeof *v.slots, "a vocabulary", &v.slots));
    memset(v.slots, 0xff, v.slot_count * sizeof *v.slots);
    *out = v;
    return PLIM_OK;
}

void plim_vocabulary_close(plim_vocabulary *v)
{
    plim_release(v->ctx, v->pool);
    plim_release(v->ctx, v->entries);
    plim_release(v->ctx, v->slots);
    *v = (plim_vocabulary){0};
}

/* The slot that holds text, or the free one where it belongs. */
static size_t slot_of(const plim_vocabulary *v, const char *text, size_t bytes)
{
    uint64_t hash = plim_fnv1a64_bytes(text, bytes);
    size_t at = (size_t)((hash ^ hash >> 32) & (v->slot_count - 1));
    while (v->slots[at] >= 0) {
        const plim_vocabulary_entry *e = &v->entries[v->slots[at]];
        if (e->bytes == bytes && !memcmp(v->pool + e->at, text, bytes)) break;
        at = (at + 1) & (v->slot_count - 1);
    }
    return at;
}

static plim_status place(plim_vocabulary *v, const char *text, size_t bytes, int64_t id, bool added,
                         bool special)
{
    if (id < 0 || id >= PLIM_VOCABULARY_MAX)
        return plim_fail(v->ctx, PLIM_E_FORMAT, "the token \"%.100s\" has id %lld; ids are 0 to %lld", text,
                         (long long)id, (long long)PLIM_VOCABULARY_MAX - 1);
    if ((size_t)id < v->size && v->entries[id].known)
        return plim_fail(v->ctx, PLIM_E_FORMAT, "the tokens \"%.100s\" and \"%.100s\" both have id %lld",
                         plim_vocabulary_text(v, &v->entries[id]), text, (long long)id);
    if (bytes > UINT32_MAX / 2)
        return plim_fail(v->ctx, PLIM_E_FORMAT, "the token with id %lld has %zu bytes", (long long)id, bytes);
    TRY(plim_grow(v->ctx, &v->entries, &v->cap, (size_t)id + 1, sizeof *v->entries, "a vocabulary"));
    TRY(plim_grow(v->ctx, &v->pool, &v->pool_cap, v->pool_bytes + bytes + 1, 1, "a vocabulary"));
    memcpy(v->pool + v->pool_bytes, text, bytes);
    v->pool[v->pool_bytes + bytes] = 0;
    v->entries[id] = (plim_vocabulary_entry){v->pool_bytes, (uint32_t)bytes, true, special, added};
    v->pool_bytes += bytes + 1;
    if (v->size < (size_t)id + 1) v->size = (size_t)id + 1;
    return PLIM_OK;
}

plim_status plim_vocabulary_add(plim_vocabulary *v, const char *text, size_t bytes, int64_t id)
{
    size_t slot = slot_of(v, text, bytes);
    TRY(place(v, text, bytes, id, false, false));
    v->slots[slot] = (int32_t)id; /* keys of an object differ, so the slot was free */
    return PLIM_OK;
}

plim_status plim_vocabulary_add_beside(plim_vocabulary *v, const char *text, size_t bytes, int64_t id,
                                       bool special)
{
    int32_t known = plim_vocabulary_find(v, text, bytes);
    if (known < 0) return place(v, text, bytes, id, true, special);
    if (known != id)
        return plim_fail(v->ctx, PLIM_E_FORMAT,
                         "the added token \"%.100s\" has id %lld, but the vocabulary gives it %d", text,
                         (long long)id, (int)known);
    v->entries[known].special |= special;
    v->entries[known].added = true;
    return PLIM_OK;
}

int32_t plim_vocabulary_find(const plim_vocabulary *v, const char *text, size_t bytes)
{
    return v->slots[slot_of(v, text, bytes)];
}

const plim_vocabulary_entry *plim_vocabulary_at(const plim_vocabulary *v, int32_t id)
{
    if (id < 0 || (size_t)id >= v->size || !v->entries[id].known) return NULL;
    return &v->entries[id];
}
