/* loop.c - decides what happens between the steps of a run: what is checked, written and said, and when. */
#include "train/loop.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/file.h"

/* ---- the folder ------------------------------------------------------------------------------------ */

plim_status plim_loop_check_out(plim_ctx *c, const char *out)
{
    DIR *dir = opendir(out);
    if (!dir && errno == ENOENT) return PLIM_OK;
    if (!dir) return plim_fail(c, PLIM_E_IO, "%s: cannot take a run: %s", out, strerror(errno));
    plim_status st = PLIM_OK;
    for (struct dirent *e; !st && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = plim_fail(c, PLIM_E_IO, "%s already holds %s; name a new or an empty folder for the run",
                           out, e->d_name);
    closedir(dir);
    return st;
}

plim_status plim_loop_make_out(plim_ctx *c, const char *out)
{
    TRY(plim_loop_check_out(c, out));
    if (mkdir(out, 0777) == 0 || errno == EEXIST) return PLIM_OK;
    return plim_fail(c, PLIM_E_IO, "%s: cannot be made: %s", out, strerror(errno));
}

/* ---- metrics.jsonl --------------------------------------------------------------------------------- */

typedef struct run {
    plim_session *s;
    const plim_loop_config *g;
    plim_loop_end end;
    plim_checkpoint_place place;
    FILE *metrics;
    char metrics_path[PLIM_PATH_BYTES];
    double start_s;
    int64_t first_step, saved_step;
} run;

static plim_status write_metrics(run *r, const plim_loop_report *p)
{
    const plim_step_result *x = &p->result;
    FILE *f = r->metrics;
    /* 17 digits bring a double back exactly. */
    fprintf(
        f,
        "{\"step\": %lld, \"epoch\": %.17g, \"loss\": %.17g, \"gradient_norm\": %.17g, \"learning_rate\": "
        "%.17g, \"tokens\": %lld, \"labelled\": %lld, \"seconds\": %.6f, \"tokens_per_s\": %.3f",
        (long long)x->step, p->epoch, x->loss, x->gradient_norm, x->learning_rate, (long long)x->tokens,
        (long long)x->labelled_rows, p->seconds, p->tokens_per_s);
    if (p->validated) fprintf(f, ", \"validation_loss\": %.17g", p->validation.loss);
    fprintf(f, "}\n");
    if (!fflush(f) && !ferror(f)) return PLIM_OK;
    return plim_fail(r->s->ctx, PLIM_E_IO, "%s: could not be written: %s", r->metrics_path, strerror(errno));
}

/* ---- checks after the first step ------------------------------------------------------------------- */

typedef struct zero_search {
    plim_session *s;
    plim_status status;
    int64_t zero, all;
    int64_t named;
    char names[640]; /* of the first few */
} zero_search;

static plim_status is_zero(plim_engine *e, plim_tensor t, bool *zero)
{
    char piece[1 << 13];
    size_t bytes = (size_t)t.cols * plim_dtype_bytes(t.dtype);
    *zero = true;
    for (size_t at = 0; *zero && at < bytes; at += sizeof piece) {
        size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        TRY(e->ops->read(e->device, (const char *)t.data + at, piece, n));
        /* Minus zero counts as set; an update never leaves one. */
        for (size_t i = 0; i < n; i++) *zero &= piece[i] == 0;
    }
    return PLIM_OK;
}

static void find_zero(void *user, const plim_adapter_tensor *t)
{
    zero_search *z = user;
    plim_engine *e = z->s->training.engine;
    bool zero;
    if (z->status || !t->is_b) return;
    z->all++;
    z->status = is_zero(e, plim_tensor_cols(e->step->adapters.master, t->offset, t->rows * t->cols), &zero);
    if (z->status || !zero) return;
    z->zero++;
    plim_adapter_key key;
    plim_adapter_key_of(&z->s->spec, e->sh->o.lora_rank, t, &key);
    size_t used = strlen(z->names), room = sizeof z->names - used;
    if (strlen(key.name) + 2 >= room) return;
    snprintf(z->names + used, room, "%s%s", used ? ", " : "", key.name);
    z->named++;
}

static plim_status check_first_step(run *r, const plim_step_result *x)
{
    const plim_shape *sh = r->s->training.engine->sh;
    zero_search z = {.s = r->s};
    if (x->loss == 0)
        return plim_fail(
            r->s->ctx, PLIM_E_NUMERIC,
            "step %lld: the loss of %lld labelled tokens is just 0, which no untrained text has; the "
            "labels or the weights are not what they should be",
            (long long)x->step, (long long)x->labelled_rows);
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, find_zero, &z);
    TRY(z.status);
    if (!z.zero) return PLIM_OK;
    return plim_fail(
        r->s->ctx, PLIM_E_NUMERIC,
        "step %lld: %lld of %lld lora_B are still zero after it, so that no gradient reaches them: "
        "%s%s",
        (long long)x->step, (long long)z.zero, (long long)z.all, z.names, z.zero > z.named ? ", ..." : "");
}

