/* staged_sink.h - weights on their way to a device that the host cannot write: by way of the two pinned
 * staging halves of the layout, one at work while the other is on its way. */
#ifndef PLIM_TRAIN_STAGED_SINK_H
#define PLIM_TRAIN_STAGED_SINK_H

#include "model/engine.h"
#include "train/load.h"

typedef struct plim_staged_sink {
    plim_engine *engine;
    int next; /* half that take gives */
    bool busy[2];
} plim_staged_sink;

/* A sink for a laid-out engine whose weights are not yet in use: blocks of up to half the staging are made in
 * pinned memory and copied from there; padding is zeroed and random matrices are drawn on the device. Weights
 * that lie in pinned host memory are written by the host.  state must outlive the sink.
 * The sink's errors: those of fetch, settle and fill; PLIM_E_RANGE (a row is longer than half the
 * staging). */
plim_weight_sink plim_weight_sink_staged(plim_engine *e, plim_staged_sink *state);

#endif
