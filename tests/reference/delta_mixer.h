/* The element-wise parts of the delta mixer as plain loops in double, over whole sequences. */
#ifndef PLIM_TESTS_REFERENCE_DELTA_MIXER_H
#define PLIM_TESTS_REFERENCE_DELTA_MIXER_H

#include <stdint.h>

/* x, y, dy, dx [T, ch]; w [ch, taps]; documents start[0 .. documents]. */
void reference_conv_silu_fwd(const double *x, const double *w, double *y, int64_t ch, int64_t taps,
                             int64_t documents, const int64_t *start);
void reference_conv_silu_bwd(const double *x, const double *w, const double *dy, double *dx, int64_t ch,
                             int64_t taps, int64_t documents, const int64_t *start);

/* x, y, dy, dx [groups, dim]. */
void reference_l2norm_fwd(const double *x, double *y, int64_t groups, int64_t dim, double scale);
void reference_l2norm_bwd(const double *x, const double *dy, double *dx, int64_t groups, int64_t dim,
                          double scale);

/* bl, a, g, beta [T, heads]; a_log, dt_bias [heads]. */
void reference_decay_fwd(const double *bl, const double *a, const double *a_log, const double *dt_bias,
                         double *g, double *beta, int64_t tokens, int64_t heads);

/* o, z, y, dy, dout, dz [groups, dim]; w [dim]. */
void reference_gated_norm_fwd(const double *o, const double *z, const double *w, double *y, int64_t groups,
                              int64_t dim, double eps);
void reference_gated_norm_bwd(const double *o, const double *z, const double *w, const double *dy,
                              double *dout, double *dz, int64_t groups, int64_t dim, double eps);

#endif
