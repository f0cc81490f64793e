#include "reference/dense.h"

#include <math.h>
#include <stdlib.h>

void reference_gemm_run(const reference_gemm *r)
{
    for (int64_t i = 0; i < r->m; i++)
        for (int64_t j = 0; j < r->n; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < r->k; p++) {
                const double x = r->transpose_a ? r->a[p * r->m + i] : r->a[i * r->k + p];
                const double y = r->transpose_b ? r->b[j * r->k + p] : r->b[p * r->n + j];
                sum += x * y;
                size += fabs(x * y);
            }
            double *c = &r->c[i * r->n + j];
            r->size[i * r->n + j] = fabs(r->alpha) * size + (r->beta != 0 ? fabs(r->beta * *c) : 0);
            *c = r->alpha * sum + (r->beta != 0 ? r->beta * *c : 0);
        }
}

void reference_rmsnorm(int64_t n, const double *x, const double *w, double eps, double offset, double *y)
{
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] * x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * pow(mean + eps, -0.5) * (offset + w[i]);
}

/* Through the Jacobian, term by term: dy_i / dx_j = g_i (r [i = j] - x_i x_j r^3 / n). */
void reference_rmsnorm_bwd(int64_t n, const double *x, const double *w, double eps, double offset,
                           const double *dy, double *dx)
{
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] * x[i] / (double)n;
    const double r = pow(mean + eps, -0.5);
    for (int64_t j = 0; j < n; j++) {
        dx[j] = 0;
        for (int64_t i = 0; i < n; i++)
            dx[j] += dy[i] * (offset + w[i]) * ((i == j ? r : 0) - x[i] * x[j] * r * r * r / (double)n);
    }
}

void reference_rotate(int64_t dim, int64_t half, const double *cosine, const double *sine, double turn,
                      const double *x, double *y)
{
    for (int64_t i = 0; i < dim; i++) {
        if (i < half) y[i] = x[i] * cosine[i] - turn * sine[i] * x[i + half];
        else if (i < 2 * half) y[i] = x[i] * cosine[i - half] + turn * sine[i - half] * x[i - half];
        else y[i] = x[i];
    }
}

double reference_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* Row i of head h: probabilities of keys first .. i into p[0 ..]; returns the log of the sum. */
static double probabilities(const reference_attention *r, int64_t h, int64_t i, int64_t first, double *p)
{
    const int64_t g = h / (r->heads / r->kv_heads), D = r->dim;
    double most = -INFINITY, sum = 0;
    for (int64_t j = first; j <= i; j++) {
        double z = 0;
        for (int64_t c = 0; c < D; c++)
            z += r->q[(i * r->heads + h) * D + c] * r->k[(j * r->kv_heads + g) * D + c];
        p[j - first] = r->scale * z;
        if (p[j - first] > most) most = p[j - first];
    }
    for (int64_t j = first; j <= i; j++) sum += exp(p[j - first] - most);
    for (int64_t j = first; j <= i; j++) p[j - first] = exp(p[j - first] - most) / sum;
    return most + log(sum);
}

static void attention_row(const reference_attention *r, int64_t h, int64_t i, int64_t first, double *p)
{
    const int64_t g = h / (r->heads / r->kv_heads), D = r->dim, row = (i * r->heads + h) * D;
    r->lse[h * r->tokens + i] = probabilities(r, h, i, first, p);
    for (int64_t c = 0; c < D; c++) {
        r->o[row + c] = 0;
        for (int64_t j = first; j <= i; j++)
            r->o[row + c] += p[j - first] * r->v[(j * r->kv_heads + g) * D + c];
    }
    if (!r->dout) return;
    double mean = 0; /* sum of p dp */
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = first; j <= i; j++) {
            const int64_t key = (j * r->kv_heads + g) * D;
            double dp = 0;
            for (int64_t c = 0; c < D; c++) dp += r->dout[row + c] * r->v[key + c];
            if (pass == 0) {
                mean += p[j - first] * dp;
                continue;
            }
            const double dz = p[j - first] * (dp - mean) * r->scale;
            for (int64_t c = 0; c < D; c++) {
                r->dq[row + c] += dz * r->k[key + c];
                r->dk[key + c] += dz * r->q[row + c];
                r->dv[key + c] += p[j - first] * r->dout[row + c];
            }
        }
}

void reference_attention_run(const reference_attention *r)
{
    double *p = calloc((size_t)r->tokens + 1, sizeof *p);
    if (r->dout) {
        for (int64_t i = 0; i < r->tokens * r->heads * r->dim; i++) r->dq[i] = 0;
        for (int64_t i = 0; i < r->tokens * r->kv_heads * r->dim; i++) r->dk[i] = r->dv[i] = 0;
    }
    for (int64_t n = 0; n < r->documents; n++)
        for (int64_t i = r->start[n]; i < r->start[n + 1]; i++)
            for (int64_t h = 0; h < r->heads; h++) attention_row(r, h, i, r->start[n], p);
    free(p);
}

double reference_cross_entropy(int64_t vocab, const double *z, int64_t label, double weight, double factor,
                               double *dz)
{
    double most = z[0], sum = 0;
    for (int64_t i = 1; i < vocab; i++) most = z[i] > most ? z[i] : most;
    for (int64_t i = 0; i < vocab; i++) sum += exp(z[i] - most);
    if (dz)
        for (int64_t i = 0; i < vocab; i++) {
            dz[i] = exp(z[i] - most) / sum;
            if (i != label) continue;
            dz[i] = 0;
            for (int64_t j = 0; j < vocab; j++)
                if (j != label) dz[i] -= exp(z[j] - most) / sum;
        }
    if (dz)
        for (int64_t i = 0; i < vocab; i++) dz[i] *= factor;
    return weight * (most + log(sum) - z[label]);
}
