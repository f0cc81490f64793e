/* evaluate.h - the loss of a model and its adapter over a samples file. */
#ifndef PLIM_TRAIN_EVALUATE_H
#define PLIM_TRAIN_EVALUATE_H

#include "train/order.h"

typedef struct plim_evaluation {
    int64_t documents, tokens, labelled;
    double weight_sum, loss; /* mean over the labelled weight */
} plim_evaluation;

/* One pass over the order's first epoch, forward only.  see may be NULL; it hears of every step's sequences.
 * Errors: PLIM_E_NUMERIC (a loss that is not finite, with its sample); those of plim_training_evaluate. */
plim_status plim_evaluate(plim_training *t, plim_order *o,
                          void (*see)(void *user, int64_t done, int64_t total), void *user,
                          plim_evaluation *out);

/* Logits of the first rows of one sequence, without dropout, written to a safetensors file:
 *     logits F32 [rows, V], and input_ids I32 [rows].
 * Row t predicts token t + 1.  Errors: PLIM_E_RANGE (rows below 1 or more than the sequence has),
 * PLIM_E_NUMERIC (a logit that is not finite), PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_evaluate_logits(plim_training *t, const plim_sample *sample, int64_t rows, const char *path);

#endif
