/* convert.c - one loop a pair of dtypes. */
#include "ops/cpu/convert.h"

#include "ops/cpu/value.h"

PLIM_CPU_INLINE void convert(plim_dtype to, int64_t n, plim_dtype from, const void *src, void *dst)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) plim_cpu_store(to, dst, i, plim_cpu_load(from, src, i));
}

/* The two pairs that panels are made of go without double in between, with the same bits. */
PLIM_CPU_INLINE void widen(int64_t n, const uint16_t *src, float *dst)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dst[i] = plim_cpu_bf16_load(src[i]);
}

PLIM_CPU_INLINE void narrow(int64_t n, const float *src, uint16_t *dst)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dst[i] = plim_cpu_bf16_round(src[i]);
}

PLIM_CPU_CLONES void plim_cpu_convert(int64_t n, plim_dtype from, const void *src, plim_dtype to, void *dst)
{
    if (from == to) memmove(dst, src, (size_t)n * plim_dtype_bytes(to));
    else if (from == PLIM_BF16 && to == PLIM_F32) widen(n, src, dst);
    else if (from == PLIM_F32 && to == PLIM_BF16) narrow(n, src, dst);
    else if (from == PLIM_F32) PLIM_CPU_BY_DTYPE(to, convert, n, PLIM_F32, src, dst);
    else if (from == PLIM_BF16) PLIM_CPU_BY_DTYPE(to, convert, n, PLIM_BF16, src, dst);
    else PLIM_CPU_BY_DTYPE(to, convert, n, PLIM_F64, src, dst);
}

const void *plim_cpu_panel(plim_tensor x, plim_dtype to, void *buffer, int64_t *pitch)
{
    if (x.dtype == to) {
        *pitch = x.pitch;
        return x.data;
    }
    *pitch = x.cols;
    const size_t row_bytes = (size_t)x.cols * plim_dtype_bytes(to);
    for (int64_t i = 0; i < x.rows; i++)
        plim_cpu_convert(x.cols, x.dtype, plim_tensor_rows(x, i, 1).data, to,
                         (char *)buffer + (size_t)i * row_bytes);
    return buffer;
}
