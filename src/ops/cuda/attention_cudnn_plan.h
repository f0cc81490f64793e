/* attention_cudnn_plan.h - a built cuDNN plan of one attention shape, and the cache of them. */
#ifndef PLIM_OPS_CUDA_ATTENTION_CUDNN_PLAN_H
#define PLIM_OPS_CUDA_ATTENTION_CUDNN_PLAN_H

#include "ops/cuda/attention_cudnn_graph.h"

#ifdef PLIM_HAVE_CUDNN

/* The tensors of a call; each of the first eight has its own pitch and,
 * packed, its own offsets. */
enum cudnn_tensor {
    TENSOR_Q,
    TENSOR_K,
    TENSOR_V,
    TENSOR_O,
    TENSOR_DOUT,
    TENSOR_DQ,
    TENSOR_DK,
    TENSOR_DV,
    TENSOR_VIEWS,
    TENSOR_LSE = TENSOR_VIEWS,
    TENSOR_SCALE,
    TENSOR_HIDDEN, /* the score of a hidden key */
    TENSOR_ONE,
    TENSOR_LENGTHS_Q,
    TENSOR_LENGTHS_KV,
    TENSOR_ROW_SUM, /* scratch from here on */
    TENSOR_DQ_SUM,
    TENSOR_DK_HEADS,
    TENSOR_DV_HEADS,
    TENSOR_OFFSETS, /* of view i, and of LSE, at TENSOR_OFFSETS + i */
    TENSOR_COUNT = TENSOR_OFFSETS + TENSOR_VIEWS + 1
};

/* cuDNN's name for a tensor; 0 is none. */
#define TENSOR_ID(tensor) ((int64_t)(tensor) + 1)

/* What fixes a plan.  Integers alone, so that keys compare byte by byte.
 * documents 0: one document of exactly length rows; lse [heads][length].
 * documents n: up to n documents of up to length rows, laid end to end; lse [row][head]. */
struct cudnn_key {
    int64_t backward, documents, length, heads, kv_heads, dim;
    int64_t pitch[TENSOR_VIEWS];
};

struct cudnn_plan {
    cudnn_key key;
    graph parts;
    descriptor plan; /* NULL: this slot is free */
    int64_t workspace_bytes;
    uint64_t used; /* the cache's clock at the last use */
};

#define CUDNN_PLANS 16

struct plim_cudnn_plans {
    cudnnHandle_t handle;
    uint64_t clock;
    cudnn_plan slot[CUDNN_PLANS];
};

/* The plan of a key, built when it is not there; the one unused for longest makes room.  Valid until the next
 * call.  The first of a kind takes about a second, later ones 35 to 80 ms. */
plim_status plim_cudnn_plan_get(plim_device *d, const cudnn_key *key, cudnn_plan **out);

/* The two graphs, described in g. */
void plim_cudnn_describe_fwd(graph *g, const cudnn_key *k);
void plim_cudnn_describe_bwd(graph *g, const cudnn_key *k);

#endif
#endif
