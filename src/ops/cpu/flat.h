/* flat.h - a view read as one sequence of elements, row after row, whatever its pitch. */
#ifndef PLIM_OPS_CPU_FLAT_H
#define PLIM_OPS_CPU_FLAT_H

#include "ops/cpu/device.h"

static inline int64_t plim_cpu_flat_count(plim_tensor t)
{
    return t.rows * t.cols;
}

/* Where element at lies; *run is how many of the most elements from there lie side by side. */
static inline void *plim_cpu_flat_at(plim_tensor t, int64_t at, int64_t most, int64_t *run)
{
    const bool dense = t.pitch == t.cols || t.rows == 1;
    const int64_t row = dense ? 0 : at / t.cols, col = at - row * t.cols;
    *run = dense || t.cols - col > most ? most : t.cols - col;
    return plim_cpu_at(t, row, col);
}

#endif
