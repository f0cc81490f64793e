/* memtest.c - decides in which order a memory test does things: a length is planned before it is allocated,
 * the file is written before and after it, and whatever fails is unwound and in the file. */
#include "train/memtest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/fnv.h"
#include "base/machine_memory.h"
#include "base/random.h"
#include "base/units.h"

/* ---- a sequence ---------------------------------------------------------------------------------------- */

void plim_memtest_sequence(const plim_spec *s, const plim_options *o, uint64_t seed, int64_t step,
                           int32_t *ids, float *weights, int64_t *start)
{
    plim_random tokens = {seed, plim_fnv1a64("memtest.tokens")},
                labels = {seed, plim_fnv1a64("memtest.labels")};
    uint64_t T = (uint64_t)o->seq_tokens, first = (uint64_t)step * T;
    bool any = false;
    int64_t each = o->seq_tokens / o->documents, longer = o->seq_tokens % o->documents;
    for (uint64_t i = 0; i < T; i++) {
        ids[i] = (int32_t)plim_random_below(tokens, first + i, (uint32_t)s->vocab);
        weights[i] = plim_random_double(labels, first + i) < o->labelled_share;
    }
    start[0] = 0;
    for (int64_t n = 0; n < o->documents; n++) {
        start[n + 1] = start[n] + each + (n < longer);
        for (int64_t i = start[n] + 1; i < start[n + 1]; i++) any |= weights[i] > 0;
    }
    if (!any) weights[1] = 1;
}

/* ---- one length ---------------------------------------------------------------------------------------- */

typedef struct run {
    plim_ctx *ctx;
    const plim_machine *machine;
    const plim_memtest_config *g;
    plim_memtest_result *r;
    int64_t planned;
    double start_s;
    double done_expected_s; /* of the lengths that are done */
} run;

/* Host memory of a length beside its session. */
typedef struct batch {
    int32_t *ids;
    float *weights;
    int64_t *start;
} batch;

static plim_status open_batch(plim_ctx *c, const plim_options *o, batch *b)
{
    TRY(plim_alloc(c, (size_t)o->seq_tokens, sizeof *b->ids, "the tokens of a memory test", &b->ids));
    TRY(plim_alloc(c, (size_t)o->seq_tokens, sizeof *b->weights, "the labels of a memory test", &b->weights));
    return plim_alloc(c, (size_t)o->documents + 1, sizeof *b->start, "the documents of a memory test",
                      &b->start);
}

static void close_batch(plim_ctx *c, batch *b)
{
    plim_release(c, b->start);
    plim_release(c, b->weights);
    plim_release(c, b->ids);
}

static double now_s(const run *u)
{
    return plim_clock_now_s(u->g->clock);
}

static plim_sample sample_of(const run *u, const plim_memtest_length *l, const batch *b, int64_t step)
{
    plim_memtest_sequence(u->g->spec, &l->options, u->g->seed, step, b->ids, b->weights, b->start);
    return (plim_sample){{b->ids, b->weights, b->start, l->options.documents}, step + 1};
}

/* What is taken of the whole device now counts towards the peak.  The arena is taken whole at open, so that
 * what moves is what the driver and its libraries add: kernels that load when they first run. */
static plim_status look(run *u, plim_memtest_length *l)
{
    const plim_machine *m = u->machine;
    size_t free_bytes, total_bytes;
    if (!m->memory_info) return PLIM_OK;
    TRY(m->memory_info(m->device, &free_bytes, &total_bytes));
    int64_t taken = (int64_t)(total_bytes - free_bytes);
    if (taken > l->measured_peak_bytes) l->measured_peak_bytes = taken;
    return PLIM_OK;
}

static plim_status take_steps(run *u, plim_session *s, const batch *b, plim_memtest_length *l)
{
    for (int64_t i = 0; i < u->g->steps; i++) {
        plim_step_result result;
        plim_sample sample = sample_of(u, l, b, i);
        double start_s = now_s(u);
        TRY(plim_training_step(&s->training, &sample, 1, &result));
        l->step_s[l->steps++] = now_s(u) - start_s;
        l->loss = result.loss;
        TRY(look(u, l));
        if (u->g->see_step) u->g->see_step(u->g->user, l);
    }
    return PLIM_OK;
}

/* A run that trains will evaluate, at the same length: that must fit too. */
static plim_status evaluate(run *u, plim_session *s, const batch *b, plim_memtest_length *l)
{
    double loss, weight, start_s;
    plim_sample sample = sample_of(u, l, b, u->g->steps);
    start_s = now_s(u);
    TRY(plim_training_evaluate(&s->training, &sample, 1, &loss, &weight));
    l->evaluation_s = now_s(u) - start_s;
    l->evaluation_loss = loss / weight;
    if (isfinite(l->evaluation_loss)) return PLIM_OK;
    return plim_fail(u->ctx, PLIM_E_NUMERIC, "the loss of the evaluation at %lld tokens is not finite",
                     (long long)l->seq_tokens);
}

