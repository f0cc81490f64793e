/* bpe.h - byte-pair encoding of one piece of text: pairs are merged in the order of their ranks, the leftmost
 * first.
 *
 * In O(n log n) for a piece of n characters.  Source: Sennrich et al. 2016, arXiv:1508.07909, section 3.2. */
#ifndef PLIM_TEXT_BPE_H
#define PLIM_TEXT_BPE_H

#include "text/vocabulary.h"

#define PLIM_BPE_NO_UNKNOWN      (-1) /* characters without a token are left out */
#define PLIM_BPE_UNKNOWN_MISSING (-2) /* there is a name for them and no token: an error when one is met */
#define PLIM_BPE_MAX_BYTES       ((size_t)INT32_MAX) /* of a piece */

/* What the pair (left, right) becomes; key is UINT64_MAX where the table is free. */
typedef struct plim_merge {
    uint64_t key; /* left << 32 | right */
    uint32_t rank;
    int32_t id;
} plim_merge;

/* The model; read by any number of threads. */
typedef struct plim_bpe {
    const plim_vocabulary *vocabulary;
    plim_ctx *ctx;
    plim_merge *merges; /* a hash table */
    size_t slot_count;
    int shift;       /* of a hash, to a slot */
    bool byte_level; /* pieces are bytes, one character of the alphabet each */
    bool byte_fallback, fuse_unknown, ignore_merges;
    int32_t unknown;
    int32_t byte_ids[256];     /* byte_level: of each byte's character; -1: none */
    int32_t fallback_ids[256]; /* of "<0xNN>"; -1: none */
    int32_t ascii_ids[128];    /* of each character, without prefix and suffix; -1: none */
    char *prefix, *suffix;     /* of characters that continue or end a piece; NULL: none */
} plim_bpe;

/* Room for count merges in b, whose vocabulary is set.  Then add in order of rank: a later rank of the same
 * pair replaces the earlier.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_bpe_open(plim_ctx *c, const plim_vocabulary *v, size_t count, plim_bpe *out);
void plim_bpe_add_merge(plim_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id);
void plim_bpe_index(plim_bpe *b); /* fills the three tables of ids */
void plim_bpe_close(plim_bpe *b); /* a zeroed one is fine */

/* One token of a piece: its id, and the bytes of the piece it stands for. */
typedef struct plim_symbol {
    int32_t id;
    uint32_t begin, end;
    int32_t previous, next; /* while merging */
} plim_symbol;

typedef struct plim_bpe_queued {
    uint32_t rank;
    int32_t at, id;
} plim_bpe_queued;

#define PLIM_BPE_CACHED_BYTES  22
#define PLIM_BPE_CACHED_TOKENS 8
#define PLIM_BPE_CACHE_SLOTS   ((size_t)1 << 16)

/* A short piece met before, in one cache line. */
typedef struct plim_bpe_cached {
    uint8_t bytes, count; /* bytes 0: free */
    uint8_t end[PLIM_BPE_CACHED_TOKENS];
    char text[PLIM_BPE_CACHED_BYTES];
    int32_t id[PLIM_BPE_CACHED_TOKENS];
} plim_bpe_cached;

/* A thread's working memory; zeroed: none yet. */
typedef struct plim_bpe_scratch {
    plim_ctx *ctx;
    plim_symbol *symbols; /* of the last piece */
    size_t count, cap;
    plim_bpe_queued *heap;
    size_t heap_count, heap_cap;
    char *text; /* a piece in the alphabet, or a character with prefix and suffix */
    size_t text_cap;
    plim_bpe_cached *cache;
} plim_bpe_scratch;

plim_status plim_bpe_scratch_open(plim_ctx *c, plim_bpe_scratch *out);
void plim_bpe_scratch_close(plim_bpe_scratch *s);

/* The tokens of text, in s->symbols[0 .. s->count).  text is valid UTF-8, unless byte_level.
 * Errors: PLIM_E_MISMATCH (an unknown character, and the token for those is not in the vocabulary),
 * PLIM_E_RANGE (a piece above PLIM_BPE_MAX_BYTES), PLIM_E_OOM_HOST. */
plim_status plim_bpe_encode(const plim_bpe *b, plim_bpe_scratch *s, const char *text, size_t bytes);

/* Merges s->symbols; what plim_bpe_encode ends with. */
plim_status plim_bpe_merge(const plim_bpe *b, plim_bpe_scratch *s);

/* The merge of a pair, NULL if there is none. */
static inline const plim_merge *plim_bpe_find(const plim_bpe *b, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> b->shift);;
         at = (at + 1) & (b->slot_count - 1)) {
        const plim_merge *m = &b->merges[at];
        if (m->key == key) return m;
        if (m->key == UINT64_MAX) return NULL;
    }
}

#endif
