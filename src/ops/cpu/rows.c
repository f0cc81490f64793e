/* rows.c - whole rows moved, cast and added: copy, add, add_bias, gather and scatter by index. */
#include <inttypes.h>

#include "ops/cpu/convert.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"
#include "ops/cpu/value.h"

/* Views of one dtype may hold anything; between two, only floats are cast. */
static plim_status check_cast(plim_device *d, const char *op, plim_tensor from, plim_tensor to)
{
    if (from.dtype != to.dtype && !(plim_cpu_is_float(from.dtype) && plim_cpu_is_float(to.dtype)))
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s to %s; only F32, BF16 and F64 are cast", op,
                         plim_dtype_name(from.dtype), plim_dtype_name(to.dtype));
    return PLIM_OK;
}

plim_status plim_cpu_copy(plim_device *d, plim_tensor x, plim_tensor y)
{
    TRY(check_cast(d, "copy", x, y));
    TRY(plim_cpu_view(d, "copy", "x", x, x.dtype, y.rows, y.cols));
    TRY(plim_cpu_view(d, "copy", "y", y, y.dtype, y.rows, y.cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, y.rows *y.cols))
    for (int64_t i = 0; i < y.rows; i++)
        plim_cpu_convert(y.cols, x.dtype, plim_cpu_row(x, i), y.dtype, plim_cpu_row(y, i));
    return PLIM_OK;
}

/* In the dtype of the master: products of doubles would round twice on their way to bf16. */
PLIM_CPU_INLINE void scale_single(plim_dtype ty, int64_t n, float alpha, plim_dtype tx, const void *x,
                                  void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(ty, y, i, (double)(alpha * (float)plim_cpu_load(tx, x, i)));
}

PLIM_CPU_INLINE void scale_double(plim_dtype ty, int64_t n, double alpha, const void *x, void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) plim_cpu_store(ty, y, i, alpha * plim_cpu_load(PLIM_F64, x, i));
}

PLIM_CPU_CLONES static void scale_row(int64_t n, double alpha, plim_dtype tx, const void *x, plim_dtype ty,
                                      void *y)
{
    if (tx == PLIM_F64) PLIM_CPU_BY_DTYPE(ty, scale_double, n, alpha, x, y);
    else if (tx == PLIM_BF16) PLIM_CPU_BY_DTYPE(ty, scale_single, n, (float)alpha, PLIM_BF16, x, y);
    else PLIM_CPU_BY_DTYPE(ty, scale_single, n, (float)alpha, PLIM_F32, x, y);
}

plim_status plim_cpu_scaled_copy(plim_device *d, double alpha, plim_tensor x, plim_tensor y)
{
    TRY(plim_cpu_act(d, "scaled_copy", x.dtype));
    TRY(plim_cpu_act(d, "scaled_copy", y.dtype));
    TRY(plim_cpu_view(d, "scaled_copy", "x", x, x.dtype, y.rows, y.cols));
    TRY(plim_cpu_view(d, "scaled_copy", "y", y, y.dtype, y.rows, y.cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, y.rows *y.cols))
    for (int64_t i = 0; i < y.rows; i++)
        scale_row(y.cols, alpha, x.dtype, plim_cpu_row(x, i), y.dtype, plim_cpu_row(y, i));
    return PLIM_OK;
}

PLIM_CPU_INLINE void add(plim_dtype ty, int64_t n, plim_dtype tx, const void *x, void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        plim_cpu_store(ty, y, i, plim_cpu_load(ty, y, i) + plim_cpu_load(tx, x, i));
}

PLIM_CPU_CLONES static void add_row(int64_t n, plim_dtype tx, const void *x, plim_dtype ty, void *y)
{
    if (tx == PLIM_F32) PLIM_CPU_BY_DTYPE(ty, add, n, PLIM_F32, x, y);
    else if (tx == PLIM_BF16) PLIM_CPU_BY_DTYPE(ty, add, n, PLIM_BF16, x, y);
    else PLIM_CPU_BY_DTYPE(ty, add, n, PLIM_F64, x, y);
}

