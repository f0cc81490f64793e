/* added_tokens.h - tokens that stand beside the model's vocabulary and are cut out of a text before it.
 *
 * At each place the longest one that matches wins, and what it covers is not searched again.  Some are looked
 * for in the text as it is, some (normalized) in the text after the normaliser, as they themselves are
 * then. */
#ifndef PLIM_TEXT_ADDED_TOKENS_H
#define PLIM_TEXT_ADDED_TOKENS_H

#include "base/context.h"

#define PLIM_ADDED_TOKEN_MAX_BYTES 1024 /* so that a search stays linear in the text */

typedef struct plim_added_token {
    char *text; /* as searched for */
    size_t bytes;
    int32_t id;
    bool special, single_word, lstrip, rstrip;
} plim_added_token;

/* Tokens searched for together. */
typedef struct plim_added_set {
    plim_ctx *ctx;
    plim_added_token *tokens; /* by their bytes, no two alike */
    size_t count, cap;
    uint32_t first[257]; /* tokens[first[b] .. first[b + 1]) begin with byte b */
} plim_added_set;

/* Copies t.  Of equal texts the one added first is found.  Errors: PLIM_E_UNSUPPORTED for a text above
 * PLIM_ADDED_TOKEN_MAX_BYTES, PLIM_E_OOM_HOST.  sort comes after the last add and before the first search. */
plim_status plim_added_set_add(plim_ctx *c, plim_added_set *a, plim_added_token t);
plim_status plim_added_set_sort(plim_added_set *a);
void plim_added_set_close(plim_added_set *a); /* a zeroed one is fine */

/* Walks the tokens in one text. */
typedef struct plim_added_walk {
    const plim_added_set *set;
    const char *text;
    size_t bytes, at;
    size_t taken; /* all before it belongs to tokens found */
} plim_added_walk;

/* The next token (a part of the text, with the white space it takes along), NULL: no more.  *begin may lie
 * before w->taken as it was when the token before took the space this one begins with. */
const plim_added_token *plim_added_next(plim_added_walk *w, size_t *begin, size_t *end);

#endif
