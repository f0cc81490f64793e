/* attention_parts.h - the two engines behind the attention slots: which takes a call, and what each offers.
 */
#ifndef PLIM_OPS_CUDA_ATTENTION_PARTS_H
#define PLIM_OPS_CUDA_ATTENTION_PARTS_H

#include "ops/cuda/device.h"

/* Our own kernels: any card from 8.0 on, head sizes that are multiples of 8 up to 256, no scratch, the same
 * bits every run.  The views were checked. */
plim_status plim_cuda_attention_own_open(plim_device *d);
plim_status plim_cuda_attention_own_fwd(plim_device *d, const plim_attention_args *a);
plim_status plim_cuda_attention_own_bwd(plim_device *d, const plim_attention_args *a);

#ifdef PLIM_HAVE_CUDNN
/* The oldest cuDNN whose backward is right at every length and head size we give it. */
#define PLIM_CUDNN_OLDEST 91501

/* cuDNN's fused kernels on a card of capability 9.0.  open writes d->cudnn; close accepts NULL there. */
plim_status plim_cudnn_attention_open(plim_device *d);
void plim_cudnn_attention_close(plim_device *d);
/* False: these shapes are for our own kernels (small heads; packed views cuDNN would misread). */
bool plim_cudnn_attention_takes(const plim_attention_args *a, bool backward);
plim_status plim_cudnn_attention(plim_device *d, const plim_attention_args *a, bool backward);
#endif

#endif
