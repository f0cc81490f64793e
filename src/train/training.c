/* training.c - decides what one optimiser step is. */
#include "train/training.h"

#include <math.h>

#include "base/context.h"
#include "model/working_copy.h"

#define CLIP_EPS 1e-6 /* as torch.nn.utils.clip_grad_norm_ */

plim_hyper plim_hyper_defaults(void)
{
    return (plim_hyper){.learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip_norm = 1};
}

double plim_hyper_rate(const plim_hyper *h, int64_t step)
{
    static const double pi = 3.14159265358979323846;
    if (step <= h->warmup_steps) return h->learning_rate * (double)step / (double)h->warmup_steps;
    if (h->schedule == PLIM_SCHEDULE_CONSTANT) return h->learning_rate;
    double span = (double)(h->total_steps - h->warmup_steps);
    double done = span > 0 ? (double)(step - 1 - h->warmup_steps) / span : 1;
    if (done > 1) done = 1;
    double share = h->schedule == PLIM_SCHEDULE_LINEAR ? 1 - done : 0.5 * (1 + cos(pi * done));
    return h->learning_rate * (h->final_share + (1 - h->final_share) * share);
}

/* Eight-bit codes as the floats they fill four by four: zero bytes either way, and fill knows floats
 * alone. */
static plim_tensor as_floats(plim_tensor t)
{
    if (t.dtype != PLIM_U8) return t;
    t.dtype = PLIM_F32;
    t.cols /= (int64_t)sizeof(float); /* tensors are aligned to PLIM_ADAM_BLOCK elements */
    t.pitch = t.cols;
    return t;
}

plim_status plim_training_reset_states(plim_training *t)
{
    plim_engine *e = t->engine;
    const plim_adapters *a = &e->step->adapters;
    const plim_tensor all[] = {a->m, a->v, a->m_max, a->v_max, a->small_m, a->small_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        plim_fill_args zero = {.x = as_floats(all[i])};
        if (all[i].rows && all[i].cols) TRY(e->ops->fill(e->device, &zero));
    }
    t->step = 0;
    return PLIM_OK;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static plim_status read_scalar(plim_engine *e, int slot, double *out)
{
    return e->ops->read(e->device, (double *)e->step->batch.scalars.data + slot, out, sizeof *out);
}

static plim_status square_sum(plim_engine *e, plim_tensor x, double *out)
{
    double zero = 0, *at = (double *)e->step->batch.scalars.data + PLIM_SCALAR_GRADIENT;
    plim_square_sum_args a = {x, at};
    TRY(e->ops->write(e->device, &zero, at, sizeof zero));
    TRY(e->ops->square_sum(e->device, &a));
    return read_scalar(e, PLIM_SCALAR_GRADIENT, out);
}

typedef struct finder {
    plim_engine *engine;
    plim_status status;
    plim_adapter_tensor found;
    bool any;
} finder;

static plim_tensor gradient_of(const plim_engine *e, const plim_adapter_tensor *t)
{
    return plim_tensor_cols(e->step->adapters.grad, t->offset, t->rows * t->cols);
}

static void find_non_finite(void *user, const plim_adapter_tensor *t)
{
    finder *f = user;
    double sum;
    if (f->any || f->status) return;
    f->status = square_sum(f->engine, gradient_of(f->engine, t), &sum);
    if (f->status || isfinite(sum)) return;
    f->found = *t;
    f->any = true;
}

static void walk_adapters(const plim_engine *e, plim_adapter_visit visit, void *user)
{
    const plim_shape *sh = e->sh;
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, visit, user);
}

static plim_status refuse_gradient(plim_training *t, const plim_sample *samples, int64_t count)
{
    finder f = {.engine = t->engine};
    walk_adapters(t->engine, find_non_finite, &f);
    if (f.status) return f.status;
    return plim_fail(
        t->engine->ctx, PLIM_E_NUMERIC,
        "step %lld: the gradient is not finite, first in layer %lld %s.%s (samples %lld to %lld); parameters "
        "and optimiser states are as before the step",
        (long long)t->step + 1, (long long)f.found.layer, plim_target_name(f.found.target),
        f.found.is_b ? "lora_B" : "lora_A", (long long)samples[0].id, (long long)samples[count - 1].id);
}

