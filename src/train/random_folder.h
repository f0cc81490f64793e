/* random_folder.h - a model folder of random weights, made from a config alone. */
#ifndef PLIM_TRAIN_RANDOM_FOLDER_H
#define PLIM_TRAIN_RANDOM_FOLDER_H

#include "plimsoll.h"

typedef struct plim_random_folder {
    const char *config; /* a config.json of any name, or a folder that holds one */
    const char *out;    /* made when it is not there */
    uint64_t seed;
    plim_dtype dtype;     /* F32, F16 or BF16, for every tensor */
    uint64_t shard_bytes; /* data of a file; one tensor larger than this has a file of its own */
    void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *progress_user;
} plim_random_folder;

/* Writes the text tensors of random_weights.h (no vision tower, no multi-token-prediction layers, no head
 * when tied) as model.safetensors, or as shards with an index when they do not fit one file, then
 * config.json, a copy of the given bytes: a folder without it is unfinished.  Memory does not grow with the
 * model.  On failure what was written is removed.
 * Errors: PLIM_E_IO (also when out already holds a model's files); PLIM_E_RANGE (shard_bytes 0; a path too
 * long); PLIM_E_OOM_HOST; those of plim_spec_parse. */
plim_status plim_random_folder_write(plim_ctx *c, const plim_random_folder *r);

#endif
