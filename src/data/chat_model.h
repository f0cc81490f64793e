/* chat_model.h - what of a model turns rows into tokens: its tokenizer, chat template, special and end
 * tokens. */
#ifndef PLIM_DATA_CHAT_MODEL_H
#define PLIM_DATA_CHAT_MODEL_H

#include "text/added_tokens.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Not changed once open: any number of threads may read it. */
typedef struct plim_chat_model {
    plim_ctx *ctx;
    plim_tokenizer *tokenizer;
    plim_chat_template chat; /* chat.jinja NULL: the model has no template */
    json_t *special;         /* array of every special token, of the tokenizer and of its config */
    plim_added_set typed;    /* the same, to look for in a text */
    int32_t end;             /* ends a text; -1: none is named */
    char *end_text;
    char tokenizer_name[64], template_name[64]; /* with their hashes, as a samples file names them */
} plim_chat_model;

/* From folder: tokenizer.json, tokenizer_config.json (bos and eos, further special tokens) and
 * chat_template.jinja, else the template in the config.  tokenizer and chat_template name files in place of
 * those; folder NULL: they alone count, and tokenizer is needed. Errors: PLIM_E_USAGE (neither folder nor
 * tokenizer), PLIM_E_FORMAT (a file; an eos_token the tokenizer does not have), PLIM_E_IO,
 * PLIM_E_UNSUPPORTED, PLIM_E_RANGE, PLIM_E_OOM_HOST. */
plim_status plim_chat_model_open(plim_ctx *c, const char *folder, const char *tokenizer,
                                 const char *chat_template, plim_chat_model *out);
void plim_chat_model_close(plim_chat_model *m); /* a zeroed one is fine */

#endif
