/* delta_bwd.c - the backward delta rule of a tile: states again, gradients of states, then everything else.
 *
 * The last phase knows its chunk's S and dS' and runs over chunks and key heads, so that a key head's
 * gradient is summed over its value heads by one thread in their order: the same bits for any number of
 * threads. */
#include "ops/cpu/cpu.h"
#include "ops/cpu/delta_chunk.h"

plim_status plim_cpu_delta_bwd(plim_device *d, const plim_delta_args *a)
{
    plim_delta_layout l;
    TRY(plim_delta_check(d, "delta_bwd", a, true, &l));
    if (a->chunk_count == 0) return PLIM_OK;
    const plim_delta_kernels *kernels =
        a->q.dtype == PLIM_F64 ? &plim_delta_kernels_f64 : &plim_delta_kernels_f32;
    const int64_t heads = a->value_heads, key_heads = a->key_heads, blocks = a->chunk_count * key_heads;
#pragma omp parallel num_threads(d->threads)
    {
        void *work = plim_cpu_scratch(d);
#pragma omp for schedule(dynamic)
        for (int64_t h = 0; h < heads; h++) {
            kernels->scan_fwd(a, &l, work, h, true);
            kernels->scan_bwd(a, &l, work, h);
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < blocks; i++) kernels->gradients(a, &l, work, i / key_heads, i % key_heads);
    }
    return PLIM_OK;
}
