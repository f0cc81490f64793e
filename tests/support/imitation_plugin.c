/* imitation_plugin.c - the CUDA plug-in's interface with the CPU behind it: device memory that the host
 * cannot touch, the name and the memory of an H200.  For tests of the program. */
#include "support/walled_machine.h"

#include <stdio.h>

#include "ops/cuda/cuda.h"

#define MEMORY_BYTES  ((size_t)150126329856)
#define CONTEXT_BYTES ((size_t)700 << 20)

int plim_cuda_abi(void)
{
    return PLIM_CUDA_ABI;
}

static plim_status check_ordinal(plim_ctx *c, int ordinal)
{
    return ordinal ? plim_fail(c, PLIM_E_CUDA, "card %d cannot be opened: there is one", ordinal) : PLIM_OK;
}

plim_status plim_cuda_describe(plim_ctx *c, int ordinal, plim_cuda_info *out)
{
    TRY(check_ordinal(c, ordinal));
    *out = (plim_cuda_info){.name = "Imitation H200",
                            .driver = "13.0",
                            .runtime = "13.0",
                            .cublas = "13.1.0",
                            .cublas_path = "/imitation/libcublasLt.so.13",
                            .capability_major = 9,
                            .memory_bytes = (int64_t)MEMORY_BYTES,
                            .free_bytes = (int64_t)(MEMORY_BYTES - CONTEXT_BYTES)};
    return PLIM_OK;
}

plim_status plim_cuda_machine(plim_ctx *c, const plim_cuda_options *o, plim_machine *out)
{
    plim_machine m;
    TRY(check_ordinal(c, o->ordinal));
    TRY(walled_open(c, MEMORY_BYTES, &m));
    walled_used += CONTEXT_BYTES;
    m.name = "Imitation H200";
    m.libraries = "imitation";
    /* As where cuDNN is missing. */
    m.attention = o->deterministic ? "plimsoll's own: deterministic" : "plimsoll's own: cuDNN is not here";
    m.attention_kernel = PLIM_ATTENTION_OWN;
    *out = m;
    return PLIM_OK;
}
