/* samples_statistics.h - the statistics of a samples file, counted document by document:
 * docs/statistics.md. */
#ifndef PLIM_FORMATS_SAMPLES_STATISTICS_H
#define PLIM_FORMATS_SAMPLES_STATISTICS_H

#include <jansson.h>

#include "plimsoll.h"

#define PLIM_SAMPLES_LONGEST_TOKENS INT64_C(1000000000) /* what a statistics file may name as a length */
#define PLIM_SAMPLES_BUCKETS        60                  /* two an octave, up to it */

/* Zeroed: nothing counted. */
typedef struct plim_samples_statistics {
    int64_t tokens, labelled_tokens, rows;
    int64_t longest_tokens, longest_rows; /* how many documents are of just that length */
    int64_t bucket_rows[PLIM_SAMPLES_BUCKETS], bucket_tokens[PLIM_SAMPLES_BUCKETS];
} plim_samples_statistics;

/* One document of 1 to PLIM_SAMPLES_LONGEST_TOKENS tokens. */
void plim_samples_count(plim_samples_statistics *s, int64_t tokens, int64_t labelled_tokens);

/* The statistics as plim_workload_parse reads them, and "longest_tokens".  A bucket's length is the mean of
 * its documents; the longest documents have a bucket of their own, because a plan must carry them. *out: a
 * new object, the caller's.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_samples_statistics_json(plim_ctx *c, const plim_samples_statistics *s, json_t **out);

#endif
