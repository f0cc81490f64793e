/* checkpoint.h - a folder that a run can go on from, written at once:
 *     OUT/checkpoint-<step>/adapter_config.json, adapter_model.safetensors   the adapter, as PEFT reads it
 *                           optimizer.safetensors                            masters and Adam states, flat
 *                           state.json                                       step, seed, place in the data,
 * options
 *
 * The blocks are those of adapters.h, in their own dtypes, so that a run that goes on has the same bits. */
#ifndef PLIM_TRAIN_CHECKPOINT_H
#define PLIM_TRAIN_CHECKPOINT_H

#include "train/order.h"
#include "train/session.h"

#define PLIM_CHECKPOINT_FORMAT         "plimsoll-checkpoint-1"
#define PLIM_CHECKPOINT_OPTIMIZER_NAME "optimizer.safetensors"
#define PLIM_CHECKPOINT_STATE_NAME     "state.json"

/* Where the run stands, beside what the session knows. */
typedef struct plim_checkpoint_place {
    int64_t epoch, sequences;       /* epochs done; sequences done in the one at hand */
    const plim_order_config *order; /* its samples too */
} plim_checkpoint_place;

/* Writes out/checkpoint-<step> of s->training.step beside and renames it; a failure leaves nothing.
 * Errors: PLIM_E_IO, PLIM_E_RANGE (a path too long), PLIM_E_OOM_HOST; those of plim_session_save_adapter. */
plim_status plim_checkpoint_save(plim_session *s, const char *out, const plim_checkpoint_place *at);

/* Removes all of out/checkpoint-<step> but the keep latest.  Errors: PLIM_E_IO, PLIM_E_RANGE. */
plim_status plim_checkpoint_prune(plim_ctx *c, const char *out, int64_t keep);

#endif
