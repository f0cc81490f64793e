/* tensor_map.h - where each tensor of a checkpoint lies in the laid-out weights.  Loading, random weights and
 * adapter files all go by this one map. */
#ifndef PLIM_MODEL_TENSOR_MAP_H
#define PLIM_MODEL_TENSOR_MAP_H

#include "model/weights.h"

typedef enum plim_tensor_role {
    PLIM_ROLE_EMBEDDING,
    PLIM_ROLE_HEAD,
    PLIM_ROLE_NORM,       /* a norm whose gain is 1 + w in some families */
    PLIM_ROLE_GATED_NORM, /* the delta-net's norm: plain gain */
    PLIM_ROLE_WEIGHT,     /* of a projection */
    PLIM_ROLE_BIAS,
    PLIM_ROLE_CONV,
    PLIM_ROLE_A_LOG,
    PLIM_ROLE_DT_BIAS,
} plim_tensor_role;

/* One text tensor and its place.  The checkpoint's elements, row-major, are those of to, row-major: a weight
 * [out, in] is rows of its product, a bias [out] columns of the product's bias, the convolution [ch, 1, Kw]
 * is [ch, Kw], a vector [n] is [1, n].  to.data is NULL when the weights have no memory. */
typedef struct plim_tensor_place {
    plim_tensor_decl decl;
    plim_tensor_role role;
    plim_target target; /* weights and biases */
    plim_tensor to;
} plim_tensor_place;

/* Calls visit for every text tensor of this card in checkpoint order, until one does not return PLIM_OK; that
 * is returned.  layers: as plim_weights_layout filled them.  A tied head has no place of its own and is not
 * visited. */
typedef plim_status (*plim_place_visit)(void *user, const plim_tensor_place *place);
plim_status plim_tensor_map_walk(const plim_shape *sh, const plim_model_weights *model,
                                 const plim_layer_weights *layers, plim_place_visit visit, void *user);

/* Visits what lies around the weights and must be zero for the extended products to be right: of every
 * product the pad columns up to the pitch and the pad rows, of every other tensor the columns up to the
 * pitch. */
typedef plim_status (*plim_view_visit)(void *user, plim_tensor view);
plim_status plim_padding_walk(const plim_shape *sh, const plim_model_weights *model,
                              const plim_layer_weights *layers, plim_view_visit visit, void *user);

/* What a tensor is, from its checkpoint name; target is written for weights and biases. */
plim_tensor_role plim_tensor_role_of(const char *name, plim_target *target);

/* Module of a projection inside its layer: "self_attn.q_proj". */
const char *plim_target_module(plim_target t);

/* Targets that occur in at least one layer of s, among these. */
uint32_t plim_model_targets(const plim_spec *s, uint32_t targets);

/* The product a projection belongs to and its part in it; NULL when the layer has no such projection.
 * weights: of the layer, or NULL; *lies gets the product's, or NULL. */
const plim_linear_part *plim_layer_part_find(const plim_layer_linears *l, const plim_layer_weights *weights,
                                             plim_target t, const plim_linear **linear,
                                             const plim_linear_weights **lies);

#endif
