/* step.c - decides the order of a training step's memory: what stays for the whole step at the bottom, then
 * what the forward pass leaves behind layer by layer, then what is at work. */
#include "model/step.h"

#include "ops/ops.h"

typedef struct walk {
    plim_memory *mem;
    const plim_shape *sh;
    plim_step *step;
    plim_phase_visit visit;
    void *user;
} walk;

static void end_phase(walk *w, plim_phase phase, int64_t layer)
{
    plim_usage device = plim_arena_phase(&w->mem->device), host = plim_arena_phase(&w->mem->host);
    if (w->visit) w->visit(w->user, phase, layer, &device, &host);
}

static plim_tensor residual(walk *w, plim_component m, const char *name)
{
    return plim_arena_push(&w->mem->device, m, name, w->sh->act, w->sh->T, w->sh->D);
}

static plim_layer_step *layer_at(const walk *w, int64_t layer)
{
    return &w->step->layers[layer - w->sh->first_layer];
}

static bool is_attention(const plim_shape *sh, int64_t layer)
{
    return sh->spec->layer_type[layer] == PLIM_LAYER_ATTENTION;
}

/* ---- whole step ---------------------------------------------------------------------------------------- */

static void batch_layout(walk *w)
{
    plim_arena *a = &w->mem->device;
    const plim_shape *sh = w->sh;
    plim_batch_tables *b = &w->step->batch;
    b->ids = plim_arena_push(a, PLIM_MEM_BATCH, "batch.ids", PLIM_I32, 1, sh->T);
    b->labels = plim_arena_push(a, PLIM_MEM_BATCH, "batch.labels", PLIM_I32, 1, sh->T);
    b->weights = plim_arena_push(a, PLIM_MEM_BATCH, "batch.weights", PLIM_F32, 1, sh->T);
    b->index = plim_arena_push(a, PLIM_MEM_BATCH, "batch.index", PLIM_I32, 1, sh->T);
    b->start = plim_arena_push(a, PLIM_MEM_BATCH, "batch.start", PLIM_I64, 1, sh->o.documents + 1);
    b->cos = plim_arena_push(a, PLIM_MEM_BATCH, "batch.cos", sh->stat, sh->T, sh->spec->rope.rotary_dim / 2);
    b->sin = plim_arena_push(a, PLIM_MEM_BATCH, "batch.sin", sh->stat, sh->T, sh->spec->rope.rotary_dim / 2);
    b->scalars = plim_arena_push(a, PLIM_MEM_BATCH, "batch.scalars", PLIM_F64, 1, 8);
    b->chunks =
        plim_arena_push_bytes(a, PLIM_MEM_BATCH, "batch.chunks", sizeof(plim_chunk) * (size_t)sh->all_chunks);
}

static int64_t widest_input(const plim_shape *sh)
{
    int64_t widest = 0;
    for (int type = 0; type < 2; type++) {
        const plim_layer_linears *l = &sh->linears[type];
        const int64_t in[] = {l->in.in, l->out.in, l->gate_up.in, l->down.in};
        for (size_t i = 0; i < sizeof in / sizeof *in; i++) widest = in[i] > widest ? in[i] : widest;
    }
    return widest;
}

/* The gradient of the residual stream is the input gradient of down and out_proj, so it has room for their
 * dt. */
static int64_t gradient_pad(const plim_shape *sh)
{
    int64_t pad = 0;
    for (int type = 0; type < 2; type++) {
        const plim_layer_linears *l = &sh->linears[type];
        if (l->out.pad > pad) pad = l->out.pad;
        if (l->down.pad > pad) pad = l->down.pad;
    }
    return pad;
}

