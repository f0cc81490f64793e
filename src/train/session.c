/* session.c - decides the order in which a model is set up: what can be refused cheaply first, memory before
 * weights. */
#include "train/session.h"

#include "base/context.h"
#include "base/file.h"
#include "train/staged_sink.h"

#include <string.h>

plim_session_config plim_session_defaults(void)
{
    return (plim_session_config){.options = plim_options_defaults(), .hyper = plim_hyper_defaults()};
}

/* The adapter's own numbers, or those asked for a fresh one. */
static plim_status settle_adapter(plim_session *s, const plim_session_config *g, plim_options *o)
{
    if (g->adapter) {
        TRY(plim_adapter_survey(s->ctx, g->adapter, &s->spec, &s->adapter));
        o->lora_rank = s->adapter.rank;
        o->lora_targets = s->adapter.targets;
        o->lora_dropout = s->adapter.dropout;
        return PLIM_OK;
    }
    s->adapter = (plim_adapter_config){.rank = o->lora_rank,
                                       .alpha = g->alpha > 0 ? g->alpha : 2 * (double)o->lora_rank,
                                       .dropout = o->lora_dropout,
                                       .rslora = g->rslora,
                                       .targets = plim_model_targets(&s->spec, o->lora_targets)};
    if (!s->adapter.targets)
        return plim_fail(s->ctx, PLIM_E_USAGE, "%s has none of the projections that --targets names",
                         g->model);
    o->lora_targets = s->adapter.targets;
    size_t bytes = strlen(g->model);
    if (bytes < sizeof s->adapter.base_model) memcpy(s->adapter.base_model, g->model, bytes + 1);
    return PLIM_OK;
}

/* The masters where the host can read and write them: in their place, or in what the layout keeps for a
 * copy. */
static plim_tensor host_master(const plim_engine *e)
{
    return e->machine->shared_memory ? e->step->adapters.master : e->step->save;
}

static plim_status send_master(plim_engine *e)
{
    if (e->machine->shared_memory) return PLIM_OK;
    TRY(e->ops->fetch(e->device, e->step->save, e->step->adapters.master, 0));
    return e->ops->settle(e->device, 0);
}

static plim_status bring_master(plim_engine *e)
{
    if (e->machine->shared_memory) return PLIM_OK;
    plim_tensor save = e->step->save;
    return e->ops->read(e->device, e->step->adapters.master.data, save.data,
                        (size_t)save.cols * plim_dtype_bytes(save.dtype));
}

static plim_status fill(plim_session *s, const plim_session_config *g)
{
    plim_engine *e = s->training.engine;
    plim_tensor master = host_master(e);
    plim_staged_sink staged;
    plim_weight_sink sink =
        s->machine->shared_memory ? plim_weight_sink_host() : plim_weight_sink_staged(e, &staged);
    plim_load load = {e->sh, &e->step->model, e->step->weights, sink, g->progress, g->progress_user};
    /* Random weights are what a bf16 checkpoint would hold, so that every dtype of a run starts from the
     * same. */
    if (g->random_weights) TRY(plim_weights_random(s->ctx, g->seed, PLIM_BF16, &load));
    else TRY(plim_weights_load(s->ctx, g->model, s->files, &load));
    if (g->adapter) TRY(plim_adapter_load(s->ctx, g->adapter, e->sh, master));
    else plim_adapter_fresh(e->sh, g->seed, master);
    TRY(send_master(e));
    TRY(plim_training_refresh(&s->training));
    return plim_training_reset_states(&s->training);
}

static plim_status open_parts(plim_session *s, const plim_session_config *g)
{
    plim_options o = g->options;
    TRY(plim_spec_load(s->ctx, g->model, &s->spec));
    if (!g->random_weights) {
        if (!plim_path_is_folder(g->model))
            return plim_fail(
                s->ctx, PLIM_E_USAGE,
                "%s is a config without weights; give the model's folder, or ask for random weights",
                g->model);
        TRY(plim_model_files_check(s->ctx, g->model, &s->spec, &s->files));
    }
    TRY(settle_adapter(s, g, &o));
    TRY(plim_engine_open(s->ctx, s->machine, &s->spec, &o, &s->training.engine));
    s->training.engine->lora_scale = plim_adapter_scale(&s->adapter);
    s->training.hyper = g->hyper;
    s->training.seed = g->seed;
    return fill(s, g);
}

plim_status plim_session_open(plim_ctx *c, const plim_machine *m, const plim_session_config *g,
                              plim_session **out)
{
    plim_session *s;
    TRY(plim_alloc(c, 1, sizeof *s, "a session", &s));
    s->ctx = c;
    s->machine = m;
    plim_status st = open_parts(s, g);
    if (st) {
        plim_session_close(s);
        return st;
    }
    *out = s;
    return PLIM_OK;
}

void plim_session_close(plim_session *s)
{
    if (!s) return;
    plim_model_files_close(s->files);
    plim_engine_close(s->training.engine);
    plim_release(s->ctx, s);
}

plim_status plim_session_save_adapter(plim_session *s, const char *folder, plim_dtype dtype)
{
    plim_engine *e = s->training.engine;
    plim_adapter_save_args a = {folder, e->sh, host_master(e), s->adapter, dtype, s->training.step > 0};
    TRY(bring_master(e));
    return plim_adapter_save(s->ctx, &a);
}
