#include "reference/delta_io.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"

enum { GUARD = 0xa5, UNSET_CODE = 0xcc };

static void set(plim_tensor t, int64_t at, double x)
{
    switch (t.dtype) {
    case PLIM_F64: ((double *)t.data)[at] = x; break;
    case PLIM_F32: ((float *)t.data)[at] = (float)x; break;
    case PLIM_BF16: ((uint16_t *)t.data)[at] = plim_bf16_round((float)x); break;
    default: ((uint8_t *)t.data)[at] = isnan(x) ? UNSET_CODE : (uint8_t)x; break;
    }
}

static double get(plim_tensor t, int64_t at)
{
    switch (t.dtype) {
    case PLIM_F64: return ((const double *)t.data)[at];
    case PLIM_F32: return (double)((const float *)t.data)[at];
    case PLIM_BF16: return (double)plim_bf16_load(((const uint16_t *)t.data)[at]);
    default: return ((const uint8_t *)t.data)[at];
    }
}

plim_tensor io_make(plim_dtype dtype, int64_t rows, int64_t cols, int64_t gap, const double *values)
{
    plim_tensor t = {NULL, dtype, rows, cols, cols + gap};
    const size_t row_bytes = (size_t)t.pitch * plim_dtype_bytes(dtype),
                 bytes = (size_t)(rows + 2) * row_bytes;
    char *memory = malloc(bytes + 1);
    memset(memory, GUARD, bytes + 1);
    t.data = memory + row_bytes;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            set(t, i * t.pitch + j, values ? values[i * cols + j] : (double)NAN);
    return t;
}

void io_free(plim_tensor t)
{
    if (t.data) free((char *)t.data - (size_t)t.pitch * plim_dtype_bytes(t.dtype));
}

static bool untouched(const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)from[i] != GUARD) return false;
    return true;
}

bool io_guarded(plim_tensor t)
{
    const size_t element = plim_dtype_bytes(t.dtype), row_bytes = (size_t)t.pitch * element;
    const char *data = t.data;
    if (!untouched(data - row_bytes, row_bytes) || !untouched(data + (size_t)t.rows * row_bytes, row_bytes))
        return false;
    for (int64_t i = 0; i < t.rows; i++)
        if (!untouched(data + (size_t)i * row_bytes + (size_t)t.cols * element,
                       (size_t)(t.pitch - t.cols) * element))
            return false;
    return true;
}

void io_read(plim_tensor t, double *out)
{
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++) out[i * t.cols + j] = get(t, i * t.pitch + j);
}

double *io_copy(plim_tensor t)
{
    double *x = malloc((size_t)(t.rows * t.cols + 1) * sizeof *x);
    io_read(t, x);
    return x;
}

void io_round(plim_dtype dtype, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype == PLIM_F32) x[i] = (double)(float)x[i];
        if (dtype == PLIM_BF16) x[i] = (double)plim_bf16_load(plim_bf16_round((float)x[i]));
    }
}

double io_uniform(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

double io_normal(uint64_t *seed)
{
    const double u = 1 - io_uniform(seed), v = io_uniform(seed);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

double io_error(const double *got, const double *want, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (difference == 0) return 0;
    return isfinite(difference) && size > 0 ? sqrt(difference / size) : (double)INFINITY;
}
