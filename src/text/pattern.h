/* pattern.h - what a normaliser replaces and a pre-tokeniser splits at: a regular expression, a string, or a
 * class of characters.
 *
 * Expressions in a tokenizer.json are written for Oniguruma with Ruby's syntax; they are translated to
 * PCRE2's where the two differ, and what cannot be translated is refused. */
#ifndef PLIM_TEXT_PATTERN_H
#define PLIM_TEXT_PATTERN_H

#include "base/context.h"

typedef enum plim_pattern_kind {
    PLIM_PATTERN_REGEX,
    PLIM_PATTERN_STRING,
    PLIM_PATTERN_CLASS
} plim_pattern_kind;

typedef struct plim_pattern {
    plim_ctx *ctx;
    plim_pattern_kind kind;
    void *code;    /* REGEX: pcre2_code, read by any number of threads */
    void *general; /* REGEX: where PCRE2 takes memory from */
    char *string;  /* STRING, and the source of a REGEX for messages */
    size_t string_bytes;
    bool (*is_in)(uint32_t c); /* CLASS: each such character is a match of its own */
} plim_pattern;

/* Errors: PLIM_E_FORMAT (no expression), PLIM_E_UNSUPPORTED (one that PCRE2 has no equal for),
 * PLIM_E_OOM_HOST. */
plim_status plim_pattern_regex(plim_ctx *c, const char *source, plim_pattern *out);
plim_status plim_pattern_string(plim_ctx *c, const char *string, size_t bytes, plim_pattern *out);
void plim_pattern_class(bool (*is_in)(uint32_t c), plim_pattern *out);
void plim_pattern_close(plim_pattern *p); /* a zeroed one is fine */

/* A thread's working memory for matching; zeroed: none yet. */
typedef struct plim_matcher {
    plim_ctx *ctx;
    void *general, *match, *data, *stack;
} plim_matcher;

plim_status plim_matcher_open(plim_ctx *c, plim_matcher *out);
void plim_matcher_close(plim_matcher *m);

/* Walks the matches in one text, in order. */
typedef struct plim_pattern_walk {
    const plim_pattern *pattern;
    plim_matcher *matcher;
    const char *text;
    size_t bytes, at;
    size_t last_end; /* of the last match; SIZE_MAX: none */
} plim_pattern_walk;

void plim_pattern_start(plim_pattern_walk *w, const plim_pattern *p, plim_matcher *m, const char *text,
                        size_t bytes);

/* The next match, which may be empty but does not follow the one before it without a gap then.  *found false:
 * no more.  Errors: PLIM_E_UNSUPPORTED when the expression needs more steps or memory than a match may
 * take. */
plim_status plim_pattern_next(plim_pattern_walk *w, bool *found, size_t *begin, size_t *end);

/* source in PCRE2's syntax, zero-terminated, for plim_release.  Errors: PLIM_E_UNSUPPORTED, PLIM_E_FORMAT. */
plim_status plim_pattern_translate(plim_ctx *c, const char *source, char **out);

#endif
