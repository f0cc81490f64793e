/* delta_f32.c - the delta rule's phases in float, for F32 and BF16 activations. */
#define real         float
#define real_exp     plim_cpu_expf
#define real_gemm    cblas_sgemm
#define real_trsm    cblas_strsm
#define real_kernels plim_delta_kernels_f32
#include "ops/cpu/delta_chunk.inc"
