/* convert.h - rows from one float dtype to another. */
#ifndef PLIM_OPS_CPU_CONVERT_H
#define PLIM_OPS_CPU_CONVERT_H

#include "base/tensor.h"

/* dst[i] = src[i], i < n; to a narrower dtype with one rounding.  F32, BF16 and F64. */
void plim_cpu_convert(int64_t n, plim_dtype from, const void *src, plim_dtype to, void *dst);

/* Rows of x as the dtype to, at their own pitch *pitch: x itself when it is that already, else converted into
 * buffer (x.rows * x.cols elements, packed). */
const void *plim_cpu_panel(plim_tensor x, plim_dtype to, void *buffer, int64_t *pitch);

#endif