/* Tokens a second, without the first step where there are others: it wakes caches and threads. */
static double speed(const plim_memtest_length *l)
{
    double s = 0;
    int64_t first = l->steps > 1;
    for (int64_t i = first; i < l->steps; i++) s += l->step_s[i];
    return s > 0 ? (double)l->seq_tokens * (double)(l->steps - first) / s : PLIM_MEMTEST_UNKNOWN;
}

static plim_status work(run *u, plim_session *s, const batch *b, plim_memtest_length *l)
{
    plim_arena *device = &s->training.engine->memory.device;
    TRY(look(u, l));
    TRY(take_steps(u, s, b, l));
    TRY(evaluate(u, s, b, l));
    TRY(look(u, l));
    l->arena_peak_bytes = (int64_t)plim_arena_peak(device).total_bytes;
    if (!u->machine->memory_info) l->measured_peak_bytes = l->arena_peak_bytes;
    l->tokens_per_s = speed(l);
    return PLIM_OK;
}

static plim_status open_and_work(run *u, const batch *b, plim_memtest_length *l)
{
    plim_session_config g = plim_session_defaults();
    plim_session *s = NULL;
    g.model = u->g->model;
    g.random_weights = true;
    g.seed = u->g->seed;
    g.options = l->options;
    g.progress = u->g->see_weights;
    g.progress_user = u->g->user;
    double start_s = now_s(u);
    TRY(plim_session_open(u->ctx, u->machine, &g, &s));
    l->setup_s = now_s(u) - start_s;
    plim_status st = work(u, s, b, l);
    plim_session_close(s);
    return st;
}

/* Without /proc the process's memory is simply not known. */
static plim_status read_process(run *u, plim_process_memory *out)
{
    plim_status st = plim_process_memory_read(u->ctx, u->g->proc_root, out);
    if (st != PLIM_E_IO && st != PLIM_E_FORMAT) return st;
    plim_ctx_clear(u->ctx);
    *out = (plim_process_memory){UINT64_MAX, UINT64_MAX};
    return PLIM_OK;
}

static int64_t known(uint64_t bytes)
{
    return bytes == UINT64_MAX ? PLIM_MEMTEST_UNKNOWN : (int64_t)bytes;
}

/* The process's own peak, beside what the arena says: everything the plan does not know of is in it. */
static plim_status watched(run *u, plim_memtest_length *l)
{
    plim_process_memory before, after;
    batch b = {0};
    l->process_peak_reset = plim_process_peak_reset(u->g->proc_root);
    TRY(read_process(u, &before));
    l->process_before_bytes = known(before.resident_bytes);
    plim_status st = open_batch(u->ctx, &l->options, &b);
    if (!st) st = open_and_work(u, &b, l);
    close_batch(u->ctx, &b);
    if (st) return st;
    TRY(read_process(u, &after));
    l->process_peak_bytes = known(after.peak_bytes);
    return PLIM_OK;
}

/* ---- the record ---------------------------------------------------------------------------------------- */

static void tally(const run *u)
{
    plim_memtest_result *r = u->r;
    plim_memtest_result_judge(r);
    r->seconds = now_s(u) - u->start_s;
    if (r->seconds < 0) r->seconds = 0;
    r->usd = u->g->usd_per_h >= 0 ? r->seconds / 3600 * u->g->usd_per_h : PLIM_MEMTEST_UNKNOWN;
}

static plim_status write_file(const run *u)
{
    tally(u);
    return u->g->path ? plim_memtest_result_write(u->ctx, u->r, u->g->path) : PLIM_OK;
}

/* A message may be longer than its field, and is cut where a character ends. */
static void copy_message(const plim_ctx *c, plim_status st, char *out, size_t cap)
{
    const char *message = plim_ctx_message(c);
    if (!*message) message = plim_status_text(st);
    size_t n = strlen(message);
    if (n >= cap)
        for (n = cap - 1; n > 0 && ((unsigned char)message[n] & 0xc0) == 0x80;) n--;
    memcpy(out, message, n);
    out[n] = 0;
}

static bool of_memory(plim_status st)
{
    return st == PLIM_E_OOM_HOST || st == PLIM_E_OOM_DEVICE;
}

/* What failed at a length (NULL: outside of one). */
static void record_failure(plim_ctx *c, plim_memtest_result *r, plim_memtest_length *l, plim_status st)
{
    plim_memtest_failure *f = &r->failure;
    *f = (plim_memtest_failure){.present = true, .status = st, .component = -1};
    copy_message(c, st, f->error, sizeof f->error);
    r->stopped = PLIM_MEMTEST_STOPPED_FAILURE;
    r->running_tokens = 0;
    if (l) {
        f->seq_tokens = l->seq_tokens;
        l->verdict = PLIM_NO;
        memcpy(l->error, f->error, sizeof l->error);
    }
    if (!of_memory(st)) return;
    snprintf(f->cure, sizeof f->cure, "free memory on the machine, or a smaller --budget");
    if (!l) return;
    f->component = 0;
    for (int m = 1; m < PLIM_COMPONENT_COUNT; m++)
        if (l->component_bytes[m] > l->component_bytes[f->component]) f->component = m;
    f->bytes = l->component_bytes[f->component];
}

