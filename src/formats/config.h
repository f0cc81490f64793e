/* config.h - a config.json while it is turned into a plim_spec: what the files config*.c share. */
#ifndef PLIM_FORMATS_CONFIG_H
#define PLIM_FORMATS_CONFIG_H

#include "base/json.h"

typedef struct plim_config {
    plim_json json;
    const json_t *root, *text; /* text: text_config of a multimodal config, else the root */
    const char *text_path;     /* "text_config" or "" */
    plim_spec spec;
} plim_config;

#define PLIM_CONFIG_MAX_DIM ((int64_t)1 << 24) /* any one dimension, and any width made of heads */

/* Fails at member key of the text config. */
plim_status plim_config_fail(const plim_config *g, const char *key, plim_status st, const char *fmt, ...)
    PLIM_PRINTF(4, 5);

/* Each reads its part of the text config into spec. */
plim_status plim_config_layers(plim_config *g); /* layer types, sliding windows, delta-net sizes */
plim_status plim_config_rope(plim_config *g);   /* needs head_dim */
plim_status plim_config_vision(plim_config *g); /* needs hidden; vision tower and multi-token prediction */

#endif
