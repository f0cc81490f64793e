/* session.h - a model set up to train or evaluate on one machine: spec, memory, weights, adapter,
 * optimiser. */
#ifndef PLIM_TRAIN_SESSION_H
#define PLIM_TRAIN_SESSION_H

#include "train/adapter.h"
#include "train/load.h"
#include "train/training.h"

typedef struct plim_session_config {
    const char *model; /* config.json, or a model folder */
    const char
        *adapter; /* folder to start from: its rank, targets, alpha and dropout hold; NULL: a fresh one */
    bool random_weights; /* from the config alone; else the folder's files */
    uint64_t seed;       /* of random weights, a fresh adapter, dropout */
    double alpha;        /* of a fresh adapter; 0: twice its rank */
    bool rslora;
    plim_options options;
    plim_hyper hyper;
    void (*progress)(void *user, int64_t done, int64_t total); /* elements of weights; may be NULL */
    void *progress_user;
} plim_session_config;

plim_session_config plim_session_defaults(void);

typedef struct plim_session {
    plim_ctx *ctx;
    const plim_machine *machine;
    plim_spec spec;
    plim_model_files *files; /* NULL with random weights */
    plim_adapter_config adapter;
    plim_training training;
} plim_session;

/* Opens everything; training.step is 0 and the states are zero.  machine must outlive the session.
 * Errors: those of plim_spec_load, plim_model_files_check, plim_adapter_survey, plim_engine_open,
 * plim_weights_load, plim_weights_random; PLIM_E_USAGE (weights wanted and model is a bare config). */
plim_status plim_session_open(plim_ctx *c, const plim_machine *m, const plim_session_config *g,
                              plim_session **out);
void plim_session_close(plim_session *s); /* NULL is fine */

/* Writes the adapter as PEFT reads it; folder must not exist.  Errors: those of plim_adapter_save. */
plim_status plim_session_save_adapter(plim_session *s, const char *folder, plim_dtype dtype);

#endif
