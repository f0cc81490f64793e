/* parts.h - what device.cu opens and closes of the other files. */
#ifndef PLIM_OPS_CUDA_PARTS_H
#define PLIM_OPS_CUDA_PARTS_H

#include "ops/cuda/device.h"

extern const plim_ops plim_ops_cuda; /* table.cu */

plim_status plim_cuda_gemm_open(plim_device *d);
void plim_cuda_gemm_close(plim_device *d);

plim_status plim_cuda_optimiser_open(plim_device *d);
void plim_cuda_optimiser_close(plim_device *d);

/* why: for want of cuDNN; our own attention takes its place, and the message says so when cuDNN was asked
 * for. */
plim_status plim_cuda_attention_open(plim_device *d, const char *why);
void plim_cuda_attention_close(plim_device *d);
/* The engine in use and why, in one line for a log; lives as long as d. */
const char *plim_cuda_attention_name(const plim_device *d);

/* Pinned host memory: faulted in from many threads in huge pages, then registered. */
plim_status plim_cuda_pin(plim_device *d, size_t bytes, void **out);
void plim_cuda_unpin(plim_device *d, void *p);

#endif
