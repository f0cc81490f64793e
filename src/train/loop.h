/* loop.h - a run: step after step, with what is written and said on the way.
 *     OUT/metrics.jsonl     one JSON object a step
 *     OUT/checkpoint-<step> every save_every steps, and when the run is asked to stop
 *     OUT/adapter           at the end */
#ifndef PLIM_TRAIN_LOOP_H
#define PLIM_TRAIN_LOOP_H

#include "base/clock.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

#define PLIM_LOOP_ADAPTER_NAME "adapter"
#define PLIM_LOOP_METRICS_NAME "metrics.jsonl"

/* What a step was, for whoever shows it. */
typedef struct plim_loop_report {
    plim_step_result result;
    int64_t last_step;
    double epoch;        /* passes over the data done */
    double seconds;      /* of this step */
    double tokens_per_s; /* of this step */
    double left_s;       /* to the last step, at the mean pace so far */
    bool validated;
    plim_evaluation validation;
} plim_loop_report;

typedef struct plim_loop_config {
    const char *out;                /* a folder that is there */
    const plim_order_config *data;  /* what order was opened with */
    plim_order *order, *validation; /* validation: NULL, or a file in its own order */
    int64_t last_step;
    int64_t save_every, keep; /* save_every 0: only when stopped; keep: of the latest, at least 1 */
    int64_t validate_every;   /* 0: only after the last step */
    plim_clock clock;
    bool (*stop)(void *user);                             /* asked after every step; NULL: never */
    void (*see)(void *user, const plim_loop_report *r);   /* NULL: nobody looks */
    void (*blame)(void *user, const plim_order_step *at); /* of a step that was not finite; may be NULL */
    void *user;
} plim_loop_config;

typedef struct plim_loop_end {
    plim_loop_report first, last; /* steps of this call */
    bool stopped;                 /* before last_step, and saved as checkpoint-<step> */
} plim_loop_end;

/* Makes out when it is not there.  Errors: PLIM_E_IO (it holds something, is no folder, or cannot be
 * made). */
plim_status plim_loop_check_out(plim_ctx *c, const char *out); /* the same without making it */
plim_status plim_loop_make_out(plim_ctx *c, const char *out);

/* Trains from s->training.step + 1 to last_step, at least one step.
 * Errors: PLIM_E_NUMERIC (a loss or gradient that is not finite, with step, tensor and sample; a loss of just
 * 0 in the first step; a lora_B that is still zero after it, by name) - what was saved stays; PLIM_E_IO and
 * those of plim_checkpoint_save; those of plim_training_step. */
plim_status plim_loop_run(plim_session *s, const plim_loop_config *g, plim_loop_end *out);

#endif
