/* row_kinds.h - what a row of training data says: a conversation, a prompt with its completion, or a text.
 *
 * The columns decide, the first that is there: messages; conversations (ShareGPT); prompt and completion
 * (texts, or lists of messages); text.  docs/data.md states every form.  Other columns are passed over. */
#ifndef PLIM_DATA_ROW_KINDS_H
#define PLIM_DATA_ROW_KINDS_H

#include "base/json.h"

#define PLIM_ROW_MAX_WEIGHT 1000

typedef enum plim_row_kind { PLIM_ROW_CHAT, PLIM_ROW_COMPLETION, PLIM_ROW_TEXT } plim_row_kind;

/* A row, read.  Texts belong to the JSON it was read from. */
typedef struct plim_row_content {
    plim_row_kind kind;
    json_t *chat;       /* CHAT: messages, tools, documents and the template's other variables; else NULL */
    const char *prompt; /* COMPLETION */
    const char *text;   /* TEXT; of a COMPLETION what is to be learnt */
    const char *class_name; /* NULL: none */
    double weight;          /* of the whole row, 0 to PLIM_ROW_MAX_WEIGHT; 1 when it says none */
} plim_row_content;

/* Reads row, whose tree it may change: messages come out as plim_chat_row_normalise makes them, with a
 * content that is a text or absent, and the messages of a "prompt" with "train": false.  Close before row.
 * Errors: PLIM_E_FORMAT, PLIM_E_RANGE (the weight) with the place, as plim_json_fail gives it;
 * PLIM_E_UNSUPPORTED (an image or another part of a content that is no text), PLIM_E_OOM_HOST. */
plim_status plim_row_read(plim_ctx *c, const plim_json *row, plim_row_content *out);
void plim_row_content_close(plim_row_content *r); /* a zeroed one is fine */

/* The same conversation, prompt or text gives the same number, however its JSON is written, and whatever
 * class, weight and other columns stand beside it.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_row_hash(plim_ctx *c, const plim_row_content *r, uint64_t *out);

#endif
