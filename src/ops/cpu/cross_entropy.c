/* cross_entropy.c - loss of rows of logits and, in the same visit, its gradient over the same memory. */
#include <inttypes.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

enum { GROUP = 256, LANES = 16, PIECE = 256 };

PLIM_CPU_INLINE double largest(plim_dtype stat, int64_t n, const void *z)
{
    double lane[LANES], most = -INFINITY;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            const double v = plim_cpu_load(stat, z, i + l);
            lane[l] = v > lane[l] ? v : lane[l];
        }
    }
    for (; i < n; i++) {
        const double v = plim_cpu_load(stat, z, i);
        if (v > most) most = v;
    }
    for (int l = 0; l < LANES; l++)
        if (lane[l] > most) most = lane[l];
    return most;
}

/* z becomes exp(z - most) when keep is set; returns the sum.  A NaN anywhere makes the sum NaN. */
PLIM_CPU_INLINE double exp_sum(plim_dtype stat, int64_t n, void *z, double most, bool keep)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const double p = plim_cpu_exp(plim_cpu_load(stat, z, i) - most);
        if (keep) plim_cpu_store(stat, z, i, p);
        sum += p;
    }
    return sum;
}

/* The row times factor, from stat into act over the same memory; act is never wider, so ascending order is
 * safe. Pieces go through a buffer because the two types share their bytes. */
PLIM_CPU_INLINE void scale_in_place(plim_dtype act, int64_t n, void *row, double factor)
{
    const plim_dtype stat = act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    if (act == stat) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) plim_cpu_store(act, row, i, plim_cpu_load(act, row, i) * factor);
        return;
    }
    float in[PIECE];
    uint16_t out[PIECE];
    for (int64_t first = 0; first < n; first += PIECE) {
        const int64_t count = n - first < PIECE ? n - first : PIECE;
        memcpy(in, (char *)row + (size_t)first * sizeof *in, (size_t)count * sizeof *in);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) plim_cpu_store(PLIM_BF16, out, i, (double)in[i] * factor);
        memcpy((char *)row + (size_t)first * sizeof *out, out, (size_t)count * sizeof *out);
    }
}

typedef struct row_args {
    void *row;
    int64_t vocab;
    int32_t label;
    double weight, factor; /* factor: weight * scale, of the gradient */
    bool want_gradient;
} row_args;

/* The label's own term is kept apart: at the label, softmax - 1 is -(sum of the others) / sum without
 * cancelling. */
PLIM_CPU_INLINE void visit(plim_dtype act, const row_args *r, double *loss)
{
    const plim_dtype stat = act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    const double at_label = plim_cpu_load(stat, r->row, r->label);
    const double most = largest(stat, r->vocab, r->row);
    void *after = (char *)r->row + (size_t)(r->label + 1) * plim_dtype_bytes(stat);
    const double others = exp_sum(stat, r->label, r->row, most, r->want_gradient) +
                          exp_sum(stat, r->vocab - r->label - 1, after, most, r->want_gradient);
    const double sum = others + exp(at_label - most);
    *loss = r->weight * (at_label == most ? log1p(others) : log(sum) - (at_label - most));
    if (!r->want_gradient) return;
    scale_in_place(act, r->vocab, r->row, r->factor / sum);
    plim_cpu_store(act, r->row, r->label, -(others / sum) * r->factor);
}

PLIM_CPU_CLONES static void visit_row(plim_dtype act, const row_args *r, double *loss)
{
    PLIM_CPU_BY_DTYPE(act, visit, r, loss);
}

static plim_status check(plim_device *d, const plim_cross_entropy_args *a, plim_dtype act)
{
    const char *op = "cross_entropy";
    const plim_tensor z = a->logits, g = a->dlogits;
    TRY(plim_cpu_view(d, op, "logits", z, plim_cpu_stat(act), z.rows, z.cols));
    if (a->want_gradient) {
        TRY(plim_cpu_act(d, op, act));
        TRY(plim_cpu_view(d, op, "dlogits", g, act, z.rows, z.cols));
        const int64_t bytes = (int64_t)plim_dtype_bytes(act), bytes_z = (int64_t)plim_dtype_bytes(z.dtype);
        if (g.data != z.data || (z.rows > 1 && g.pitch * bytes != z.pitch * bytes_z))
            return plim_fail(d->ctx, PLIM_E_SHAPE,
                             "%s: dlogits must be a view of logits with rows %" PRId64 " bytes apart", op,
                             z.pitch * bytes_z);
    }
    if (z.rows > 0 && (!a->labels || !a->weights || !a->loss_sum || z.cols == 0))
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %" PRId64 " rows without columns, labels, weights or a loss", op, z.rows);
    for (int64_t i = 0; i < z.rows; i++)
        if (a->labels[i] < 0 || a->labels[i] >= z.cols)
            return plim_fail(d->ctx, PLIM_E_RANGE,
                             "%s: label %" PRId64 " is %" PRId32 "; the vocabulary is 0 to %" PRId64, op, i,
                             a->labels[i], z.cols - 1);
    return PLIM_OK;
}

plim_status plim_cpu_cross_entropy(plim_device *d, const plim_cross_entropy_args *a)
{
    const int64_t rows = a->logits.rows, vocab = a->logits.cols;
    const plim_dtype act = a->want_gradient ? a->dlogits.dtype : a->logits.dtype;
    TRY(check(d, a, act));
    for (int64_t first = 0; first < rows; first += GROUP) {
        const int64_t count = rows - first < GROUP ? rows - first : GROUP;
        double loss[GROUP]; /* summed in order of the rows, whatever thread had them */
#pragma omp parallel for num_threads(plim_cpu_threads(d, count *vocab))
        for (int64_t i = 0; i < count; i++) {
            const double weight = (double)a->weights[first + i];
            const row_args r = {plim_cpu_row(a->logits, first + i),
                                vocab,
                                a->labels[first + i],
                                weight,
                                weight * a->scale,
                                a->want_gradient};
            visit_row(act, &r, &loss[i]);
        }
        for (int64_t i = 0; i < count; i++) *a->loss_sum += loss[i];
    }
    return PLIM_OK;
}
