/* json_text.h - a Jansson value as text in the context's memory. */
#ifndef PLIM_BASE_JSON_TEXT_H
#define PLIM_BASE_JSON_TEXT_H

#include <jansson.h>

#include "base/context.h"

/* *out: zero-terminated, for plim_release.  flags: Jansson's (JSON_COMPACT, JSON_INDENT(2)).
 * Errors: PLIM_E_OOM_HOST. */
plim_status plim_json_text(plim_ctx *c, const json_t *value, size_t flags, char **out);

#endif
