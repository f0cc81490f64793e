/* device.c - opens and closes the CPU column, and checks the views operations are given. */
#include "ops/cpu/device.h"

#include <inttypes.h>

#include <cblas.h>

#include "ops/cpu/blas_check.h"

plim_status plim_cpu_open(plim_ctx *c, int threads, plim_device **out)
{
    if (threads < 0 || threads > PLIM_CPU_MAX_THREADS)
        return plim_fail(c, PLIM_E_RANGE, "cpu: %d threads asked for; 0 (all cores) to %d work", threads,
                         PLIM_CPU_MAX_THREADS);
    if (threads == 0) threads = omp_get_num_procs();
    if (threads > PLIM_CPU_MAX_THREADS) threads = PLIM_CPU_MAX_THREADS;
    plim_device *d = NULL;
    TRY(plim_alloc(c, 1, sizeof *d, "the CPU device", &d));
    d->ctx = c;
    d->threads = threads;
    d->blas_threads_before = openblas_get_num_threads();
    openblas_set_num_threads(1);
    plim_status st = plim_alloc(c, (size_t)threads, PLIM_CPU_SCRATCH_BYTES, "the CPU scratch", &d->scratch);
    if (!st) st = plim_cpu_blas_check(c, cblas_sgemm, cblas_dgemm);
    if (st) {
        plim_cpu_close(d);
        return st;
    }
    *out = d;
    return PLIM_OK;
}

void plim_cpu_close(plim_device *d)
{
    if (!d) return;
    openblas_set_num_threads(d->blas_threads_before);
    plim_ctx *c = d->ctx;
    plim_release(c, d->scratch);
    plim_release(c, d);
}

plim_status plim_cpu_view(const plim_device *d, const char *op, const char *name, plim_tensor t,
                          plim_dtype dtype, int64_t rows, int64_t cols)
{
    if (t.dtype != dtype)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s is %s, wanted %s", op, name, plim_dtype_name(t.dtype),
                         plim_dtype_name(dtype));
    if (t.rows != rows || t.cols != cols)
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %s is %" PRId64 " x %" PRId64 ", wanted %" PRId64 " x %" PRId64, op, name,
                         t.rows, t.cols, rows, cols);
    if (rows < 0 || cols < 0 || (rows > 1 && t.pitch < cols))
        return plim_fail(d->ctx, PLIM_E_SHAPE,
                         "%s: %s has %" PRId64 " rows of %" PRId64 " columns at pitch %" PRId64
                         "; rows must not overlap",
                         op, name, rows, cols, t.pitch);
    if (rows > 0 && cols > 0 && !t.data)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s has no memory (a view of a dry layout?)", op, name);
    return PLIM_OK;
}

plim_status plim_cpu_act(const plim_device *d, const char *op, plim_dtype act)
{
    if (plim_cpu_is_float(act)) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s activations; F32, BF16 and F64 work", op,
                     plim_dtype_name(act));
}

plim_status plim_cpu_docs(const plim_device *d, const char *op, const plim_docs *docs, int64_t tokens)
{
    const int64_t *start = docs->start_host;
    bool ok = docs->tokens == tokens && docs->count >= 0 && (tokens == 0 || (docs->count > 0 && start));
    if (ok && docs->count > 0 && start) {
        ok = start[0] == 0 && start[docs->count] == tokens;
        for (int64_t n = 0; ok && n < docs->count; n++) ok = start[n] <= start[n + 1];
    }
    if (ok) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: %" PRId64 " documents of %" PRId64 " tokens do not cover the %" PRId64
                     " rows in order",
                     op, docs->count, docs->tokens, tokens);
}
