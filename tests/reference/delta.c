/* S' = e^g S;  d = beta (v - S'^T k);  S = S' + k d^T;  o = S^T q - and the same lines read backwards. */
#include "reference/delta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One token: s [Dk, Dv] before -> after; decayed receives S', error v - S'^T k (both may be NULL). */
static void step(const reference_delta *r, int64_t t, int64_t h, double *s, double *decayed, double *error)
{
    const int64_t Dk = r->key_dim, Dv = r->value_dim, group = r->value_heads / r->key_heads;
    const double *k = r->k + (t * r->key_heads + h / group) * Dk, *v = r->v + (t * r->value_heads + h) * Dv;
    const double g = r->g[t * r->value_heads + h], beta = r->beta[t * r->value_heads + h];
    const double keep = exp(g);
    for (int64_t i = 0; i < Dk * Dv; i++) s[i] *= keep;
    if (decayed) memcpy(decayed, s, (size_t)(Dk * Dv) * sizeof *s);
    for (int64_t j = 0; j < Dv; j++) {
        double read = 0;
        for (int64_t i = 0; i < Dk; i++) read += s[i * Dv + j] * k[i];
        if (error) error[j] = v[j] - read;
        for (int64_t i = 0; i < Dk; i++) s[i * Dv + j] += k[i] * beta * (v[j] - read);
    }
}

static void begin(const reference_delta *r, int64_t n, int64_t h, double *s)
{
    const int64_t size = r->key_dim * r->value_dim;
    if (r->state_in) memcpy(s, r->state_in + (n * r->value_heads + h) * size, (size_t)size * sizeof *s);
    else memset(s, 0, (size_t)size * sizeof *s);
}

void reference_delta_fwd(const reference_delta *r)
{
    const int64_t Dk = r->key_dim, Dv = r->value_dim, Hv = r->value_heads, group = Hv / r->key_heads;
    double *s = malloc((size_t)(Dk * Dv) * sizeof *s);
    for (int64_t n = 0; n < r->documents; n++)
        for (int64_t h = 0; h < Hv; h++) {
            begin(r, n, h, s);
            for (int64_t t = r->start[n]; t < r->start[n + 1]; t++) {
                step(r, t, h, s, NULL, NULL);
                const double *q = r->q + (t * r->key_heads + h / group) * Dk;
                for (int64_t j = 0; r->o && j < Dv; j++) {
                    double sum = 0;
                    for (int64_t i = 0; i < Dk; i++) sum += s[i * Dv + j] * q[i];
                    r->o[(t * Hv + h) * Dv + j] = sum;
                }
            }
            if (r->state_out) memcpy(r->state_out + (n * Hv + h) * Dk * Dv, s, (size_t)(Dk * Dv) * sizeof *s);
        }
    free(s);
}

/* Adjoint of one token.  s: the state after it; decayed, error: as step left them; ds: gradient of the state
 * after it in, of the state before it out. */
static void step_back(const reference_delta *r, int64_t t, int64_t h, const double *s, const double *decayed,
                      const double *error, double *ds)
{
    const int64_t Dk = r->key_dim, Dv = r->value_dim, Hv = r->value_heads, hk = h / (Hv / r->key_heads);
    const double *q = r->q + (t * r->key_heads + hk) * Dk, *k = r->k + (t * r->key_heads + hk) * Dk;
    const double *dout = r->dout + (t * Hv + h) * Dv;
    const double beta = r->beta[t * Hv + h];
    double *dq = r->dq + (t * r->key_heads + hk) * Dk, *dk = r->dk + (t * r->key_heads + hk) * Dk;
    double dbeta = 0, dg = 0;
    for (int64_t j = 0; j < Dv; j++) {
        double dd = 0;
        for (int64_t i = 0; i < Dk; i++) {
            dq[i] += s[i * Dv + j] * dout[j];
            ds[i * Dv + j] += q[i] * dout[j];
            dk[i] += ds[i * Dv + j] * beta * error[j];
            dd += ds[i * Dv + j] * k[i];
        }
        dbeta += dd * error[j];
        r->dv[(t * Hv + h) * Dv + j] = beta * dd;
        for (int64_t i = 0; i < Dk; i++) {
            dk[i] -= decayed[i * Dv + j] * beta * dd;
            ds[i * Dv + j] -= k[i] * beta * dd;
            dg += ds[i * Dv + j] * decayed[i * Dv + j];
        }
    }
    const double keep = exp(r->g[t * Hv + h]);
    for (int64_t i = 0; i < Dk * Dv; i++) ds[i] *= keep;
    r->dbeta[t * Hv + h] = dbeta;
    r->dg[t * Hv + h] = dg;
}

void reference_delta_bwd(const reference_delta *r)
{
    const int64_t Dk = r->key_dim, Dv = r->value_dim, Hv = r->value_heads, size = Dk * Dv;
    memset(r->dq, 0, (size_t)(r->tokens * r->key_heads * Dk) * sizeof *r->dq);
    memset(r->dk, 0, (size_t)(r->tokens * r->key_heads * Dk) * sizeof *r->dk);
    double *after = malloc((size_t)(r->tokens * size) * sizeof *after);
    double *decayed = malloc((size_t)(r->tokens * size) * sizeof *decayed);
    double *error = malloc((size_t)(r->tokens * Dv) * sizeof *error);
    double *s = malloc((size_t)size * sizeof *s), *ds = malloc((size_t)size * sizeof *ds);
    for (int64_t n = 0; n < r->documents; n++)
        for (int64_t h = 0; h < Hv; h++) {
            begin(r, n, h, s);
            for (int64_t t = r->start[n]; t < r->start[n + 1]; t++) {
                step(r, t, h, s, decayed + t * size, error + t * Dv);
                memcpy(after + t * size, s, (size_t)size * sizeof *s);
            }
            if (r->dstate_out) memcpy(ds, r->dstate_out + (n * Hv + h) * size, (size_t)size * sizeof *ds);
            else memset(ds, 0, (size_t)size * sizeof *ds);
            for (int64_t t = r->start[n + 1] - 1; t >= r->start[n]; t--)
                step_back(r, t, h, after + t * size, decayed + t * size, error + t * Dv, ds);
            if (r->dstate_in) memcpy(r->dstate_in + (n * Hv + h) * size, ds, (size_t)size * sizeof *ds);
        }
    free(after), free(decayed), free(error), free(s), free(ds);
}