/* ---- a step ---------------------------------------------------------------------------------------- */

static plim_status save(run *r)
{
    int64_t step = r->s->training.step;
    if (r->saved_step == step) return PLIM_OK;
    TRY(plim_checkpoint_save(r->s, r->g->out, &r->place));
    r->saved_step = step;
    return plim_checkpoint_prune(r->s->ctx, r->g->out, r->g->keep);
}

static plim_status validate(run *r, plim_loop_report *p)
{
    const plim_loop_config *g = r->g;
    int64_t step = p->result.step;
    if (!g->validation) return PLIM_OK;
    if (step != g->last_step && !(g->validate_every && step % g->validate_every == 0)) return PLIM_OK;
    p->validated = true;
    return plim_evaluate(&r->s->training, g->validation, NULL, NULL, &p->validation);
}

static plim_status take_step(run *r)
{
    const plim_loop_config *g = r->g;
    plim_training *t = &r->s->training;
    plim_loop_report p = {.last_step = g->last_step};
    plim_order_step at;
    double before_s = plim_clock_now_s(g->clock), now_s;
    plim_order_step_at(g->order, t->step + 1, &at);
    plim_status st = plim_training_step(t, at.samples, at.count, &p.result);
    if (st == PLIM_E_NUMERIC && g->blame) g->blame(g->user, &at);
    TRY(st);
    now_s = plim_clock_now_s(g->clock);
    int64_t done = at.sequences_before + at.count;
    bool first = p.result.step == r->first_step;
    p.epoch = (double)at.epoch + (double)done / (double)at.epoch_sequences;
    p.seconds = now_s - before_s;
    p.tokens_per_s = p.seconds > 0 ? (double)p.result.tokens / p.seconds : 0;
    p.left_s = (now_s - r->start_s) / (double)(p.result.step - r->first_step + 1) *
               (double)(g->last_step - p.result.step);
    bool whole = done == at.epoch_sequences;
    r->place.epoch = at.epoch + whole;
    r->place.sequences = whole ? 0 : done;
    if (first) TRY(check_first_step(r, &p.result));
    TRY(validate(r, &p));
    TRY(write_metrics(r, &p));
    if (first) r->end.first = p;
    r->end.last = p;
    if (g->see) g->see(g->user, &p);
    return g->save_every && p.result.step % g->save_every == 0 ? save(r) : PLIM_OK;
}

static plim_status run_steps(run *r)
{
    const plim_loop_config *g = r->g;
    char folder[PLIM_PATH_BYTES];
    r->start_s = plim_clock_now_s(g->clock);
    while (r->s->training.step < g->last_step) {
        TRY(take_step(r));
        if (!g->stop || r->s->training.step == g->last_step || !g->stop(g->user)) continue;
        r->end.stopped = true;
        return save(r);
    }
    TRY(plim_path_join(r->s->ctx, folder, sizeof folder, g->out, PLIM_LOOP_ADAPTER_NAME));
    return plim_session_save_adapter(r->s, folder, PLIM_F32);
}

plim_status plim_loop_run(plim_session *s, const plim_loop_config *g, plim_loop_end *out)
{
    run *r;
    if (s->training.step >= g->last_step || g->keep < 1)
        return plim_fail(s->ctx, PLIM_E_RANGE, "a run to step %lld from step %lld, keeping %lld checkpoints",
                         (long long)g->last_step, (long long)s->training.step, (long long)g->keep);
    TRY(plim_alloc(s->ctx, 1, sizeof *r, "a run", &r));
    r->s = s;
    r->g = g;
    r->place.order = g->data;
    r->first_step = s->training.step + 1;
    plim_status st =
        plim_path_join(s->ctx, r->metrics_path, sizeof r->metrics_path, g->out, PLIM_LOOP_METRICS_NAME);
    if (!st && !(r->metrics = fopen(r->metrics_path, "ae")))
        st = plim_fail(s->ctx, PLIM_E_IO, "%s: cannot be opened: %s", r->metrics_path, strerror(errno));
    if (!st) {
        st = run_steps(r);
        fclose(r->metrics);
    }
    if (!st) *out = r->end;
    plim_release(s->ctx, r);
    return st;
}
