// attention_cudnn_graph.cu - how an operation graph is described to cuDNN, and how a plan for it is chosen.
#include "ops/cuda/attention_cudnn_graph.h"

#ifdef PLIM_HAVE_CUDNN

#include <stdio.h>
#include <string.h>

#define CANDIDATES 16
#define ALIGNMENT  16 /* bytes; of every bound pointer */

plim_status plim_cudnn_fail(plim_device *d, cudnnStatus_t status, const char *what, const char *why)
{
    const bool unsupported = (int)status >= 3000 && (int)status < 4000;
    return plim_fail(d->ctx, unsupported ? PLIM_E_SHAPE : PLIM_E_CUDA, "cuDNN failed at %s: %s%s%.200s", what,
                     d->lib.cudnnGetErrorString(status), why[0] ? ": " : "", why);
}

static bool step(graph *g, cudnnStatus_t status, const char *where)
{
    if (status == CUDNN_STATUS_SUCCESS) return true;
    g->status = status;
    g->where = where;
    g->lib->cudnnGetLastErrorString(g->why, sizeof g->why);
    g->why[strcspn(g->why, "\n")] = 0;
    return false;
}

static descriptor create(graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor x = NULL;
    if (g->status) return NULL;
    if (g->owned == GRAPH_DESCRIPTORS) {
        step(g, CUDNN_STATUS_INTERNAL_ERROR, "a graph of too many parts");
        return NULL;
    }
    if (step(g, g->lib->cudnnBackendCreateDescriptor(type, &x), "a descriptor")) g->own[g->owned++] = x;
    return x;
}

static void set(graph *g, descriptor x, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *value)
{
    if (!g->status) step(g, g->lib->cudnnBackendSetAttribute(x, name, type, count, value), "an attribute");
}

static void set_part(graph *g, descriptor x, cudnnBackendAttributeName_t name, descriptor part)
{
    if (part) set(g, x, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finish(graph *g, descriptor x, const char *what)
{
    if (!g->status) step(g, g->lib->cudnnBackendFinalize(x), what);
}

static void finish_operation(graph *g, descriptor x, const char *what)
{
    finish(g, x, what);
    if (g->status) return;
    if (g->operations == GRAPH_OPERATIONS)
        step(g, CUDNN_STATUS_INTERNAL_ERROR, "a graph of too many operations");
    else g->operation[g->operations++] = x;
}

descriptor graph_tensor(graph *g, graph_kind kind, int64_t id, cudnnDataType_t type, four dims, four strides,
                        descriptor ragged)
{
    descriptor t = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = ALIGNMENT;
    const bool yes = true;
    if (kind == GRAPH_VIRTUAL) id = g->next_id++;
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.v);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.v);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (kind == GRAPH_VIRTUAL) set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (kind == GRAPH_BY_VALUE) set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    set_part(g, t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, ragged);
    finish(g, t, "a tensor");
    return t;
}

descriptor graph_scalar(graph *g, int64_t id)
{
    const four one = {{1, 1, 1, 1}};
    return graph_tensor(g, GRAPH_BY_VALUE, id, CUDNN_DATA_FLOAT, one, one, NULL);
}

static void pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                      descriptor x, descriptor b, descriptor t, descriptor y)
{
    descriptor how = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, how, "a pointwise step");
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finish_operation(g, o, "a pointwise operation");
}

void graph_pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision, descriptor x,
                     descriptor b, descriptor t, descriptor y)
{
    pointwise(g, mode, precision, 0, x, b, t, y);
}

void graph_index(graph *g, cudnnDataType_t precision, int64_t axis, descriptor x, descriptor y)
{
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, precision, axis, x, NULL, NULL, y);
}

void graph_matmul(graph *g, descriptor a, descriptor b, descriptor c, descriptor m, descriptor n,
                  descriptor k)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    descriptor how = create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    finish(g, how, "a product");
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
    finish_operation(g, o, "a product's operation");
}

void graph_reduce(graph *g, cudnnReduceTensorOp_t how, descriptor x, descriptor y)
{
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    descriptor r = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    set(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finish(g, r, "a reduction");
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finish_operation(g, o, "a reduction's operation");
}

void graph_reshape(graph *g, descriptor x, descriptor y)
{
    descriptor o = create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finish_operation(g, o, "a reshape");
}

/* ---- plans
 * ---------------------------------------------------------------------------------------------------------
 */

/* A plan from one engine configuration, or NULL: refused candidates are no failure of the graph. */
static descriptor try_candidate(graph *g, cudnnHandle_t handle, descriptor candidate)
{
    const plim_cuda_libraries *l = g->lib;
    descriptor plan = NULL;
    if (l->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan)) return NULL;
    if (l->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &candidate) == CUDNN_STATUS_SUCCESS &&
        l->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ==
            CUDNN_STATUS_SUCCESS &&
        l->cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS)
        return plan;
    l->cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

static descriptor try_mode(graph *g, cudnnHandle_t handle, descriptor operations, cudnnBackendHeurMode_t mode)
{
    const plim_cuda_libraries *l = g->lib;
    descriptor choice = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), candidate[CANDIDATES];
    descriptor plan = NULL;
    int64_t found = 0;
    set_part(g, choice, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    set(g, choice, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (g->status || l->cudnnBackendFinalize(choice)) return NULL;
    for (descriptor &c : candidate) c = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status ||
        l->cudnnBackendGetAttribute(choice, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    CANDIDATES, &found, candidate))
        return NULL;
    for (int64_t i = 0; i < found && i < CANDIDATES && !plan; i++)
        plan = try_candidate(g, handle, candidate[i]);
    return plan;
}

descriptor graph_plan(graph *g, cudnnHandle_t handle, int64_t *workspace_bytes)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    descriptor plan = NULL, operations = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    int64_t got = 0;
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operations,
        g->operation);
    set(g, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(g, operations, "the operation graph");
    for (cudnnBackendHeurMode_t mode : modes)
        if (!g->status && !plan) plan = try_mode(g, handle, operations, mode);
    if (g->status) return NULL;
    if (!plan) {
        step(g, CUDNN_STATUS_NOT_SUPPORTED, "choosing an engine");
        return NULL;
    }
    if (step(g,
             g->lib->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, &got, workspace_bytes),
             "a plan's workspace"))
        return plan;
    g->lib->cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

void graph_close(graph *g)
{
    while (g->owned > 0) g->lib->cudnnBackendDestroyDescriptor(g->own[--g->owned]);
}

#endif
