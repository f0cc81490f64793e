/* A problem of the gated delta rule, its run through the operations tile by tile, and its run token by
 * token. */
#ifndef PLIM_TESTS_REFERENCE_DELTA_CASE_H
#define PLIM_TESTS_REFERENCE_DELTA_CASE_H

#include "ops/ops.h"

typedef enum delta_kind {
    DELTA_MILD,     /* g in [-0.2, 0] */
    DELTA_STRONG,   /* g in [-40, 0]: b reaches -1000s in a chunk */
    DELTA_JUMPS,    /* g = 0 or -100 */
    DELTA_HOLD,     /* g = 0 exactly */
    DELTA_PARALLEL, /* g = 0, keys nearly parallel, beta near 1 */
} delta_kind;

typedef struct delta_shape {
    int64_t key_heads, value_heads, key_dim, value_dim;
    delta_kind kind;
    int64_t documents;
    int64_t lengths[8];
} delta_shape;

/* Everything in doubles; inputs hold values that dtype can hold. */
typedef struct delta_case {
    delta_shape s;
    plim_dtype act, stat;
    int64_t tokens, start[9];
    double *q, *k, *v, *g, *beta, *dout;
    bool in_place;                 /* o over v, and the gradients over their inputs */
    double *state_in, *dstate_out; /* [Hv * Dk, Dv]: of the first document, after the last; NULL: none */
} delta_case;

typedef struct delta_result {
    double *o, *state, *dq, *dk, *dv, *dg, *dbl, *dstate;
} delta_result;

delta_case delta_case_make(const delta_shape *s, plim_dtype act, bool with_states, uint64_t seed);
void delta_case_free(delta_case *p);

/* Through plim_ops functions in tiles of tile_rows; checks guards and that every output was written.  With
 * states, the first document continues one before it and the last goes on after it. */
delta_result delta_case_run(plim_ctx *c, plim_device *d, const delta_case *p, int64_t tile_rows);
delta_result delta_case_reference(const delta_case *p);
void delta_result_free(delta_result *r);

/* Fails unless every output of got is within tolerance of want (io_error); with 0 they have to be equal. */
void delta_check(const delta_case *p, const delta_result *got, const delta_result *want, double tolerance);

#endif
