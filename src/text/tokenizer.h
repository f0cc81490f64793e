/* tokenizer.h - text to token ids and back, as the tokenizer.json of a model says.
 *
 * Byte-pair encoding with the normalisers, pre-tokenisers, post-processors and decoders that models of that
 * kind use; the ids are those of the "fast" tokenizer the file was written by.  A component that plimsoll
 * does not know is refused with its name and place.  The file's own truncation and padding are not applied.
 * Source: the format is that of Hugging Face's tokenizers library, version 1.0. */
#ifndef PLIM_TEXT_TOKENIZER_H
#define PLIM_TEXT_TOKENIZER_H

#include "base/context.h"

/* A loaded tokenizer: not changed after loading, so any number of threads may read it at once. */
typedef struct plim_tokenizer plim_tokenizer;

/* Loads a tokenizer.json; parse reads one from memory, name stands in messages.  c must outlive the
 * tokenizer. Errors: PLIM_E_IO, PLIM_E_FORMAT (not JSON, a member missing or of the wrong type, ids that
 * collide, merges of tokens that are not there, an expression that cannot be compiled), PLIM_E_UNSUPPORTED (a
 * component, model or option that is not known), PLIM_E_RANGE, PLIM_E_OOM_HOST. */
plim_status plim_tokenizer_load(plim_ctx *c, const char *path, plim_tokenizer **out);
plim_status plim_tokenizer_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                 plim_tokenizer **out);
void plim_tokenizer_close(plim_tokenizer *t); /* NULL is fine */

/* The largest id and one: the least number of rows an embedding must have. */
int64_t plim_tokenizer_size(const plim_tokenizer *t);

/* The id of a token by its string (as the file writes it), or -1. */
int32_t plim_tokenizer_id(const plim_tokenizer *t, const char *text);

/* The string of an id, as the file writes it, NULL if no token has it; whether it is a special token. */
const char *plim_tokenizer_text(const plim_tokenizer *t, int32_t id);
bool plim_tokenizer_is_special(const plim_tokenizer *t, int32_t id);

/* What one thread needs to work with a tokenizer: memory, a cache, and c for messages.  Opened once, used for
 * any number of texts; the tokenizer and c must outlive it. */
typedef struct plim_tokenizer_scratch plim_tokenizer_scratch;
plim_status plim_tokenizer_scratch_open(plim_ctx *c, const plim_tokenizer *t, plim_tokenizer_scratch **out);
void plim_tokenizer_scratch_close(plim_tokenizer_scratch *s); /* NULL is fine */

/* Bytes begin .. end - 1 of the text; whole characters. */
typedef struct plim_token_range {
    size_t begin, end;
} plim_token_range;

/* Tokens of a text; zeroed: none yet.  Memory is used again from call to call. */
typedef struct plim_tokens {
    plim_ctx *ctx;
    int32_t *ids;
    plim_token_range *ranges; /* with offsets: what of the original text each token came from */
    size_t count, ids_cap, ranges_cap;
} plim_tokens;
void plim_tokens_close(plim_tokens *k); /* a zeroed one is fine */

typedef struct plim_encode_options {
    bool offsets;
    bool special; /* apply the post-processor: what the model wants before and after a text; their ranges are
                     empty */
} plim_encode_options;

/* Replaces out by the tokens of text[0 .. bytes), which is UTF-8 and may hold NUL.  Tokens of one character
 * share its range; a token that was put before a character (a prefix) has that character's. On failure out is
 * empty. Errors: PLIM_E_FORMAT (not UTF-8), PLIM_E_UNSUPPORTED (an expression of the tokenizer gives up on
 * the text), PLIM_E_MISMATCH (no token for a character, nor for unknown ones), PLIM_E_RANGE (a piece of 2
 * GiB), PLIM_E_OOM_HOST. */
plim_status plim_tokenizer_encode(plim_tokenizer_scratch *s, const char *text, size_t bytes,
                                  plim_encode_options options, plim_tokens *out);

/* The text of ids, UTF-8 (U+FFFD where tokens end within a character) with a zero behind it, for
 * plim_release. Errors: PLIM_E_RANGE (an id no token has), PLIM_E_OOM_HOST. */
plim_status plim_tokenizer_decode(plim_tokenizer_scratch *s, const int32_t *ids, size_t count,
                                  bool skip_special, char **out, size_t *out_bytes);

#endif
