/* pretokenize.h - a tokenizer's pre-tokeniser: steps that each split the pieces of the step before, and may
 * rewrite them.  Pieces come out one by one, in order, and nothing is kept of those gone. */
#ifndef PLIM_TEXT_PRETOKENIZE_H
#define PLIM_TEXT_PRETOKENIZE_H

#include "text/normalize.h"

/* What becomes of what a pattern matched. */
#define PLIM_SPLIT_MAP(X)                                                                                    \
    X(REMOVED, "Removed")                         /* it goes */                                              \
    X(ISOLATED, "Isolated")                       /* it is a piece */                                        \
    X(MERGED_WITH_PREVIOUS, "MergedWithPrevious") /* it ends the piece before */                             \
    X(MERGED_WITH_NEXT, "MergedWithNext")         /* it begins the piece behind */                           \
    X(CONTIGUOUS, "Contiguous")                   /* it is a piece with the matches beside it */

typedef enum plim_split {
#define PLIM_SPLIT_ENUM(name, key) PLIM_SPLIT_##name,
    PLIM_SPLIT_MAP(PLIM_SPLIT_ENUM)
#undef PLIM_SPLIT_ENUM
        PLIM_SPLIT_COUNT
} plim_split;

typedef enum plim_prefix { PLIM_PREFIX_NEVER, PLIM_PREFIX_FIRST, PLIM_PREFIX_ALWAYS } plim_prefix;

/* In this order: blanks become the replacement, the prefix goes before a piece that does not begin with it,
 * and the piece is split. */
typedef struct plim_pretokenizer_step {
    char *replacement;  /* of each blank, and the prefix (Metaspace); NULL: none */
    plim_prefix prefix; /* FIRST: of a piece that begins the whole text */
    bool splits;
    bool invert; /* what does not match is what the behaviour is about */
    plim_split behavior;
    plim_pattern pattern;
} plim_pretokenizer_step;

typedef struct plim_pretokenizer {
    plim_ctx *ctx;
    plim_pretokenizer_step steps[PLIM_TOKENIZER_MAX_STEPS];
    size_t count;
    bool byte_level; /* pieces are bytes in the end */
} plim_pretokenizer;

void plim_pretokenizer_close(plim_pretokenizer *p); /* a zeroed one is fine */

/* Who takes the pieces, none of them empty. */
typedef plim_status (*plim_piece)(void *user, plim_span piece);

/* A thread's working memory; zeroed: none yet. */
typedef struct plim_pretokenizer_scratch {
    plim_stage blanks[PLIM_TOKENIZER_MAX_STEPS], prefixed[PLIM_TOKENIZER_MAX_STEPS];
} plim_pretokenizer_scratch;

void plim_pretokenizer_scratch_close(plim_pretokenizer_scratch *s);

/* Errors: those of patterns, and what piece returns. */
plim_status plim_pretokenize(plim_ctx *c, const plim_pretokenizer *p, plim_pretokenizer_scratch *s,
                             plim_matcher *m, plim_span source, plim_piece piece, void *user);

#endif
