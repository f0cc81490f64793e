/* The gated delta rule token by token, in double: the recurrence itself and its adjoint, nothing chunked. */
#ifndef PLIM_TESTS_REFERENCE_DELTA_H
#define PLIM_TESTS_REFERENCE_DELTA_H

#include <stdint.h>

typedef struct reference_delta {
    int64_t tokens, key_heads, value_heads, key_dim, value_dim, documents;
    const int64_t *start;               /* [documents + 1] */
    const double *q, *k, *v, *g, *beta; /* [T, Hk, Dk], [T, Hk, Dk], [T, Hv, Dv], [T, Hv], [T, Hv] */
    const double *state_in;             /* [documents, Hv, Dk, Dv]; NULL: zero */
    double *o, *state_out;              /* [T, Hv, Dv], [documents, Hv, Dk, Dv]; either may be NULL */
    const double *dout, *dstate_out;    /* backward; dstate_out NULL: zero */
    double *dq, *dk, *dv, *dg, *dbeta;  /* written */
    double *dstate_in;                  /* written; may be NULL */
} reference_delta;

void reference_delta_fwd(const reference_delta *r);
void reference_delta_bwd(const reference_delta *r);

#endif
