/* adapter_views.c - decides which slice of the flat blocks a product reads. */
#include "model/adapter_views.h"

#include <string.h>

/* Product and part of a target in a layer of one type; -1: none. */
typedef struct place {
    const plim_linear *linear;
    plim_adapter_product *product;
} place;

static int places_of(const plim_shape *sh, plim_layer_adapters *l, int64_t layer, place out[5])
{
    const plim_layer_linears *s = plim_shape_linears(sh, layer);
    out[0] = (place){&s->in, &l->in};
    out[1] = (place){&s->ba, &l->ba};
    out[2] = (place){&s->out, &l->out};
    out[3] = (place){&s->gate_up, &l->gate_up};
    out[4] = (place){&s->down, &l->down};
    return 5;
}

plim_adapter_part *plim_adapter_part_of(const plim_shape *sh, plim_layer_adapters *layers, int64_t layer,
                                        plim_target target)
{
    place at[5];
    int count = places_of(sh, &layers[layer - sh->first_layer], layer, at);
    for (int i = 0; i < count; i++)
        for (int p = 0; p < at[i].linear->parts; p++)
            if (at[i].linear->part[p].target == target) return &at[i].product->part[p];
    return NULL;
}

typedef struct maker {
    const plim_shape *sh;
    const plim_adapters *blocks;
    plim_layer_adapters *layers;
} maker;

/* rows x cols elements of a flat block. */
static plim_tensor slice(plim_tensor block, const plim_adapter_tensor *t)
{
    plim_tensor v = plim_tensor_cols(block, t->offset, t->cols);
    v.rows = t->rows;
    v.pitch = t->cols;
    return v;
}

static void place_tensor(void *user, const plim_adapter_tensor *t)
{
    const maker *m = user;
    plim_adapter_part *part = plim_adapter_part_of(m->sh, m->layers, t->layer, t->target);
    part->stream = (uint64_t)t->layer * PLIM_TARGET_COUNT + (uint64_t)t->target;
    if (t->is_b) {
        part->b = slice(m->blocks->master, t);
        part->grad_b = slice(m->blocks->grad, t);
    } else {
        part->a = slice(m->blocks->master, t);
        part->grad_a = slice(m->blocks->grad, t);
    }
}

void plim_adapter_views(const plim_shape *sh, const plim_adapters *blocks, plim_layer_adapters *layers)
{
    maker m = {sh, blocks, layers};
    memset(layers, 0, (size_t)(sh->last_layer - sh->first_layer) * sizeof *layers);
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, place_tensor, &m);
}
