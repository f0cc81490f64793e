/* cuda.h - what the CUDA plug-in offers the program, in C; and the functions of its column. */
#ifndef PLIM_OPS_CUDA_CUDA_H
#define PLIM_OPS_CUDA_CUDA_H

#include "ops/machine.h"

typedef struct plim_cuda_options {
    int ordinal;
    bool deterministic;              /* our own attention: the same bits every run */
    plim_attention_kernel attention; /* CUDNN or OWN */
} plim_cuda_options;

/* What a card and its machine look like before anything is opened. */
typedef struct plim_cuda_info {
    char name[128];
    char driver[32], runtime[32], cublas[32], cudnn[32]; /* "" when not found */
    char cublas_path[512], cudnn_path[512];
    int32_t capability_major, capability_minor;
    int64_t memory_bytes, free_bytes;
} plim_cuda_info;

/* The plug-in's own idea of the interface; the program refuses another. */
#define PLIM_CUDA_ABI 3

#define PLIM_CUDA_EXPORT __attribute__((visibility("default")))

PLIM_CUDA_EXPORT int plim_cuda_abi(void);
PLIM_CUDA_EXPORT plim_status plim_cuda_describe(plim_ctx *c, int ordinal, plim_cuda_info *out);
PLIM_CUDA_EXPORT plim_status plim_cuda_machine(plim_ctx *c, const plim_cuda_options *o, plim_machine *out);

/* The column, slot by slot.  A slot without its kernel does not link. */
#define PLIM_CUDA_SLOT(name, args) plim_status plim_cuda_##name(plim_device *d, const args *a);
PLIM_OPS_MAP(PLIM_CUDA_SLOT)
#undef PLIM_CUDA_SLOT
plim_status plim_cuda_copy(plim_device *d, plim_tensor x, plim_tensor y);
plim_status plim_cuda_scaled_copy(plim_device *d, double alpha, plim_tensor x, plim_tensor y);
plim_status plim_cuda_add(plim_device *d, plim_tensor x, plim_tensor y);
plim_status plim_cuda_add_bias(plim_device *d, plim_tensor bias, plim_tensor y);
plim_status plim_cuda_offload(plim_device *d, plim_tensor x, plim_tensor host, int event);
plim_status plim_cuda_fetch(plim_device *d, plim_tensor host, plim_tensor x, int event);
plim_status plim_cuda_wait(plim_device *d, int event);
plim_status plim_cuda_settle(plim_device *d, int event);
plim_status plim_cuda_read(plim_device *d, const void *device, void *host, size_t bytes);
plim_status plim_cuda_write(plim_device *d, const void *host, void *device, size_t bytes);

#endif
