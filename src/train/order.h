/* order.h - which documents make which step.  The samples of step k are a function of the file, the options,
 * the seed and k alone: an epoch's order is a permutation drawn by seed and epoch from a counter-based
 * generator, so that going on from step k draws what the unbroken run drew, and skipping consumes nothing.
 *
 * An epoch visits every document with a label once.  Documents are packed in that order: one that would make
 * a sequence longer than seq_tokens, or hold more than `documents` of them, starts the next.  A step takes
 * `accumulate` sequences; the last of an epoch takes what is left of it. */
#ifndef PLIM_TRAIN_ORDER_H
#define PLIM_TRAIN_ORDER_H

#include "formats/samples.h"
#include "train/training.h"

typedef struct plim_order_config {
    const plim_samples *samples; /* outlives the order */
    int64_t seq_tokens, documents, accumulate;
    int64_t vocab; /* token ids are below this */
    uint64_t seed;
    bool file_order; /* of documents, every epoch: for evaluation */
} plim_order_config;

/* One step's samples; they live until the next call.  A sample's id is its first document's number in the
 * file. */
typedef struct plim_order_step {
    int64_t epoch;            /* 0, 1, ... */
    int64_t sequences_before; /* of this epoch, in its earlier steps */
    int64_t epoch_sequences;
    int64_t count;
    const plim_sample *samples;
} plim_order_step;

typedef struct plim_order plim_order;

/* Errors: PLIM_E_RANGE (a document longer than seq_tokens or a token outside the vocabulary, with file and
 * line of its source; no document with a label; more than 2^31 of them), PLIM_E_OOM_HOST.  close accepts
 * NULL. */
plim_status plim_order_open(plim_ctx *c, const plim_order_config *g, plim_order **out);
void plim_order_close(plim_order *o);

/* Documents that a pass visits, and those left out because no token of theirs is trained on. */
int64_t plim_order_documents(const plim_order *o);
int64_t plim_order_unlabelled(const plim_order *o);

/* Steps of the first so many epochs. */
int64_t plim_order_steps(plim_order *o, int64_t epochs);

/* Step 1, 2, ...  Cheapest when steps are asked for in turn. */
void plim_order_step_at(plim_order *o, int64_t step, plim_order_step *out);

/* "chat.jsonl:34", where document i of the file came from. */
void plim_order_source(plim_ctx *c, const plim_samples *s, int64_t i, char *buf, size_t bytes);

#endif
