/* shape.h - every dimension of one training step on one card, resolved once from spec and options. */
#ifndef PLIM_MODEL_SHAPE_H
#define PLIM_MODEL_SHAPE_H

#include "model/adapters.h"

/* Tokens up to which all heads attend in one call when nothing else is asked; above, one key/value head a
 * call costs no time and takes a quarter of the memory or less. */
#define PLIM_ALL_HEADS_UP_TO 16384

typedef struct plim_shape {
    const plim_spec *spec;
    plim_options o;       /* resolved: no zero that means "choose" remains */
    plim_dtype act, stat; /* ops.h */
    int64_t T, D;
    int64_t tile, tiles;                 /* rows of a tile, and how many cover T */
    int64_t chunks;                      /* most delta-rule chunks in a tile */
    int64_t all_chunks;                  /* in the sequence */
    int64_t loss_rows;                   /* rows of logits alive at once */
    int64_t group_heads, group_kv_heads; /* attention heads of one call */
    int64_t first_layer, last_layer;     /* of this card; last exclusive */
    bool has_embedding, has_head;
    plim_layer_linears linears[2]; /* by plim_layer_type */
    plim_adapter_totals adapters;  /* of this card's layers */
} plim_shape;

/* The whole model on one card.  Errors: PLIM_E_RANGE, PLIM_E_SHAPE, PLIM_E_UNSUPPORTED naming the option. */
plim_status plim_shape_init(plim_ctx *c, const plim_spec *s, const plim_options *o, plim_shape *out);

/* Restricts a shape to layers first .. last - 1 of one of several cards. */
void plim_shape_restrict(plim_shape *sh, int64_t first, int64_t last);

static inline const plim_layer_linears *plim_shape_linears(const plim_shape *sh, int64_t layer)
{
    return &sh->linears[sh->spec->layer_type[layer]];
}

/* Layers whose input is offloaded / whose activations are kept, among this card's. */
static inline bool plim_shape_input_on_host(const plim_shape *sh, int64_t layer)
{
    return layer < sh->o.host_checkpoints;
}

static inline bool plim_shape_is_kept(const plim_shape *sh, int64_t layer)
{
    return layer >= sh->spec->layers - sh->o.kept_layers;
}

#endif
