/* pass.c - decides the order of a sequence's work: forward through the layers, the loss, back through the
 * layers in reverse, with layer inputs sent to the host and fetched ahead where the layout says so. */
#include "base/context.h"
#include "model/engine.h"

/* Events of the copies: two ring slots out, two in, and the attention output each way. */
enum { EVENT_OUT = 0, EVENT_IN = 2, EVENT_OUTPUT_OUT = 4, EVENT_OUTPUT_IN = 5 };

static plim_layer_step *layer_at(const plim_engine *e, int64_t layer)
{
    return &e->step->layers[layer - e->sh->first_layer];
}

static plim_tensor rows_of(const plim_engine *e, plim_tensor t)
{
    return plim_tensor_rows(t, 0, e->T);
}

static bool is_attention(const plim_engine *e, int64_t layer)
{
    return e->sh->spec->layer_type[layer] == PLIM_LAYER_ATTENTION;
}

static plim_status embed(plim_engine *e, plim_tensor x)
{
    plim_rows_args gather = {e->step->model.embedding, rows_of(e, x), e->step->batch.ids.data};
    return e->ops->gather_rows(e->device, &gather);
}

/* ---- forward
 * ----------------------------------------------------------------------------------------------------------
 */

static plim_status offload_input(plim_engine *e, int64_t layer)
{
    plim_layer_step *l = layer_at(e, layer);
    if (!l->input_host.rows) return PLIM_OK;
    return e->ops->offload(e->device, rows_of(e, l->input), rows_of(e, l->input_host),
                           EVENT_OUT + (int)(layer & 1));
}

static plim_status offload_output(plim_engine *e, const plim_layer_step *l)
{
    if (!l->o_host.rows) return PLIM_OK;
    TRY(e->ops->offload(e->device, rows_of(e, l->attention_made.o), rows_of(e, l->o_host), EVENT_OUTPUT_OUT));
    return e->ops->offload(e->device, plim_tensor_cols(l->attention_made.lse, 0, e->T),
                           plim_tensor_cols(l->lse_host, 0, e->T), EVENT_OUTPUT_OUT);
}

static plim_status forward_layer(plim_engine *e, int64_t layer)
{
    plim_layer_step *l = layer_at(e, layer);
    bool kept = plim_shape_is_kept(e->sh, layer);
    plim_tensor x1 = kept ? l->x1 : l->output;
    TRY(offload_input(e, layer));
    /* The output goes to the slot that held the input of the layer before: its copy must have left. */
    if (layer > e->sh->first_layer && layer_at(e, layer - 1)->input_host.rows)
        TRY(e->ops->wait(e->device, EVENT_OUT + (int)((layer - 1) & 1)));
    if (is_attention(e, layer)) {
        plim_attention_pass p = {layer, l->input,     x1, l->attention_made, &l->attention_fwd,
                                 false, PLIM_NO_EVENT};
        TRY(plim_attention_block_fwd(e, &p));
        TRY(offload_output(e, l));
    } else {
        plim_delta_pass p = {layer, l->input, x1, kept ? &l->delta : NULL, &l->delta_fwd};
        TRY(plim_delta_block_fwd(e, &p));
    }
    plim_mlp_pass m = {layer, x1, l->output, kept ? l->gate_up : (plim_tensor){0}, &l->mlp_fwd};
    TRY(plim_mlp_block_fwd(e, &m));
    /* The next layer's scratch lies where this one's attention output was. */
    return l->o_host.rows ? e->ops->wait(e->device, EVENT_OUTPUT_OUT) : PLIM_OK;
}

/* ---- backward
 * ---------------------------------------------------------------------------------------------------------
 */

/* Starts bringing a layer's input back into its ring slot, while the layer above is at work.  That of the
 * card's last layer needs no fetch: nothing has taken its slot. */
static plim_status fetch_input(plim_engine *e, int64_t layer)
{
    if (layer < e->sh->first_layer) return PLIM_OK;
    plim_layer_step *l = layer_at(e, layer);
    if (!l->input_host.rows) return PLIM_OK;
    return e->ops->fetch(e->device, rows_of(e, l->input_host), rows_of(e, l->input),
                         EVENT_IN + (int)(layer & 1));
}

static plim_status wait_input(plim_engine *e, int64_t layer)
{
    return layer_at(e, layer)->input_host.rows ? e->ops->wait(e->device, EVENT_IN + (int)(layer & 1))
                                               : PLIM_OK;
}

