/* adapter_views.h - each adapter tensor as a matrix, found by layer and product. */
#ifndef PLIM_MODEL_ADAPTER_VIEWS_H
#define PLIM_MODEL_ADAPTER_VIEWS_H

#include "model/shape.h"

/* One projection's adapter: a, grad_a STAT [padded rank, in]; b, grad_b STAT [out, padded rank].  Absent
 * views: no adapter.  stream: names its dropout mask. */
typedef struct plim_adapter_part {
    plim_tensor a, b, grad_a, grad_b;
    uint64_t stream;
} plim_adapter_part;

typedef struct plim_adapter_product {
    plim_adapter_part part[PLIM_MAX_PARTS];
} plim_adapter_product;

typedef struct plim_layer_adapters {
    plim_adapter_product in, ba, out, gate_up, down;
} plim_layer_adapters;

/* layers: one for each layer of the card. */
void plim_adapter_views(const plim_shape *sh, const plim_adapters *blocks, plim_layer_adapters *layers);

/* The product of a layer that a target belongs to, and its part; NULL when the layer has no such
 * projection. */
plim_adapter_part *plim_adapter_part_of(const plim_shape *sh, plim_layer_adapters *layers, int64_t layer,
                                        plim_target target);

#endif
