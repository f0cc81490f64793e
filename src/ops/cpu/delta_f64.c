/* delta_f64.c - the delta rule's phases in double, for F64 activations. */
#define real         double
#define real_exp     plim_cpu_exp
#define real_gemm    cblas_dgemm
#define real_trsm    cblas_dtrsm
#define real_kernels plim_delta_kernels_f64
#include "ops/cpu/delta_chunk.inc"
