/* decode.h - a tokenizer's decoder: steps that turn the strings of tokens back into text. */
#ifndef PLIM_TEXT_DECODE_H
#define PLIM_TEXT_DECODE_H

#include "text/normalize.h"

typedef enum plim_decoder_kind {
    PLIM_DECODE_BYTE_LEVEL, /* characters of the alphabet to bytes; all of it becomes one string */
    PLIM_DECODE_METASPACE,  /* the replacement to a blank, in the first token (with strip) to nothing */
    PLIM_DECODE_REPLACE,
    PLIM_DECODE_BYTE_FALLBACK, /* runs of "<0xNN>" to the characters they spell, or U+FFFD each */
    PLIM_DECODE_FUSE,          /* all strings become one */
    PLIM_DECODE_STRIP,         /* up to start and stop times the character content, from each string's ends */
} plim_decoder_kind;

typedef struct plim_decoder_step {
    plim_decoder_kind kind;
    char *content;
    plim_pattern pattern;
    int64_t start, stop;
    bool strip;
} plim_decoder_step;

typedef struct plim_decoder {
    plim_ctx *ctx;
    plim_decoder_step steps[PLIM_TOKENIZER_MAX_STEPS];
    size_t count;
} plim_decoder;

void plim_decoder_close(plim_decoder *d); /* a zeroed one is fine */

/* Strings end to end: string i is text[ends[i - 1] .. ends[i]). */
typedef struct plim_strings {
    plim_ctx *ctx;
    char *text;
    size_t bytes, cap;
    size_t *ends;
    size_t count, ends_cap;
} plim_strings;

plim_status plim_strings_add(plim_strings *s, const char *text, size_t bytes); /* a new string */
void plim_strings_close(plim_strings *s);                                      /* a zeroed one is fine */

/* Replaces s by what the steps make of it; the text is then s->text[0 .. s->bytes).  m may be zeroed for a
 * decoder without expressions.  Errors: those of patterns, PLIM_E_OOM_HOST. */
plim_status plim_decode(const plim_decoder *d, plim_matcher *m, plim_strings *s);

#endif