static void whole_step_layout(walk *w)
{
    plim_arena *a = &w->mem->device, *host = &w->mem->host;
    const plim_shape *sh = w->sh;
    plim_step *st = w->step;
    plim_arena_push_bytes(a, PLIM_MEM_CONTEXT, "context", sh->o.context_bytes);
    plim_weights_layout(a, host, sh, &st->model, st->weights);
    plim_adapters_layout(a, &sh->adapters, sh->stat, sh->o.adam_bits, &st->adapters);
    st->gemm_workspace =
        plim_arena_push_bytes(a, PLIM_MEM_WORKSPACE, "gemm.workspace", sh->o.gemm_workspace_bytes);
    plim_mark loading = plim_arena_mark(host);
    for (int i = 0; i < 2; i++)
        st->staging[i] = plim_arena_push(host, PLIM_MEM_STAGING, "staging", PLIM_U8, 1,
                                         (int64_t)(sh->o.staging_bytes / 2));
    end_phase(w, PLIM_PHASE_LOAD, -1);
    plim_arena_pop(host, &loading);
    batch_layout(w);
    st->dropped = (plim_tensor){0};
    if (sh->o.lora_dropout > 0)
        st->dropped = plim_arena_push(a, PLIM_MEM_LORA, "lora.dropped", sh->act, sh->tile, widest_input(sh));
    st->dx = plim_arena_push_padded(a, PLIM_MEM_RESIDUAL, "dx", sh->act, sh->T, sh->D, 0, gradient_pad(sh));
    st->ring[0] = st->ring[1] = (plim_tensor){0};
    if (plim_shape_input_on_host(sh, sh->first_layer))
        for (int i = 0; i < 2; i++) st->ring[i] = residual(w, PLIM_MEM_RESIDUAL, "ring");
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* Where the input of a layer (or, past the last, the final output) lies on the device. */
static void input_layout(walk *w, int64_t layer)
{
    plim_layer_step *l = layer_at(w, layer);
    bool last = layer == w->sh->last_layer;
    *l = (plim_layer_step){.before_input = plim_arena_mark(&w->mem->device)}; /* nothing of an earlier walk */
    /* The output of a last layer that was itself offloaded takes the ring's other slot. */
    if (plim_shape_input_on_host(w->sh, last ? layer - 1 : layer)) {
        l->input = w->step->ring[layer & 1];
        if (!last)
            l->input_host = plim_arena_push(&w->mem->host, PLIM_MEM_CHECKPOINTS, "input_host", w->sh->act,
                                            w->sh->T, w->sh->D);
    } else {
        l->input = residual(w, last ? PLIM_MEM_RESIDUAL : PLIM_MEM_CHECKPOINTS, last ? "x_final" : "input");
    }
}

/* Attention output that stays with the layer input, on its side of the link. */
static void attention_kept_output(walk *w, int64_t layer)
{
    const plim_shape *sh = w->sh;
    plim_layer_step *l = layer_at(w, layer);
    if (!sh->o.keep_attention_output || plim_shape_is_kept(sh, layer)) return;
    if (!plim_shape_input_on_host(sh, layer)) {
        plim_attention_o_layout(&w->mem->device, sh, PLIM_MEM_ATTENTION_OUTPUT, &l->attention);
        return;
    }
    plim_attention_saved host;
    plim_attention_o_layout(&w->mem->host, sh, PLIM_MEM_ATTENTION_OUTPUT, &host);
    l->o_host = host.o;
    l->lse_host = host.lse;
}

static bool output_stays_on_device(const plim_shape *sh, int64_t layer)
{
    return sh->o.keep_attention_output && !plim_shape_input_on_host(sh, layer) &&
           !plim_shape_is_kept(sh, layer);
}

/* What a kept layer leaves behind. */
static void kept_layout(walk *w, int64_t layer)
{
    plim_arena *a = &w->mem->device;
    plim_layer_step *l = layer_at(w, layer);
    if (is_attention(w->sh, layer)) {
        plim_attention_qkv_layout(a, w->sh, PLIM_MEM_KEPT, &l->attention);
        plim_attention_o_layout(a, w->sh, PLIM_MEM_KEPT, &l->attention);
    } else {
        plim_delta_saved_layout(a, w->sh, PLIM_MEM_KEPT, &l->delta);
    }
    l->x1 = residual(w, PLIM_MEM_KEPT, "x1");
    l->gate_up = plim_mlp_gate_up_layout(a, w->sh, PLIM_MEM_KEPT, w->sh->T);
}

static void forward_layer(walk *w, int64_t layer)
{
    plim_arena *a = &w->mem->device;
    const plim_shape *sh = w->sh;
    plim_layer_step *l = layer_at(w, layer);
    bool kept = plim_shape_is_kept(sh, layer), attention = is_attention(sh, layer);
    l->before_saved = plim_arena_mark(a);
    if (kept) kept_layout(w, layer);
    if (attention) attention_kept_output(w, layer);
    input_layout(w, layer + 1);
    l->output = layer_at(w, layer + 1)->input;

    plim_mark work = plim_arena_mark(a), mlp = work;
    if (attention) {
        l->attention_made = l->attention;
        if (!kept && !output_stays_on_device(sh, layer))
            plim_attention_o_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention_made);
        /* The copy to the host runs beside the MLP, whose scratch therefore stands above what is copied. */
        if (l->o_host.rows > 0) mlp = plim_arena_mark(a);
        if (!kept) plim_attention_qkv_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention_made);
        plim_attention_fwd_layout(a, sh, &l->attention_fwd);
    } else {
        plim_delta_fwd_layout(a, sh, kept, &l->delta_fwd);
    }
    plim_arena_pop(a, &mlp);
    plim_mlp_fwd_layout(a, sh, kept, &l->mlp_fwd);
    plim_arena_pop(a, &work);
    end_phase(w, PLIM_PHASE_FORWARD, layer);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static void recompute_layout(walk *w, int64_t layer)
{
    plim_arena *a = &w->mem->device;
    const plim_shape *sh = w->sh;
    plim_layer_step *l = layer_at(w, layer);
    if (is_attention(sh, layer)) {
        plim_attention_qkv_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention);
        if (!output_stays_on_device(sh, layer))
            plim_attention_o_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention);
    } else {
        plim_delta_saved_layout(a, sh, PLIM_MEM_DELTA, &l->delta);
    }
    /* Above what the mixer's backward pass reads: the MLP's is the last to need it. */
    l->before_x1 = plim_arena_mark(a);
    l->x1 = residual(w, PLIM_MEM_RESIDUAL, "x1");
    plim_mark work = plim_arena_mark(a);
    if (is_attention(sh, layer)) plim_attention_fwd_layout(a, sh, &l->attention_again);
    else plim_delta_fwd_layout(a, sh, true, &l->delta_again);
    plim_arena_pop(a, &work);
}

