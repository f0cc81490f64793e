/* chat_template.h - a chat template with what belongs to it: special tokens, and the header it gives a turn.
 */
#ifndef PLIM_TEXT_CHAT_TEMPLATE_H
#define PLIM_TEXT_CHAT_TEMPLATE_H

#include "text/labels.h"

typedef struct plim_chat_template {
    plim_ctx *ctx;
    plim_jinja *jinja;
    json_t *variables; /* bos_token, eos_token, ... as a tokenizer_config.json has them; else empty */
    json_t *special;   /* array of the special tokens; NULL: not known */
    plim_turn_header header;
    plim_jinja_limits limits;
    uint64_t hash; /* FNV-1a of the template's text */
} plim_chat_template;

/* Reads a template: a file of Jinja, or a tokenizer_config.json (its chat_template, the one named "default"
 * if there are several, else the chat_template.jinja beside it). Errors: PLIM_E_IO, PLIM_E_FORMAT (no
 * template in it; not JSON; not Jinja), PLIM_E_UNSUPPORTED, PLIM_E_OOM_HOST. */
plim_status plim_chat_template_load(plim_ctx *c, const char *path, plim_chat_template *out);
/* The same from a model's parts: variables and special tokens of a tokenizer_config.json, and a template that
 * may lie elsewhere.  Either path may be NULL.  Without template_path the config's own counts, then the
 * chat_template.jinja beside it; where there is none, out->jinja is NULL and nothing can be rendered. */
plim_status plim_chat_template_assemble(plim_ctx *c, const char *config_path, const char *template_path,
                                        plim_chat_template *out);
void plim_chat_template_close(plim_chat_template *t); /* zeroes; a zeroed one is fine */

/* Renders a row: an object with "messages", and any other variables of the template.  What transformers sets
 * when nothing is said is set here: tools and documents none, add_generation_prompt false, the special
 * tokens. Errors: PLIM_E_FORMAT ("messages" is no array), those of plim_jinja_render. */
plim_status plim_chat_render(plim_ctx *c, const plim_chat_template *t, const json_t *row, plim_rendered *out);

/* Makes a row of training data out of a row of the world, in place: a message's null content, tool_calls and
 * the like are absent, and a tool call's arguments that are a string become the object that the string holds.
 * Errors: PLIM_E_FORMAT (arguments that are not JSON; the place is named "messages[3].tool_calls[0]..."),
 * PLIM_E_OOM_HOST. */
plim_status plim_chat_row_normalise(plim_ctx *c, json_t *row);

#endif
