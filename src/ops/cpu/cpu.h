/* cpu.h - the functions behind the slots of plim_ops_cpu; contracts are those of ops.h. */
#ifndef PLIM_OPS_CPU_CPU_H
#define PLIM_OPS_CPU_CPU_H

#include "ops/ops.h"

/* ---- products, attention, element-wise ----------------------------------------------------------------- */

plim_status plim_cpu_gemm(plim_device *d, const plim_gemm_args *a);
plim_status plim_cpu_rmsnorm_fwd(plim_device *d, const plim_rmsnorm_args *a);
plim_status plim_cpu_rmsnorm_bwd(plim_device *d, const plim_rmsnorm_args *a);
plim_status plim_cpu_head_rope_fwd(plim_device *d, const plim_head_rope_args *a);
plim_status plim_cpu_head_rope_bwd(plim_device *d, const plim_head_rope_args *a);
plim_status plim_cpu_attention_fwd(plim_device *d, const plim_attention_args *a);
plim_status plim_cpu_attention_bwd(plim_device *d, const plim_attention_args *a);
plim_status plim_cpu_attention_gate_fwd(plim_device *d, const plim_attention_gate_args *a);
plim_status plim_cpu_attention_gate_bwd(plim_device *d, const plim_attention_gate_args *a);
plim_status plim_cpu_swiglu_fwd(plim_device *d, const plim_swiglu_args *a);
plim_status plim_cpu_swiglu_bwd(plim_device *d, const plim_swiglu_args *a);
plim_status plim_cpu_cross_entropy(plim_device *d, const plim_cross_entropy_args *a);
plim_status plim_cpu_gather_rows(plim_device *d, const plim_rows_args *a);
plim_status plim_cpu_scatter_rows(plim_device *d, const plim_rows_args *a);
plim_status plim_cpu_dropout(plim_device *d, const plim_dropout_args *a);
plim_status plim_cpu_fill(plim_device *d, const plim_fill_args *a);
plim_status plim_cpu_copy(plim_device *d, plim_tensor x, plim_tensor y);
plim_status plim_cpu_scaled_copy(plim_device *d, double alpha, plim_tensor x, plim_tensor y);
plim_status plim_cpu_add(plim_device *d, plim_tensor x, plim_tensor y);
plim_status plim_cpu_add_bias(plim_device *d, plim_tensor bias, plim_tensor y);
plim_status plim_cpu_offload(plim_device *d, plim_tensor x, plim_tensor host, int event);
plim_status plim_cpu_fetch(plim_device *d, plim_tensor host, plim_tensor x, int event);
plim_status plim_cpu_wait(plim_device *d, int event);
plim_status plim_cpu_settle(plim_device *d, int event);
plim_status plim_cpu_read(plim_device *d, const void *device, void *host, size_t bytes);
plim_status plim_cpu_write(plim_device *d, const void *host, void *device, size_t bytes);

/* ---- delta-net and optimiser --------------------------------------------------------------------------- */

plim_status plim_cpu_conv_silu_fwd(plim_device *d, const plim_conv_silu_args *a);
plim_status plim_cpu_conv_silu_bwd(plim_device *d, const plim_conv_silu_args *a);
plim_status plim_cpu_l2norm_fwd(plim_device *d, const plim_l2norm_args *a);
plim_status plim_cpu_l2norm_bwd(plim_device *d, const plim_l2norm_args *a);
plim_status plim_cpu_decay_fwd(plim_device *d, const plim_decay_args *a);
plim_status plim_cpu_decay_bwd(plim_device *d, const plim_decay_args *a);
plim_status plim_cpu_delta_fwd(plim_device *d, const plim_delta_args *a);
plim_status plim_cpu_delta_bwd(plim_device *d, const plim_delta_args *a);
plim_status plim_cpu_gated_norm_fwd(plim_device *d, const plim_gated_norm_args *a);
plim_status plim_cpu_gated_norm_bwd(plim_device *d, const plim_gated_norm_args *a);
plim_status plim_cpu_adamw(plim_device *d, const plim_adamw_args *a);
plim_status plim_cpu_square_sum(plim_device *d, const plim_square_sum_args *a);

#endif
