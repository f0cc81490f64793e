/* evaluate.c - decides how losses add up over a file, and writes logits for comparison with other
 * programs. */
#include "train/evaluate.h"

#include <math.h>

#include "base/context.h"
#include "base/floats.h"
#include "formats/safetensors_writer.h"

static plim_status add_sample(plim_training *t, const plim_sample *sample, plim_evaluation *r,
                              double *loss_sum)
{
    double loss, weight;
    const plim_sequence *q = &sample->sequence;
    TRY(plim_training_evaluate(t, sample, 1, &loss, &weight));
    if (!isfinite(loss))
        return plim_fail(t->engine->ctx, PLIM_E_NUMERIC, "the loss of sample %lld is not finite",
                         (long long)sample->id);
    *loss_sum += loss;
    r->documents += q->documents;
    r->tokens += q->start[q->documents];
    r->labelled += plim_sequence_labels(q, &weight);
    r->weight_sum += weight;
    return PLIM_OK;
}

plim_status plim_evaluate(plim_training *t, plim_order *o,
                          void (*see)(void *user, int64_t done, int64_t total), void *user,
                          plim_evaluation *out)
{
    plim_evaluation r = {0};
    double loss_sum = 0;
    int64_t steps = plim_order_steps(o, 1);
    for (int64_t i = 1; i <= steps; i++) {
        plim_order_step at;
        plim_order_step_at(o, i, &at);
        for (int64_t n = 0; n < at.count; n++) TRY(add_sample(t, &at.samples[n], &r, &loss_sum));
        if (see) see(user, at.sequences_before + at.count, at.epoch_sequences);
    }
    r.loss = loss_sum / r.weight_sum;
    *out = r;
    return PLIM_OK;
}

/* ---- logits ---------------------------------------------------------------------------------------- */

typedef struct logits {
    plim_engine *engine;
    plim_safetensors_writer *file;
    int64_t rows;
    void *row; /* as the engine has them */
    float *as_f32;
} logits;

static plim_status write_row(logits *l, int64_t row, plim_tensor from)
{
    plim_engine *e = l->engine;
    TRY(e->ops->read(e->device, from.data, l->row, (size_t)from.cols * plim_dtype_bytes(from.dtype)));
    int64_t bad = plim_floats_convert(from.dtype, l->row, from.cols, PLIM_F32, l->as_f32);
    if (bad >= 0)
        return plim_fail(e->ctx, PLIM_E_NUMERIC, "the logit of row %lld, token %lld is not finite",
                         (long long)row, (long long)bad);
    return plim_safetensors_writer_data(l->file, l->as_f32, (size_t)from.cols * sizeof *l->as_f32);
}

static plim_status see_stream(void *user, int64_t layer, plim_tensor x)
{
    logits *l = user;
    plim_engine *e = l->engine;
    const plim_head_work *w = &e->step->head_eval;
    if (layer < e->spec.layers) return PLIM_OK;
    for (int64_t first = 0; first < l->rows; first += e->sh->loss_rows) {
        int64_t left = l->rows - first, rows = left < e->sh->loss_rows ? left : e->sh->loss_rows;
        TRY(plim_head_logits(e, w, x, first, rows));
        for (int64_t i = 0; i < rows; i++) TRY(write_row(l, first + i, plim_tensor_rows(w->logits, i, 1)));
    }
    return PLIM_OK;
}

static plim_status write_logits(logits *l, plim_training *t, const plim_sample *sample)
{
    plim_engine *e = l->engine;
    TRY(plim_safetensors_writer_tensor(l->file, "logits", PLIM_F32, 2,
                                       (const int64_t[]){l->rows, e->spec.vocab}));
    TRY(plim_safetensors_writer_tensor(l->file, "input_ids", PLIM_I32, 1, &l->rows));
    TRY(plim_engine_zero(t->engine));
    e->training = false;
    TRY(plim_engine_sequence(e, &sample->sequence, 1));
    TRY(plim_pass_evaluate(e, see_stream, l));
    return plim_safetensors_writer_data(l->file, sample->sequence.ids, (size_t)l->rows * sizeof(int32_t));
}

plim_status plim_evaluate_logits(plim_training *t, const plim_sample *sample, int64_t rows, const char *path)
{
    plim_engine *e = t->engine;
    plim_ctx *c = e->ctx;
    int64_t T = sample->sequence.start[sample->sequence.documents];
    logits l = {.engine = e, .rows = rows};
    if (rows < 1 || rows > T)
        return plim_fail(c, PLIM_E_RANGE, "logits of %lld rows wanted; the first sequence has %lld",
                         (long long)rows, (long long)T);
    plim_status st = plim_alloc(c, (size_t)e->spec.vocab, sizeof(double), "a row of logits", &l.row);
    if (!st) st = plim_alloc(c, (size_t)e->spec.vocab, sizeof *l.as_f32, "a row of logits", &l.as_f32);
    if (!st) st = plim_safetensors_writer_open(c, path, &l.file);
    if (!st) {
        st = write_logits(&l, t, sample);
        if (!st) st = plim_safetensors_writer_commit(l.file);
        else plim_safetensors_writer_abort(l.file);
    }
    plim_release(c, l.row);
    plim_release(c, l.as_f32);
    return st;
}
