// table.cu - the CUDA column: one function a slot.
#include "ops/cuda/parts.h"

#define SLOT(name, args) plim_cuda_##name,
const plim_ops plim_ops_cuda = {PLIM_OPS_MAP(SLOT) plim_cuda_copy,
                                plim_cuda_scaled_copy,
                                plim_cuda_add,
                                plim_cuda_add_bias,
                                plim_cuda_offload,
                                plim_cuda_fetch,
                                plim_cuda_wait,
                                plim_cuda_settle,
                                plim_cuda_read,
                                plim_cuda_write};
