/* run_support.h - a small text in memory: documents that repeat a pattern, as a samples file has them. */
#ifndef PLIM_TESTS_TRAIN_RUN_SUPPORT_H
#define PLIM_TESTS_TRAIN_RUN_SUPPORT_H

#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"

#include "train/loop.h"

#define TEXT_DOCUMENTS 64
#define TEXT_TOKENS    4096
#define MOST_STEPS     64
#define TINY           PLIM_TEST_DATA "/models/qwen3_5-tiny/config.json"
#define TINY_VOCAB     512

typedef struct text {
    int32_t tokens[TEXT_TOKENS];
    float weights[TEXT_TOKENS];
    int64_t offsets[TEXT_DOCUMENTS + 1];
    int32_t class_ids[TEXT_DOCUMENTS];
    uint64_t source[2 * TEXT_DOCUMENTS];
    plim_samples samples;
} text;

/* One more document: its number as first token, then a pattern of period tokens; the last labelled tokens
 * have weight 1. */
static inline void text_add(text *x, int64_t length, int64_t labelled, int32_t period)
{
    plim_samples *s = &x->samples;
    int64_t n = s->documents, at = s->tokens_count;
    for (int64_t t = 0; t < length; t++) {
        x->tokens[at + t] = t ? 100 + (int32_t)(t % period) : (int32_t)n;
        x->weights[at + t] = t >= length - labelled ? 1.0f : 0.0f;
        s->labelled_tokens += t > 0 && t >= length - labelled;
    }
    x->offsets[n + 1] = s->tokens_count = at + length;
    x->source[2 * n] = 0;
    x->source[2 * n + 1] = (uint64_t)n + 1;
    s->documents = n + 1;
    if (length > s->longest_tokens) s->longest_tokens = length;
}

static inline void text_open(text *x)
{
    memset(x, 0, sizeof *x);
    x->samples.tokens = x->tokens;
    x->samples.loss_weights = x->weights;
    x->samples.doc_offsets = x->offsets;
    x->samples.class_ids = x->class_ids;
    x->samples.source = x->source;
    x->samples.classes = 1;
}

/* A tiny model of random weights on the CPU: sequences of seq tokens, rank 4. */
static inline plim_session_config tiny_config(plim_dtype act, int64_t seq, int64_t documents)
{
    plim_session_config g = plim_session_defaults();
    plim_options *o = &g.options;
    o->act = act;
    o->seq_tokens = seq;
    o->documents = documents;
    o->tile_tokens = 64;
    o->loss_rows = 32;
    o->lora_rank = 4;
    o->host_checkpoints = 0;
    o->attention = PLIM_ATTENTION_CPU;
    o->context_bytes = o->gemm_workspace_bytes = o->staging_bytes = 0;
    g.model = TINY;
    g.random_weights = true;
    g.seed = 5;
    g.hyper.learning_rate = 5e-3;
    return g;
}

/* ---- a run of it -------------------------------------------------------------------------------- */

typedef struct bench {
    plim_ctx *ctx;
    plim_machine machine;
    plim_session *session;
    plim_order_config data;
    plim_order *order;
    double loss[MOST_STEPS + 1], norm[MOST_STEPS + 1], rate[MOST_STEPS + 1];
    int64_t steps, stop_after, blamed;
} bench;

static inline void see(void *user, const plim_loop_report *r)
{
    bench *b = user;
    b->steps++;
    b->loss[r->result.step] = r->result.loss;
    b->norm[r->result.step] = r->result.gradient_norm;
    b->rate[r->result.step] = r->result.learning_rate;
}

static inline void blame(void *user, const plim_order_step *at)
{
    bench *b = user;
    b->blamed += at->count;
}

static inline bool stop(void *user)
{
    bench *b = user;
    return b->stop_after && b->session->training.step >= b->stop_after;
}

/* Every call a second later. */
static inline double tick(void *user)
{
    double *now_s = user;
    return *now_s += 1;
}

static inline void bench_open(bench *b, const text *x, const plim_session_config *g, int64_t accumulate,
                              int threads)
{
    memset(b, 0, sizeof *b);
    b->ctx = test_ctx_open();
    CHECK_OK(b->ctx, plim_machine_cpu(b->ctx, threads, &b->machine));
    CHECK_OK(b->ctx, plim_session_open(b->ctx, &b->machine, g, &b->session));
    b->data = (plim_order_config){.samples = &x->samples,
                                  .seq_tokens = g->options.seq_tokens,
                                  .documents = g->options.documents,
                                  .accumulate = accumulate,
                                  .vocab = TINY_VOCAB,
                                  .seed = g->seed};
    CHECK_OK(b->ctx, plim_order_open(b->ctx, &b->data, &b->order));
}

static inline void bench_close(bench *b)
{
    plim_order_close(b->order);
    plim_session_close(b->session);
    plim_machine_close(&b->machine);
    test_ctx_close(b->ctx);
    assert_int_equal(test_live_allocations(), 0);
}

static inline plim_status bench_run(bench *b, const char *out, int64_t steps, int64_t save_every,
                                    plim_loop_end *end)
{
    static double now_s;
    now_s = 0;
    plim_loop_config g = {.out = out,
                          .data = &b->data,
                          .order = b->order,
                          .last_step = steps,
                          .save_every = save_every,
                          .keep = 2,
                          .clock = {tick, &now_s},
                          .stop = stop,
                          .see = see,
                          .blame = blame,
                          .user = b};
    return plim_loop_run(b->session, &g, end);
}

static inline void text_repeat(text *x, int64_t documents, int64_t length)
{
    text_open(x);
    for (int64_t i = 0; i < documents; i++) text_add(x, length, length - 4, 5);
}

static inline bool there(const char *folder, const char *name)
{
    return !access(test_path(folder, name), F_OK);
}

#endif
