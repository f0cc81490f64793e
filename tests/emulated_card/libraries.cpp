// libraries.cpp - stands in for src/ops/cuda/libraries.cu: cuBLASLt is the emulated one, cuDNN is missing.
#include "ops/cuda/libraries.h"

#include <stdio.h>

plim_status plim_cuda_libraries_open(plim_ctx *, plim_cuda_libraries *out, char why[512])
{
    plim_cuda_libraries l = {};
#define TAKE(name) l.name = name;
    PLIM_CUBLASLT_FUNCTIONS(TAKE)
#undef TAKE
    snprintf(l.cublas_path, sizeof l.cublas_path, "emulated");
    snprintf(why, 512, "the emulated card has no cuDNN");
    *out = l;
    return PLIM_OK;
}

void plim_cuda_libraries_close(plim_cuda_libraries *)
{
}
