/* libraries.h - cuBLASLt and cuDNN, opened where people have them: the system's loader path, CUDA_HOME, or a
 * Python environment's nvidia packages, which hold versioned names only. */
#ifndef PLIM_OPS_CUDA_LIBRARIES_H
#define PLIM_OPS_CUDA_LIBRARIES_H

#include <cublasLt.h>
#ifdef PLIM_HAVE_CUDNN
#include <cudnn_graph.h>
#endif

extern "C" {
#include "base/context.h"
}

#define PLIM_CUBLASLT_FUNCTIONS(X)                                                                           \
    X(cublasLtCreate)                                                                                        \
    X(cublasLtDestroy)                                                                                       \
    X(cublasLtGetVersion)                                                                                    \
    X(cublasLtMatmul)                                                                                        \
    X(cublasLtMatmulDescInit_internal)                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                        \
    X(cublasLtMatrixLayoutInit_internal)                                                                     \
    X(cublasLtMatmulPreferenceInit_internal)                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                        \
    X(cublasLtGetStatusString)

#define PLIM_CUDNN_FUNCTIONS(X)                                                                              \
    X(cudnnCreate)                                                                                           \
    X(cudnnDestroy)                                                                                          \
    X(cudnnSetStream)                                                                                        \
    X(cudnnGetVersion)                                                                                       \
    X(cudnnGetErrorString)                                                                                   \
    X(cudnnGetLastErrorString)                                                                               \
    X(cudnnBackendCreateDescriptor)                                                                          \
    X(cudnnBackendDestroyDescriptor)                                                                         \
    X(cudnnBackendSetAttribute)                                                                              \
    X(cudnnBackendGetAttribute)                                                                              \
    X(cudnnBackendFinalize)                                                                                  \
    X(cudnnBackendExecute)

typedef struct plim_cuda_libraries {
    void *cublas_file, *cudnn_file, *nvrtc_file;
    char cublas_path[512], cudnn_path[512];
#define MEMBER(name) decltype(&::name) name;
    PLIM_CUBLASLT_FUNCTIONS(MEMBER)
#ifdef PLIM_HAVE_CUDNN
    PLIM_CUDNN_FUNCTIONS(MEMBER)
#endif
#undef MEMBER
} plim_cuda_libraries;

/* cuBLASLt must be there: PLIM_E_CUDA says in one sentence where it was looked for.  cuDNN may be missing:
 * cudnn_file is NULL then, and why (a buffer of 512 bytes) says so. */
plim_status plim_cuda_libraries_open(plim_ctx *c, plim_cuda_libraries *out, char why[512]);
void plim_cuda_libraries_close(plim_cuda_libraries *l);

#endif
