/* training.h - optimiser steps over sequences: gradients, clipping, AdamW, the schedule.  Devices and files
 * are others' affair: it drives an engine whose weights and adapters are set. */
#ifndef PLIM_TRAIN_TRAINING_H
#define PLIM_TRAIN_TRAINING_H

#include "model/engine.h"

typedef enum plim_schedule {
    PLIM_SCHEDULE_CONSTANT,
    PLIM_SCHEDULE_LINEAR,
    PLIM_SCHEDULE_COSINE
} plim_schedule;

typedef struct plim_hyper {
    double learning_rate, beta1, beta2, eps, weight_decay;
    double clip_norm; /* 0: gradients are not clipped */
    plim_schedule schedule;
    int64_t warmup_steps, total_steps; /* linear and cosine end at total_steps */
    double final_share;                /* of the learning rate, at the end */
} plim_hyper;

/* 1e-4, 0.9, 0.999, 1e-8, 0; clipping at 1; constant. */
plim_hyper plim_hyper_defaults(void);

/* Learning rate of step 1, 2, ...: linear warm-up from learning_rate / warmup_steps, then the schedule. */
double plim_hyper_rate(const plim_hyper *h, int64_t step);

/* Where a sequence came from, for messages. */
typedef struct plim_sample {
    plim_sequence sequence;
    int64_t id;
} plim_sample;

typedef struct plim_step_result {
    int64_t step; /* 1, 2, ... */
    int64_t tokens, labelled_rows;
    double weight_sum, loss; /* mean over the labelled weight */
    double gradient_norm;    /* before clipping */
    double learning_rate;
} plim_step_result;

typedef struct plim_training {
    plim_engine *engine;
    plim_hyper hyper;
    int64_t step; /* steps done */
    uint64_t seed;
} plim_training;

/* Adapters' working copies beside the weights, from the masters: after loading, and after every step. */
plim_status plim_training_refresh(plim_training *t);

/* Zeroes the optimiser's states. */
plim_status plim_training_reset_states(plim_training *t);

/* Loss and gradients of count samples together (gradient accumulation), without the update; leaves the
 * gradients in the engine's blocks.  Errors: PLIM_E_RANGE (no labelled row at all), PLIM_E_NUMERIC (a loss or
 * gradient that is not finite, with step, tensor and sample). */
plim_status plim_training_gradients(plim_training *t, const plim_sample *samples, int64_t count,
                                    plim_step_result *out);

/* One optimiser step.  On PLIM_E_NUMERIC parameters and states are as before. */
plim_status plim_training_step(plim_training *t, const plim_sample *samples, int64_t count,
                               plim_step_result *out);

/* Sum of weight x loss and of weights over samples, forward only. */
plim_status plim_training_evaluate(plim_training *t, const plim_sample *samples, int64_t count,
                                   double *loss_sum, double *weight_sum);

#endif
