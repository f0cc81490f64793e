/* stage.h - a text made from another text that remembers which bytes came from where.
 *
 * A tokenizer rewrites its input several times: normal forms, replacements, prefixes.  Each rewriting is a
 * stage above its parent; the lowest is the caller's text itself.  A range of any stage leads back to the
 * original. */
#ifndef PLIM_TEXT_STAGE_H
#define PLIM_TEXT_STAGE_H

#include "base/context.h"

/* Bytes begin .. end - 1 of a stage stand for bytes from .. to - 1 of its parent; what lies between two edits
 * is the parent's, byte for byte. */
typedef struct plim_edit {
    size_t begin, end, from, to;
} plim_edit;

typedef struct plim_stage {
    plim_ctx *ctx;
    const struct plim_stage *parent; /* NULL: the original */
    const char *text;
    size_t bytes;
    size_t base;  /* where in the parent byte 0 lies when no edit stands before it */
    size_t head;  /* where in the parent byte 0 does come from */
    bool tracked; /* edits are kept */
    char *own;
    size_t own_cap;
    plim_edit *edits;
    size_t edit_count, edit_cap;
} plim_stage;

/* A range of a stage's text. */
typedef struct plim_span {
    const plim_stage *stage;
    size_t begin, end;
} plim_span;

static inline const char *plim_span_text(plim_span s)
{
    return s.stage->text + s.begin;
}

static inline size_t plim_span_bytes(plim_span s)
{
    return s.end - s.begin;
}

/* Empties st, which is to be made from source; its memory is used again. */
void plim_stage_start(plim_stage *st, plim_ctx *c, plim_span source);

/* Appends bytes of the parent as they are.  Errors: PLIM_E_OOM_HOST, as all that append. */
plim_status plim_stage_keep(plim_stage *st, const char *text, size_t bytes);

/* Appends bytes (perhaps none) that stand for from .. to - 1 of the parent. */
plim_status plim_stage_put(plim_stage *st, const char *text, size_t bytes, size_t from, size_t to);

plim_span plim_stage_span(const plim_stage *st); /* all of it */
void plim_stage_close(plim_stage *st);           /* a zeroed one is fine */

/* Whether s begins where the original does, tracked or not. */
bool plim_span_is_first(plim_span s);

/* The bytes of the original that s, which is not empty, came from; s's stages were tracked. */
void plim_span_origin(plim_span s, size_t *begin, size_t *end);

#endif