static plim_status fetch_output(plim_engine *e, const plim_layer_step *l)
{
    if (!l->o_host.rows) return PLIM_OK;
    TRY(e->ops->fetch(e->device, rows_of(e, l->o_host), rows_of(e, l->attention.o), EVENT_OUTPUT_IN));
    return e->ops->fetch(e->device, plim_tensor_cols(l->lse_host, 0, e->T),
                         plim_tensor_cols(l->attention.lse, 0, e->T), EVENT_OUTPUT_IN);
}

/* The mixer again, up to the stream between it and the MLP. */
static plim_status recompute_layer(plim_engine *e, int64_t layer)
{
    plim_layer_step *l = layer_at(e, layer);
    if (!is_attention(e, layer)) {
        plim_delta_pass p = {layer, l->input, l->x1, &l->delta, &l->delta_again};
        return plim_delta_block_fwd(e, &p);
    }
    plim_attention_pass p = {layer,
                             l->input,
                             l->x1,
                             l->attention,
                             &l->attention_again,
                             e->sh->o.keep_attention_output,
                             l->o_host.rows ? EVENT_OUTPUT_IN : PLIM_NO_EVENT};
    return plim_attention_block_fwd(e, &p);
}

static plim_status backward_layer(plim_engine *e, int64_t layer)
{
    plim_layer_step *l = layer_at(e, layer);
    bool kept = plim_shape_is_kept(e->sh, layer);
    plim_tensor dx = e->step->dx;
    /* The attention output is wanted first: after the projections, which hide its way here. */
    if (!kept && is_attention(e, layer)) TRY(fetch_output(e, l));
    TRY(wait_input(e, layer));
    TRY(fetch_input(e, layer - 1));
    if (!kept) TRY(recompute_layer(e, layer));
    plim_mlp_pass m = {layer, l->x1, l->x1, kept ? l->gate_up : (plim_tensor){0}, &l->mlp_bwd};
    TRY(plim_mlp_block_bwd(e, &m, dx));
    if (is_attention(e, layer)) {
        plim_attention_pass p = {layer, l->input,     l->x1, l->attention, &l->attention_bwd,
                                 true,  PLIM_NO_EVENT};
        return plim_attention_block_bwd(e, &p, dx);
    }
    plim_delta_pass p = {layer, l->input, l->x1, &l->delta, &l->delta_bwd};
    return plim_delta_block_bwd(e, &p, dx);
}

/* ---- passes
 * ------------------------------------------------------------------------------------------------------------
 */

plim_status plim_pass_train(plim_engine *e)
{
    const plim_shape *sh = e->sh;
    plim_layer_step *end = layer_at(e, sh->last_layer);
    TRY(embed(e, layer_at(e, sh->first_layer)->input));
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++) TRY(forward_layer(e, i));
    TRY(plim_head_run(e, &e->step->head, rows_of(e, end->input), rows_of(e, e->step->dx)));
    for (int64_t i = sh->last_layer - 1; i >= sh->first_layer; i--) TRY(backward_layer(e, i));
    return PLIM_OK;
}

plim_status plim_pass_evaluate(plim_engine *e, plim_pass_see see, void *user)
{
    const plim_shape *sh = e->sh;
    const plim_layer_step *l = &e->step->eval;
    plim_tensor x = l->input, out = l->output;
    TRY(embed(e, x));
    if (see) TRY(see(user, 0, rows_of(e, x)));
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++) {
        if (is_attention(e, i)) {
            plim_attention_pass p = {i, x, out, l->attention, &l->attention_fwd, false, PLIM_NO_EVENT};
            TRY(plim_attention_block_fwd(e, &p));
        } else {
            plim_delta_pass p = {i, x, out, NULL, &l->delta_fwd};
            TRY(plim_delta_block_fwd(e, &p));
        }
        plim_mlp_pass m = {i, out, out, {0}, &l->mlp_fwd};
        TRY(plim_mlp_block_fwd(e, &m));
        plim_tensor swap = x;
        x = out;
        out = swap;
        if (see) TRY(see(user, i + 1 - sh->first_layer, rows_of(e, x)));
    }
    return plim_head_run(e, &e->step->head_eval, rows_of(e, x), (plim_tensor){0});
}
