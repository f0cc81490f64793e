/* normalize.h - a tokenizer's normaliser: steps that each rewrite a text. */
#ifndef PLIM_TEXT_NORMALIZE_H
#define PLIM_TEXT_NORMALIZE_H

#include "text/normal_form.h"
#include "text/pattern.h"

#define PLIM_TOKENIZER_MAX_STEPS 32 /* of a normaliser, pre-tokeniser or decoder */

typedef enum plim_normalizer_kind {
    PLIM_NORMALIZE_FORM,
    PLIM_NORMALIZE_CHARACTERS, /* each by a rule of its own */
    PLIM_NORMALIZE_STRIP,
    PLIM_NORMALIZE_PREPEND,
    PLIM_NORMALIZE_REPLACE,
} plim_normalizer_kind;

/* What becomes of character c: up to two characters in out; how many. */
typedef size_t (*plim_character_rule)(uint32_t c, uint32_t out[2]);

typedef struct plim_normalizer_step {
    plim_normalizer_kind kind;
    plim_normal_form form;
    plim_character_rule rule;
    bool left, right;     /* STRIP: white space */
    char *content;        /* PREPEND (nothing to an empty text) and REPLACE */
    plim_pattern pattern; /* REPLACE */
} plim_normalizer_step;

typedef struct plim_normalizer {
    plim_ctx *ctx;
    plim_normalizer_step steps[PLIM_TOKENIZER_MAX_STEPS];
    size_t count;
} plim_normalizer;

void plim_normalizer_close(plim_normalizer *n); /* a zeroed one is fine */

size_t plim_rule_lower(uint32_t c, uint32_t out[2]);
size_t plim_rule_strip_accents(uint32_t c, uint32_t out[2]); /* marks go */
size_t plim_rule_nmt(uint32_t c, uint32_t out[2]); /* control characters go, odd spaces become one */

/* A thread's working memory; zeroed: none yet. */
typedef struct plim_normalizer_scratch {
    plim_stage stages[PLIM_TOKENIZER_MAX_STEPS];
    plim_normal_scratch form;
} plim_normalizer_scratch;

void plim_normalizer_scratch_close(plim_normalizer_scratch *s);

/* source after all steps, in s or source itself.  Errors: those of patterns and normal forms. */
plim_status plim_normalize(plim_ctx *c, const plim_normalizer *n, plim_normalizer_scratch *s, plim_matcher *m,
                           plim_span source, plim_span *out);

/* source with every match replaced, in st; where nothing matches, source itself.  decode.c uses it too. */
plim_status plim_replace(plim_ctx *c, const plim_pattern *p, const char *content, size_t content_bytes,
                         plim_matcher *m, plim_stage *st, plim_span source, plim_span *out);

/* Appends content that stands for the first character of source, and source behind it. */
plim_status plim_prepend(plim_ctx *c, const char *content, size_t content_bytes, plim_stage *st,
                         plim_span source, plim_span *out);

#endif
