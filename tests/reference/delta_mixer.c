#include "reference/delta_mixer.h"

#include <math.h>

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Pre-activation of row t of a document that starts at first. */
static double conv(const double *x, const double *w, int64_t ch, int64_t taps, int64_t first, int64_t t,
                   int64_t c)
{
    double sum = 0;
    for (int64_t j = 0; j < taps; j++)
        if (t - (taps - 1) + j >= first) sum += w[c * taps + j] * x[(t - (taps - 1) + j) * ch + c];
    return sum;
}

void reference_conv_silu_fwd(const double *x, const double *w, double *y, int64_t ch, int64_t taps,
                             int64_t documents, const int64_t *start)
{
    for (int64_t n = 0; n < documents; n++)
        for (int64_t t = start[n]; t < start[n + 1]; t++)
            for (int64_t c = 0; c < ch; c++) {
                double p = conv(x, w, ch, taps, start[n], t, c);
                y[t * ch + c] = p * logistic(p);
            }
}

void reference_conv_silu_bwd(const double *x, const double *w, const double *dy, double *dx, int64_t ch,
                             int64_t taps, int64_t documents, const int64_t *start)
{
    for (int64_t i = 0; i < start[documents] * ch; i++) dx[i] = 0;
    for (int64_t n = 0; n < documents; n++)
        for (int64_t t = start[n]; t < start[n + 1]; t++)
            for (int64_t c = 0; c < ch; c++) {
                double p = conv(x, w, ch, taps, start[n], t, c), s = logistic(p);
                double dp = dy[t * ch + c] * (s + p * s * (1 - s));
                for (int64_t j = 0; j < taps; j++)
                    if (t - (taps - 1) + j >= start[n])
                        dx[(t - (taps - 1) + j) * ch + c] += w[c * taps + j] * dp;
            }
}

void reference_l2norm_fwd(const double *x, double *y, int64_t groups, int64_t dim, double scale)
{
    for (int64_t i = 0; i < groups; i++) {
        double sum = 1e-6;
        for (int64_t j = 0; j < dim; j++) sum += x[i * dim + j] * x[i * dim + j];
        for (int64_t j = 0; j < dim; j++) y[i * dim + j] = scale * x[i * dim + j] / sqrt(sum);
    }
}

void reference_l2norm_bwd(const double *x, const double *dy, double *dx, int64_t groups, int64_t dim,
                          double scale)
{
    for (int64_t i = 0; i < groups; i++) {
        double sum = 1e-6, dot = 0;
        for (int64_t j = 0; j < dim; j++) {
            sum += x[i * dim + j] * x[i * dim + j];
            dot += x[i * dim + j] * dy[i * dim + j];
        }
        for (int64_t j = 0; j < dim; j++)
            dx[i * dim + j] =
                scale * (dy[i * dim + j] / sqrt(sum) - x[i * dim + j] * dot / (sum * sqrt(sum)));
    }
}

void reference_decay_fwd(const double *bl, const double *a, const double *a_log, const double *dt_bias,
                         double *g, double *beta, int64_t tokens, int64_t heads)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++) {
            double x = a[t * heads + h] + dt_bias[h];
            g[t * heads + h] = -exp(a_log[h]) * (x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
            beta[t * heads + h] = logistic(bl[t * heads + h]);
        }
}

void reference_gated_norm_fwd(const double *o, const double *z, const double *w, double *y, int64_t groups,
                              int64_t dim, double eps)
{
    for (int64_t i = 0; i < groups; i++) {
        double sum = 0;
        for (int64_t j = 0; j < dim; j++) sum += o[i * dim + j] * o[i * dim + j];
        for (int64_t j = 0; j < dim; j++)
            y[i * dim + j] = w[j] * o[i * dim + j] / sqrt(sum / (double)dim + eps) * z[i * dim + j] *
                             logistic(z[i * dim + j]);
    }
}

void reference_gated_norm_bwd(const double *o, const double *z, const double *w, const double *dy,
                              double *dout, double *dz, int64_t groups, int64_t dim, double eps)
{
    for (int64_t i = 0; i < groups; i++) {
        const double *x = o + i * dim, *gate = z + i * dim, *d = dy + i * dim;
        double sum = 0, dot = 0;
        for (int64_t j = 0; j < dim; j++) sum += x[j] * x[j];
        const double mean = sum / (double)dim + eps, r = 1 / sqrt(mean);
        for (int64_t j = 0; j < dim; j++) dot += d[j] * w[j] * gate[j] * logistic(gate[j]) * x[j];
        for (int64_t j = 0; j < dim; j++) {
            double s = logistic(gate[j]);
            dout[i * dim + j] = d[j] * w[j] * gate[j] * s * r - x[j] * dot * r / (mean * (double)dim);
            dz[i * dim + j] = d[j] * w[j] * x[j] * r * (s + gate[j] * s * (1 - s));
        }
    }
}
