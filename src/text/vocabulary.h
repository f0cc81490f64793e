/* vocabulary.h - token strings and their ids, both ways.
 *
 * Strings are as the tokenizer's file writes them: a byte-level vocabulary says "\u0120the" for " the". */
#ifndef PLIM_TEXT_VOCABULARY_H
#define PLIM_TEXT_VOCABULARY_H

#include "base/context.h"

#define PLIM_VOCABULARY_MAX ((int64_t)1 << 24) /* ids are below this */

/* One id.  Its string lies at pool[at .. at + bytes), a zero behind it. */
typedef struct plim_vocabulary_entry {
    size_t at;
    uint32_t bytes;
    bool known; /* a token has this id */
    bool special, added;
} plim_vocabulary_entry;

typedef struct plim_vocabulary {
    plim_ctx *ctx;
    plim_vocabulary_entry *entries; /* by id */
    size_t size;                    /* the largest id and one */
    size_t cap;
    char *pool;
    size_t pool_bytes, pool_cap;
    int32_t *slots; /* a hash table of the model's tokens: ids, -1 where free */
    size_t slot_count;
} plim_vocabulary;

/* Room for tokens of the model's.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_vocabulary_open(plim_ctx *c, size_t tokens, plim_vocabulary *out);
void plim_vocabulary_close(plim_vocabulary *v); /* a zeroed one is fine */

/* Adds a token of the model's.  Errors: PLIM_E_FORMAT (the id has another token, or is outside
 * 0 .. PLIM_VOCABULARY_MAX - 1), PLIM_E_OOM_HOST. */
plim_status plim_vocabulary_add(plim_vocabulary *v, const char *text, size_t bytes, int64_t id);

/* Gives an id to a token that stands beside the model's: one the model has, under the same id, or a new
 * one. */
plim_status plim_vocabulary_add_beside(plim_vocabulary *v, const char *text, size_t bytes, int64_t id,
                                       bool special);

/* The id of a token of the model's, or -1. */
int32_t plim_vocabulary_find(const plim_vocabulary *v, const char *text, size_t bytes);

/* The entry of an id, NULL if no token has it; and an entry's string. */
const plim_vocabulary_entry *plim_vocabulary_at(const plim_vocabulary *v, int32_t id);
static inline const char *plim_vocabulary_text(const plim_vocabulary *v, const plim_vocabulary_entry *e)
{
    return v->pool + e->at;
}

#endif