/* The first message of a failure is the one that counts; the file is tried although memory may be short. */
static void write_after_failure(plim_ctx *c, const plim_memtest_config *g, plim_memtest_result *r)
{
    plim_memtest_result_judge(r);
    if (g->path) (void)plim_memtest_result_write(c, r, g->path);
}

static plim_status prepare(plim_ctx *c, const plim_machine *m, plim_memtest_config *g, plim_card *measured,
                           plim_memtest_result *r, int64_t *planned)
{
    TRY(plim_memtest_begin(c, g, r));
    if (m) {
        *measured = *g->card;
        TRY(plim_memtest_rates(c, m, g->options.act, g->clock, measured, &g->normals_per_s));
        g->card = measured;
    }
    return plim_memtest_plan(c, g, r, planned);
}

plim_status plim_memtest_prepare(plim_ctx *c, const plim_machine *m, plim_memtest_config *g,
                                 plim_card *measured, plim_memtest_result *r, int64_t *planned)
{
    plim_status st = prepare(c, m, g, measured, r, planned);
    if (!st || st == PLIM_E_USAGE) return st;
    r->length_count = 0;
    record_failure(c, r, NULL, st);
    write_after_failure(c, g, r);
    return st;
}

/* ---- the sweep ----------------------------------------------------------------------------------------- */

/* How much slower (above 1) than forecast it has been so far. */
static double slowness(const run *u)
{
    return u->done_expected_s > 0 ? (now_s(u) - u->start_s) / u->done_expected_s : 1;
}

static double left_s(const run *u)
{
    double left = u->r->expected_s - u->done_expected_s;
    return left > 0 ? left * slowness(u) : 0;
}

/* Whether the next length would pass max_usd, by what the ones before took. */
static bool too_dear(const run *u, const plim_memtest_length *l)
{
    const plim_memtest_config *g = u->g;
    if (g->max_usd < 0 || g->usd_per_h < 0) return false;
    double seconds = now_s(u) - u->start_s + plim_memtest_expected_s(g, l) * slowness(u);
    return seconds / 3600 * g->usd_per_h > g->max_usd;
}

static plim_status stop_at_budget(run *u, const plim_memtest_length *l)
{
    u->r->length_count++;
    u->r->stopped = PLIM_MEMTEST_STOPPED_MEMORY;
    TRY(write_file(u));
    if (u->g->see_length) u->g->see_length(u->g->user, l, 0);
    if (u->r->length_count > 1) return PLIM_OK;
    return plim_fail(u->ctx, PLIM_E_NOFIT, "%s; what would help: %s", l->error, u->r->failure.cure);
}

static plim_status stop_at_price(run *u, const plim_memtest_length *l)
{
    char tokens[PLIM_NUMBER_BYTES];
    u->r->stopped = PLIM_MEMTEST_STOPPED_USD;
    TRY(write_file(u));
    return plim_fail(u->ctx, PLIM_E_NOFIT,
                     "stopped before %s tokens: %.2f USD are spent, and with it it would be more than the "
                     "%.2f of --max-usd",
                     plim_format_count(tokens, l->seq_tokens), u->r->usd, u->g->max_usd);
}

/* One length from plan to file; *more: go on with the next. */
static plim_status take_length(run *u, plim_memtest_length *l, bool *more)
{
    plim_memtest_result *r = u->r;
    *more = false;
    if (l->verdict == PLIM_NO) return stop_at_budget(u, l);
    if (too_dear(u, l)) return stop_at_price(u, l);
    r->running_tokens = l->seq_tokens;
    TRY(write_file(u));
    plim_status st = watched(u, l);
    r->length_count++;
    if (st) {
        record_failure(u->ctx, r, l, st);
        return st;
    }
    r->running_tokens = 0;
    u->done_expected_s += plim_memtest_expected_s(u->g, l);
    TRY(write_file(u));
    if (u->g->see_length) u->g->see_length(u->g->user, l, left_s(u));
    *more = true;
    return PLIM_OK;
}

plim_status plim_memtest_run(plim_ctx *c, const plim_machine *m, const plim_memtest_config *g,
                             plim_memtest_result *r, int64_t planned)
{
    run u = {c, m, g, r, planned, 0, 0};
    plim_memtest_failure foreseen = r->failure;
    plim_status st = PLIM_OK;
    u.start_s = now_s(&u);
    r->failure = (plim_memtest_failure){0};
    bool more = true;
    for (int64_t i = 0; i < planned && more && !st; i++) {
        plim_memtest_length *l = &r->length[i];
        if (l->verdict == PLIM_NO) r->failure = foreseen;
        st = take_length(&u, l, &more);
        if (!st || st == PLIM_E_NOFIT) continue;
        if (r->stopped != PLIM_MEMTEST_STOPPED_FAILURE) record_failure(c, r, NULL, st);
        tally(&u);
        write_after_failure(c, g, r);
    }
    return st;
}