static void backward_layer(walk *w, int64_t layer)
{
    plim_arena *a = &w->mem->device;
    const plim_shape *sh = w->sh;
    plim_layer_step *l = layer_at(w, layer);
    bool kept = plim_shape_is_kept(sh, layer);
    if (!kept) recompute_layout(w, layer);
    plim_mark work = plim_arena_mark(a);
    plim_mlp_bwd_layout(a, sh, kept, &l->mlp_bwd);
    plim_arena_pop(a, kept ? &work : &l->before_x1);
    if (is_attention(sh, layer)) plim_attention_bwd_layout(a, sh, &l->attention_bwd);
    else plim_delta_bwd_layout(a, sh, &l->delta_bwd);
    plim_arena_pop(a, &l->before_saved);
    end_phase(w, PLIM_PHASE_BACKWARD, layer);
    /* The layer's own input stays until here; the one below it is the next layer's affair. */
    plim_arena_pop(a, &l->before_input);
}

/* ---- evaluation, saving -------------------------------------------------------------------------------- */

static void evaluate_layout(walk *w)
{
    plim_arena *a = &w->mem->device;
    const plim_shape *sh = w->sh;
    plim_layer_step *l = &w->step->eval;
    plim_mark start = plim_arena_mark(a);
    bool ring = w->step->ring[0].rows > 0;
    *l = (plim_layer_step){0};
    l->input = ring ? w->step->ring[0] : residual(w, PLIM_MEM_RESIDUAL, "eval.in");
    l->output = ring ? w->step->ring[1] : residual(w, PLIM_MEM_RESIDUAL, "eval.out");
    plim_mark work = plim_arena_mark(a);
    if (plim_spec_layers_of(sh->spec, PLIM_LAYER_ATTENTION) > 0) {
        plim_attention_qkv_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention);
        plim_attention_o_layout(a, sh, PLIM_MEM_ATTENTION, &l->attention);
        plim_attention_fwd_layout(a, sh, &l->attention_fwd);
        plim_arena_pop(a, &work);
    }
    if (plim_spec_layers_of(sh->spec, PLIM_LAYER_DELTA) > 0) {
        plim_delta_fwd_layout(a, sh, false, &l->delta_fwd);
        plim_arena_pop(a, &work);
    }
    plim_mlp_fwd_layout(a, sh, false, &l->mlp_fwd);
    plim_arena_pop(a, &work);
    if (sh->has_head) plim_head_layout(a, sh, false, &w->step->head_eval);
    plim_arena_pop(a, &start);
    end_phase(w, PLIM_PHASE_EVALUATE, -1);
}

static void save_layout(walk *w)
{
    plim_arena *host = &w->mem->host;
    plim_mark start = plim_arena_mark(host);
    w->step->save =
        plim_arena_push(host, PLIM_MEM_STAGING, "save.adapter", w->sh->stat, 1, w->sh->adapters.elements);
    plim_arena_pop(host, &start);
    end_phase(w, PLIM_PHASE_SAVE, -1);
}

void plim_step_layout(plim_memory *mem, const plim_shape *sh, plim_step *step, plim_phase_visit visit,
                      void *user)
{
    walk w = {mem, sh, step, visit, user};
    whole_step_layout(&w);
    plim_mark before_checkpoints = plim_arena_mark(&mem->host);
    input_layout(&w, sh->first_layer);
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++) forward_layer(&w, i);
    if (sh->has_head) {
        plim_mark work = plim_arena_mark(&mem->device);
        plim_head_layout(&mem->device, sh, true, &step->head);
        plim_arena_pop(&mem->device, &work);
        end_phase(&w, PLIM_PHASE_LOSS, -1);
    }
    plim_arena_pop(&mem->device, &layer_at(&w, sh->last_layer)->before_input);
    for (int64_t i = sh->last_layer - 1; i >= sh->first_layer; i--) backward_layer(&w, i);
    plim_arena_pop(&mem->host, &before_checkpoints);
    end_phase(&w, PLIM_PHASE_OPTIMISER, -1);
    evaluate_layout(&w);
    save_layout(&w);
}
