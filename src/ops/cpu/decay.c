/* decay.c - from two projections to the decay and the write strength of the delta rule, and back. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static plim_status check(plim_device *d, const char *op, const plim_decay_args *a, plim_dtype stat,
                         int64_t rows, int64_t heads)
{
    if (stat != PLIM_F32 && stat != PLIM_F64)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: ba is %s; F32 and F64 work", op, plim_dtype_name(stat));
    TRY(plim_cpu_view(d, op, "ba", a->ba, stat, rows, 2 * heads));
    TRY(plim_cpu_view(d, op, "a_log", a->a_log, stat, 1, heads));
    return plim_cpu_view(d, op, "dt_bias", a->dt_bias, stat, 1, heads);
}

plim_status plim_cpu_decay_fwd(plim_device *d, const plim_decay_args *a)
{
    const plim_dtype stat = a->ba.dtype;
    const int64_t rows = a->g.rows, heads = a->g.cols;
    TRY(check(d, "decay_fwd", a, stat, rows, heads));
    TRY(plim_cpu_view(d, "decay_fwd", "g", a->g, stat, rows, heads));
    TRY(plim_cpu_view(d, "decay_fwd", "beta", a->beta, stat, rows, heads));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *heads))
    for (int64_t i = 0; i < rows; i++) {
        const void *ba = plim_cpu_row(a->ba, i);
        for (int64_t h = 0; h < heads; h++) {
            const double x = plim_cpu_load(stat, ba, heads + h) + plim_cpu_load(stat, a->dt_bias.data, h);
            plim_cpu_store(stat, plim_cpu_row(a->g, i), h,
                           -exp(plim_cpu_load(stat, a->a_log.data, h)) * softplus(x));
            plim_cpu_store(stat, plim_cpu_row(a->beta, i), h, plim_cpu_sigmoid(plim_cpu_load(stat, ba, h)));
        }
    }
    return PLIM_OK;
}

plim_status plim_cpu_decay_bwd(plim_device *d, const plim_decay_args *a)
{
    const plim_dtype act = a->dba.dtype, stat = plim_cpu_stat(act);
    const int64_t rows = a->dg.rows, heads = a->dg.cols;
    TRY(plim_cpu_act(d, "decay_bwd", act));
    TRY(check(d, "decay_bwd", a, stat, rows, heads));
    TRY(plim_cpu_view(d, "decay_bwd", "dg", a->dg, stat, rows, heads));
    TRY(plim_cpu_view(d, "decay_bwd", "dbl", a->dbl, stat, rows, heads));
    TRY(plim_cpu_view(d, "decay_bwd", "dba", a->dba, act, rows, 2 * heads));
#pragma omp parallel for num_threads(plim_cpu_threads(d, rows *heads))
    for (int64_t i = 0; i < rows; i++) {
        const void *ba = plim_cpu_row(a->ba, i), *dg = plim_cpu_row(a->dg, i), *dbl = plim_cpu_row(a->dbl, i);
        void *dba = plim_cpu_row(a->dba, i);
        for (int64_t h = 0; h < heads; h++) {
            const double x = plim_cpu_load(stat, ba, heads + h) + plim_cpu_load(stat, a->dt_bias.data, h);
            const double slope = -exp(plim_cpu_load(stat, a->a_log.data, h)) * plim_cpu_sigmoid(x);
            plim_cpu_store(act, dba, h, plim_cpu_load(stat, dbl, h));
            plim_cpu_store(act, dba, heads + h, slope * plim_cpu_load(stat, dg, h));
        }
    }
    return PLIM_OK;
}
