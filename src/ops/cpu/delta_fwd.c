/* delta_fwd.c - the forward delta rule of a tile: one walk over the chunks for every value head. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/delta_chunk.h"

plim_status plim_cpu_delta_fwd(plim_device *d, const plim_delta_args *a)
{
    plim_delta_layout l;
    TRY(plim_delta_check(d, "delta_fwd", a, false, &l));
    if (a->chunk_count == 0) return PLIM_OK;
    const plim_delta_kernels *kernels =
        a->q.dtype == PLIM_F64 ? &plim_delta_kernels_f64 : &plim_delta_kernels_f32;
    const int64_t heads = a->value_heads;
#pragma omp parallel for schedule(dynamic) num_threads(d->threads)
    for (int64_t h = 0; h < heads; h++) kernels->scan_fwd(a, &l, plim_cpu_scratch(d), h, false);
    return PLIM_OK;
}
