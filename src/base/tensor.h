/* tensor.h - a view of a matrix: what every operation takes and every layout hands out. */
#ifndef PLIM_BASE_TENSOR_H
#define PLIM_BASE_TENSOR_H

#include "plimsoll.h"

/* rows x cols elements; row i starts at element i * pitch.  [T, H, Dh] is rows = T, cols = H * Dh.
 * data is NULL in a dry layout.  A zeroed view is an absent tensor. */
typedef struct plim_tensor {
    void *data;
    plim_dtype dtype;
    int64_t rows, cols, pitch;
} plim_tensor;

/* log2 of the bytes of an element. */
static inline int plim_dtype_shift(plim_dtype d)
{
    static const unsigned char shift[PLIM_DTYPE_COUNT] = {
#define PLIM_DTYPE_SHIFT(name, bytes) (bytes) == 8 ? 3 : (bytes) == 4 ? 2 : (bytes)-1,
        PLIM_DTYPE_MAP(PLIM_DTYPE_SHIFT)
#undef PLIM_DTYPE_SHIFT
    };
    return shift[d];
}

/* Rows first .. first + rows - 1 of t, sharing its memory. */
static inline plim_tensor plim_tensor_rows(plim_tensor t, int64_t first, int64_t rows)
{
    if (t.data) t.data = (char *)t.data + (size_t)first * (size_t)t.pitch * plim_dtype_bytes(t.dtype);
    t.rows = rows;
    return t;
}

/* Columns first .. first + cols - 1 of t, sharing its memory. */
static inline plim_tensor plim_tensor_cols(plim_tensor t, int64_t first, int64_t cols)
{
    if (t.data) t.data = (char *)t.data + (size_t)first * plim_dtype_bytes(t.dtype);
    t.cols = cols;
    return t;
}

#endif
