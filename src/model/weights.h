/* weights.h - where the frozen base lies, with room for the adapters' working copies beside each product. */
#ifndef PLIM_MODEL_WEIGHTS_H
#define PLIM_MODEL_WEIGHTS_H

#include "model/shape.h"

/* weight: ACT [out, in] with pad columns beside and pad rows below, reached through the pitch; bias: STAT [1,
 * out]. */
typedef struct plim_linear_weights {
    plim_tensor weight, bias;
} plim_linear_weights;

/* Norm gains, conv, a_log and dt_bias are STAT whatever the file stores. */
typedef struct plim_layer_weights {
    plim_tensor input_norm, post_norm; /* [1, D] */
    plim_linear_weights in, ba, out, gate_up, down;
    plim_tensor q_norm, k_norm;                   /* attention: [1, Dh] */
    plim_tensor conv, a_log, dt_bias, gated_norm; /* delta: [ch, Kw], [1, Hv], [1, Hv], [1, Dv] */
} plim_layer_weights;

typedef struct plim_model_weights {
    plim_tensor embedding; /* ACT [V, D]; on the host when the options say so */
    plim_tensor head;      /* ACT [V, D]; the embedding itself when tied */
    plim_tensor final_norm;
} plim_model_weights;

/* layers: one entry for every layer of the card, or NULL to count only. */
void plim_weights_layout(plim_arena *device, plim_arena *host, const plim_shape *sh,
                         plim_model_weights *model, plim_layer_weights *layers);

#endif
