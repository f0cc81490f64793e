/* chat.h - a row to tokens, and the weight of each.
 *
 * A conversation is rendered once, whole, and tokenised once, whole; a token is trained on if any of its
 * bytes is, with the largest weight among them, times the row's.  A completion is trained on behind its
 * prompt, a text from its second token on; both end with the model's end token. */
#ifndef PLIM_DATA_CHAT_H
#define PLIM_DATA_CHAT_H

#include "data/chat_model.h"
#include "data/row_kinds.h"

typedef struct plim_chat_options {
    plim_label_scope scope;
    bool no_end; /* leave the end token of texts and completions out */
} plim_chat_options;

#define PLIM_TYPED_BYTES 160

/* A row's tokens.  The memory is used again from row to row; zeroed: none yet. */
typedef struct plim_chat_sample {
    plim_ctx *ctx;
    int32_t *tokens;
    float *weights;
    size_t count, tokens_cap, weights_cap;
    int64_t labelled;                   /* tokens of weight above 0, the first one aside */
    int64_t unended;                    /* turns in whose end no special token was found */
    bool ended;                         /* a text or completion, with the end token behind it */
    int64_t typed;                      /* special tokens that somebody typed into a text */
    char first_typed[PLIM_TYPED_BYTES]; /* "messages[3].content: <|im_end|>" */
} plim_chat_sample;
void plim_chat_sample_close(plim_chat_sample *s); /* a zeroed one is fine */

/* One thread's means.  The model and c must outlive it; close accepts NULL.  Errors: PLIM_E_OOM_HOST. */
typedef struct plim_chat_coder plim_chat_coder;
plim_status plim_chat_coder_open(plim_ctx *c, const plim_chat_model *m, const plim_chat_options *options,
                                 plim_chat_coder **out);
void plim_chat_coder_close(plim_chat_coder *k);

/* Replaces out, whose memory comes from the coder's context.
 * Errors: PLIM_E_FORMAT (the template's own, a mistake in train or weight of a message, nothing to train on),
 * PLIM_E_UNSUPPORTED, PLIM_E_MISMATCH, PLIM_E_RANGE (limits), PLIM_E_USAGE (a text and no end token, or a
 * conversation and no template: no row of the kind can be read), PLIM_E_OOM_HOST. */
plim_status plim_chat_encode(plim_chat_coder *k, const plim_row_content *row, plim_chat_sample *out);

/* Tokens of weight above 0 among the first count, the very first aside. */
int64_t plim_chat_labelled(const plim_chat_sample *s, size_t count);

#endif
