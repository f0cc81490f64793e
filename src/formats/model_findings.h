/* model_findings.h - what a check of model files found: a list that keeps the first of it and counts the
 * rest. */
#ifndef PLIM_FORMATS_MODEL_FINDINGS_H
#define PLIM_FORMATS_MODEL_FINDINGS_H

#include "formats/safetensors.h"

#define PLIM_FINDINGS_KEPT 1000

/* Problems first (those of one file as in safetensors.h), then notes, which refuse nothing.  Key for
 * machines. */
#define PLIM_FINDING_MAP(X)                                                                                  \
    PLIM_SAFETENSORS_FAULT_MAP(X)                                                                            \
    X(NO_WEIGHTS, "no_weights")                                                                              \
    X(SHARD_MISSING, "shard_missing")                                                                        \
    X(TENSOR_MISSING, "tensor_missing")                                                                      \
    X(HEAD_MISSING, "lm_head_missing") /* the config unties it */                                            \
    X(TENSOR_UNKNOWN, "tensor_unknown")                                                                      \
    X(SHAPE, "shape")                                                                                        \
    X(DTYPE, "dtype")                                                                                        \
    X(QUANTISED, "quantised")                                                                                \
    X(TENSOR_TWICE, "tensor_twice")        /* in two shards */                                               \
    X(NOT_IN_SHARD, "tensor_not_in_shard") /* the index names a shard without */                             \
    X(NOT_IN_INDEX, "tensor_not_in_index")                                                                   \
    X(TOTAL_SIZE, "total_size")                                                                              \
    X(STRAY_FILE, "stray_file")       /* note: beside the weights, not read */                               \
    X(ROTARY_BUFFER, "rotary_buffer") /* note: recomputed, not read */                                       \
    X(MIXED_DTYPE, "mixed_dtype")     /* note: each is read as it is stored */

typedef enum plim_finding_kind {
#define PLIM_FINDING_ENUM(name, key) PLIM_FINDING_##name,
    PLIM_FINDING_MAP(PLIM_FINDING_ENUM)
#undef PLIM_FINDING_ENUM
        PLIM_FINDING_COUNT
} plim_finding_kind;

const char *plim_finding_key(plim_finding_kind kind); /* "?" outside the enum */

/* tensor and file are "" where none is meant; text is a whole sentence that names both. */
typedef struct plim_finding {
    plim_finding_kind kind;
    const char *tensor, *file, *text;
} plim_finding;

/* The first PLIM_FINDINGS_KEPT in items[0 .. kept); all of them are counted.  Zeroed: empty. */
typedef struct plim_findings {
    plim_finding *items;
    size_t kept, cap;
    uint64_t total, count[PLIM_FINDING_COUNT];
} plim_findings;

/* Errors: PLIM_E_OOM_HOST. */
plim_status plim_findings_add(plim_ctx *c, plim_findings *f, plim_finding_kind kind, const char *tensor,
                              const char *file, const char *fmt, ...) PLIM_PRINTF(6, 7);
void plim_findings_release(plim_ctx *c, plim_findings *f);

#endif
