/* labels.h - which bytes of a rendered conversation are trained on.  The rule is stated in docs/labels.md. */
#ifndef PLIM_TEXT_LABELS_H
#define PLIM_TEXT_LABELS_H

#include "text/jinja.h"

/* What a template writes before a model speaks, learnt by rendering one user message.  Zeroed: not known. */
typedef struct plim_turn_header {
    plim_ctx *ctx;
    char *prompt; /* the generation prompt; zero-terminated, "" if the template has none */
    char *behind; /* between a user's role and content, "" if not found */
} plim_turn_header;

/* variables: what every render has besides messages (special tokens), or NULL.  A template that cannot render
 * the one message teaches nothing and is no error.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_turn_header_learn(plim_ctx *c, const plim_jinja *t, const json_t *variables,
                                   const plim_jinja_limits *limits, plim_turn_header *out);
void plim_turn_header_close(plim_turn_header *h); /* zeroes; a zeroed one is fine */

typedef enum plim_label_scope {
    PLIM_LABEL_ASSISTANT, /* every assistant message */
    PLIM_LABEL_LAST,      /* the last assistant message alone */
    PLIM_LABEL_WHOLE,     /* all of the text, whatever messages say */
} plim_label_scope;

/* Zeroed: all assistant messages, special tokens not known. */
typedef struct plim_label_options {
    plim_label_scope scope;
    const json_t *special; /* array of the tokenizer's special tokens as strings, or NULL */
} plim_label_options;

/* Bytes begin .. end - 1 are trained on with this weight (> 0). */
typedef struct plim_label {
    size_t begin, end;
    double weight;
    int32_t message; /* -1: the whole text */
} plim_label;

typedef struct plim_labels {
    plim_ctx *ctx;
    plim_label *items; /* in order, apart */
    size_t count;
    size_t turns;   /* assistant messages with labels */
    size_t unended; /* of these: turns in whose end no special token was found, though special tokens were
                       given */
} plim_labels;

/* messages is what r was rendered from.  A message's "train": false or "weight": 0.5 are obeyed.
 * Errors: PLIM_E_FORMAT ("train" no boolean, "weight" no number), PLIM_E_RANGE (a weight outside 0 .. 1000),
 * PLIM_E_OOM_HOST. */
plim_status plim_labels_find(plim_ctx *c, const plim_rendered *r, const json_t *messages,
                             const plim_turn_header *h, const plim_label_options *options, plim_labels *out);
void plim_labels_close(plim_labels *l); /* zeroes; a zeroed one is fine */

#endif
