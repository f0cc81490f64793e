/* run_support.h - a small text in memory: documents that repeat a pattern, as a samples file has them. */
#ifndef PLIM_TESTS_TRAIN_RUN_SUPPORT_H
#define PLIM_TESTS_TRAIN_RUN_SUPPORT_H

#include <stdlib.h>

#include "support/test.h"

#include "formats/samples.h"
#include "train/session.h"

#define TEXT_DOCUMENTS 64
#define TEXT_TOKENS    4096
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

#endif
