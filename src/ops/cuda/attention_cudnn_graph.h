/* attention_cudnn_graph.h - describing operation graphs to cuDNN's backend: tensors, operations, plans.
 *
 * A graph keeps its first failure; later steps do nothing, and it is reported once, when the plan is made. */
#ifndef PLIM_OPS_CUDA_ATTENTION_CUDNN_GRAPH_H
#define PLIM_OPS_CUDA_ATTENTION_CUDNN_GRAPH_H

#include "ops/cuda/device.h"

#ifdef PLIM_HAVE_CUDNN

typedef cudnnBackendDescriptor_t descriptor;

#define GRAPH_DESCRIPTORS 192
#define GRAPH_OPERATIONS  64

struct graph {
    const plim_cuda_libraries *lib;
    descriptor own[GRAPH_DESCRIPTORS], operation[GRAPH_OPERATIONS];
    int owned, operations;
    int64_t next_id; /* of intermediates */
    cudnnStatus_t status;
    const char *where; /* of the first failure */
    char why[256];     /* cuDNN's words for it */
};

struct four {
    int64_t v[4];
};

/* REAL: memory bound at each call; BY_VALUE: a host scalar; an id is given for both. */
enum graph_kind { GRAPH_REAL, GRAPH_VIRTUAL, GRAPH_BY_VALUE };

/* ragged: the offsets of packed documents, or NULL. */
descriptor graph_tensor(graph *g, graph_kind kind, int64_t id, cudnnDataType_t type, four dims, four strides,
                        descriptor ragged);
descriptor graph_scalar(graph *g, int64_t id);

/* y = mode(x), mode(x, b), or t ? x : b. */
void graph_pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, descriptor x,
                     descriptor b, descriptor t, descriptor y);
/* y = the index along an axis. */
void graph_index(graph *g, cudnnDataType_t precision, int64_t axis, descriptor x, descriptor y);
/* c = a b in fp32; m, n, k: lengths read on the device in place of the declared ones, or NULL. */
void graph_matmul(graph *g, descriptor a, descriptor b, descriptor c, descriptor m, descriptor n,
                  descriptor k);
void graph_reduce(graph *g, cudnnReduceTensorOp_t how, descriptor x, descriptor y);
void graph_reshape(graph *g, descriptor x, descriptor y);

/* The first engine of cuDNN's own order that takes the graph.  The descriptors stay g's. */
descriptor graph_plan(graph *g, cudnnHandle_t handle, int64_t *workspace_bytes);
void graph_close(graph *g);

/* What status means, in plimsoll's terms. */
plim_status plim_cudnn_fail(plim_device *d, cudnnStatus_t status, const char *what, const char *why);

#endif
#endif