plim_status plim_cpu_add(plim_device *d, plim_tensor x, plim_tensor y)
{
    TRY(plim_cpu_act(d, "add", x.dtype));
    TRY(plim_cpu_act(d, "add", y.dtype));
    TRY(plim_cpu_view(d, "add", "x", x, x.dtype, y.rows, y.cols));
    TRY(plim_cpu_view(d, "add", "y", y, y.dtype, y.rows, y.cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, y.rows *y.cols))
    for (int64_t i = 0; i < y.rows; i++)
        add_row(y.cols, x.dtype, plim_cpu_row(x, i), y.dtype, plim_cpu_row(y, i));
    return PLIM_OK;
}

plim_status plim_cpu_add_bias(plim_device *d, plim_tensor bias, plim_tensor y)
{
    TRY(plim_cpu_act(d, "add_bias", bias.dtype));
    TRY(plim_cpu_act(d, "add_bias", y.dtype));
    TRY(plim_cpu_view(d, "add_bias", "bias", bias, bias.dtype, 1, y.cols));
    TRY(plim_cpu_view(d, "add_bias", "y", y, y.dtype, y.rows, y.cols));
#pragma omp parallel for num_threads(plim_cpu_threads(d, y.rows *y.cols))
    for (int64_t i = 0; i < y.rows; i++) add_row(y.cols, bias.dtype, bias.data, y.dtype, plim_cpu_row(y, i));
    return PLIM_OK;
}

/* Every index names a row of limit. */
static plim_status check_indices(plim_device *d, const char *op, const int32_t *index, int64_t count,
                                 int64_t limit)
{
    if (count > 0 && !index) return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: no indices", op);
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= limit)
            return plim_fail(d->ctx, PLIM_E_RANGE,
                             "%s: index %" PRId64 " is %" PRId32 "; rows are 0 to %" PRId64, op, i, index[i],
                             limit - 1);
    return PLIM_OK;
}

plim_status plim_cpu_gather_rows(plim_device *d, const plim_rows_args *a)
{
    const plim_tensor src = a->src, dst = a->dst;
    TRY(check_cast(d, "gather_rows", src, dst));
    TRY(plim_cpu_view(d, "gather_rows", "src", src, src.dtype, src.rows, dst.cols));
    TRY(plim_cpu_view(d, "gather_rows", "dst", dst, dst.dtype, dst.rows, dst.cols));
    TRY(check_indices(d, "gather_rows", a->index, dst.rows, src.rows));
#pragma omp parallel for num_threads(plim_cpu_threads(d, dst.rows *dst.cols))
    for (int64_t i = 0; i < dst.rows; i++)
        plim_cpu_convert(dst.cols, src.dtype, plim_cpu_row(src, a->index[i]), dst.dtype,
                         plim_cpu_row(dst, i));
    return PLIM_OK;
}

plim_status plim_cpu_scatter_rows(plim_device *d, const plim_rows_args *a)
{
    const plim_tensor src = a->src, dst = a->dst;
    TRY(check_cast(d, "scatter_rows", src, dst));
    TRY(plim_cpu_view(d, "scatter_rows", "src", src, src.dtype, src.rows, dst.cols));
    TRY(plim_cpu_view(d, "scatter_rows", "dst", dst, dst.dtype, dst.rows, dst.cols));
    TRY(check_indices(d, "scatter_rows", a->index, src.rows, dst.rows));
#pragma omp parallel for num_threads(plim_cpu_threads(d, src.rows *src.cols))
    for (int64_t i = 0; i < src.rows; i++)
        plim_cpu_convert(dst.cols, src.dtype, plim_cpu_row(src, i), dst.dtype,
                         plim_cpu_row(dst, a->index[i]));
    return PLIM_OK;
}