plim_status plim_training_gradients(plim_training *t, const plim_sample *samples, int64_t count,
                                    plim_step_result *out)
{
    plim_engine *e = t->engine;
    plim_step_result r = {.step = t->step + 1};
    double before = 0, after;
    for (int64_t i = 0; i < count; i++) {
        double weight;
        r.labelled_rows += plim_sequence_labels(&samples[i].sequence, &weight);
        r.weight_sum += weight;
        r.tokens += samples[i].sequence.start[samples[i].sequence.documents];
    }
    if (r.labelled_rows == 0)
        return plim_fail(e->ctx, PLIM_E_RANGE,
                         "step %lld: none of its %lld samples has a position to train on", (long long)r.step,
                         (long long)count);
    TRY(plim_engine_zero(e));
    e->training = true;
    for (int64_t i = 0; i < count; i++) {
        e->dropout_seed = t->seed + (uint64_t)t->step * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)i;
        TRY(plim_engine_sequence(e, &samples[i].sequence, r.weight_sum));
        TRY(plim_pass_train(e));
        TRY(read_scalar(e, PLIM_SCALAR_LOSS, &after));
        if (!isfinite(after))
            return plim_fail(
                e->ctx, PLIM_E_NUMERIC,
                "step %lld: the loss of sample %lld is not finite; parameters and optimiser states are as "
                "before the step",
                (long long)r.step, (long long)samples[i].id);
        before = after;
    }
    r.loss = before / r.weight_sum;
    double sum;
    TRY(square_sum(e, e->step->adapters.grad, &sum));
    if (!isfinite(sum)) return refuse_gradient(t, samples, count);
    r.gradient_norm = sqrt(sum);
    *out = r;
    return PLIM_OK;
}

/* ---- update
 * -----------------------------------------------------------------------------------------------------------
 */

typedef struct updater {
    plim_training *trainer;
    plim_adamw_args args;
    plim_status status;
} updater;

static plim_tensor flat(plim_tensor block, int64_t offset, int64_t n)
{
    return block.cols ? plim_tensor_cols(block, offset, n) : (plim_tensor){0};
}

static void update_tensor(void *user, const plim_adapter_tensor *t)
{
    updater *u = user;
    plim_engine *e = u->trainer->engine;
    const plim_adapters *a = &e->step->adapters;
    int64_t n = t->rows * t->cols, blocks = (n + PLIM_ADAM_BLOCK - 1) / PLIM_ADAM_BLOCK;
    plim_adamw_args args = u->args;
    if (u->status) return;
    args.param = flat(a->master, t->offset, n);
    args.grad = flat(a->grad, t->offset, n);
    args.m = t->small_states ? flat(a->small_m, t->small_offset, n) : flat(a->m, t->offset, n);
    args.v = t->small_states ? flat(a->small_v, t->small_offset, n) : flat(a->v, t->offset, n);
    if (e->sh->o.adam_bits == 8 && !t->small_states) {
        args.m_max = flat(a->m_max, t->offset / PLIM_ADAM_BLOCK, blocks);
        args.v_max = flat(a->v_max, t->offset / PLIM_ADAM_BLOCK, blocks);
    }
    u->status = e->ops->adamw(e->device, &args);
}

plim_status plim_training_step(plim_training *t, const plim_sample *samples, int64_t count,
                               plim_step_result *out)
{
    plim_step_result r;
    const plim_hyper *h = &t->hyper;
    TRY(plim_training_gradients(t, samples, count, &r));
    r.learning_rate = plim_hyper_rate(h, r.step);
    updater u = {t,
                 {.learning_rate = r.learning_rate,
                  .beta1 = h->beta1,
                  .beta2 = h->beta2,
                  .eps = h->eps,
                  .weight_decay = h->weight_decay,
                  .grad_scale = 1,
                  .step = r.step},
                 PLIM_OK};
    if (h->clip_norm > 0 && r.gradient_norm > h->clip_norm)
        u.args.grad_scale = h->clip_norm / (r.gradient_norm + CLIP_EPS);
    walk_adapters(t->engine, update_tensor, &u);
    TRY(u.status);
    t->step = r.step;
    *out = r;
    return plim_training_refresh(t);
}

plim_status plim_training_evaluate(plim_training *t, const plim_sample *samples, int64_t count,
                                   double *loss_sum, double *weight_sum)
{
    plim_engine *e = t->engine;
    double weights = 0, sum;
    TRY(plim_engine_zero(e));
    e->training = false;
    for (int64_t i = 0; i < count; i++) {
        double weight;
        plim_sequence_labels(&samples[i].sequence, &weight);
        TRY(plim_engine_sequence(e, &samples[i].sequence, 1));
        TRY(plim_pass_evaluate(e, NULL, NULL));
        weights += weight;
    }
    TRY(read_scalar(e, PLIM_SCALAR_LOSS, &sum));
    *loss_sum = sum;
    *weight_sum = weights;
    return PLIM_OK;
}

plim_status plim_training_refresh(plim_training *t)
{
    plim_engine *e = t->engine;
    return plim_working_copy(e->machine, e->sh, e->step->adapters.master, e->lora_scale, e->step->weights);
}
