// attention_cudnn_sdpa.cu - causal attention as the operation graphs cuDNN's fused kernels recognise.
//
// cuDNN matches patterns: which steps there are and in what order is the contract, not only what they
// compute. Dimensions are (documents, heads, rows, head size) over our [row][head][dim] memory.
#include "ops/cuda/attention_cudnn_plan.h"

#ifdef PLIM_HAVE_CUDNN

#define FIRST_VIRTUAL 100

static const cudnnDataType_t F32 = CUDNN_DATA_FLOAT, BF16 = CUDNN_DATA_BFLOAT16, I32 = CUDNN_DATA_INT32,
                             BOOLEAN = CUDNN_DATA_BOOLEAN;

/* A key with what both graphs derive from it; offsets and lengths are NULL for one document. */
struct shape {
    const cudnn_key *k;
    int64_t batch;
    four score_dims, score_strides, row_dims, row_strides;
    descriptor lengths_q, lengths_kv, offsets[TENSOR_VIEWS + 1], hidden;
};

static four swap_last(four x)
{
    return {{x.v[0], x.v[1], x.v[3], x.v[2]}};
}

static four view_dims(const shape *s, int tensor)
{
    const bool kv = tensor == TENSOR_K || tensor == TENSOR_V || tensor == TENSOR_DK || tensor == TENSOR_DV;
    return {{s->batch, kv ? s->k->kv_heads : s->k->heads, s->k->length, s->k->dim}};
}

static four view_strides(const shape *s, int tensor, int64_t times)
{
    const int64_t pitch = s->k->pitch[tensor] * times;
    return {{s->k->length * pitch, s->k->dim, pitch, 1}};
}

/* [heads][rows][dim] of one document's intermediates. */
static four inner_strides(const shape *s)
{
    const int64_t plane = s->k->length * s->k->dim;
    return {{s->k->heads * plane, plane, s->k->dim, 1}};
}

static descriptor view(graph *g, const shape *s, int tensor, cudnnDataType_t type)
{
    return graph_tensor(g, GRAPH_REAL, TENSOR_ID(tensor), type, view_dims(s, tensor),
                        view_strides(s, tensor, 1), s->offsets[tensor]);
}

/* The same memory with its last two dimensions exchanged. */
static descriptor view_t(graph *g, const shape *s, int tensor)
{
    return graph_tensor(g, GRAPH_REAL, TENSOR_ID(tensor), BF16, swap_last(view_dims(s, tensor)),
                        swap_last(view_strides(s, tensor, 1)), s->offsets[tensor]);
}

static descriptor score(graph *g, const shape *s, cudnnDataType_t type)
{
    return graph_tensor(g, GRAPH_VIRTUAL, 0, type, s->score_dims, s->score_strides, NULL);
}

static descriptor score_t(graph *g, const shape *s)
{
    return graph_tensor(g, GRAPH_VIRTUAL, 0, BF16, s->score_dims, swap_last(s->score_strides), NULL);
}

static descriptor row(graph *g, const shape *s)
{
    return graph_tensor(g, GRAPH_VIRTUAL, 0, F32, s->row_dims, s->row_strides, NULL);
}

/* lse and the row sums: [head][row] of one document, [row][head] of several. */
static descriptor statistic(graph *g, const shape *s, int id)
{
    const int64_t n = s->k->length, h = s->k->heads;
    const four packed = {{n * h, 1, h, 1}};
    return graph_tensor(g, GRAPH_REAL, TENSOR_ID(id), F32, s->row_dims,
                        s->k->documents ? packed : s->row_strides, s->offsets[TENSOR_LSE]);
}

static shape describe(graph *g, const cudnn_key *k)
{
    shape s = {};
    const int64_t n = k->length, h = k->heads;
    const four one = {{1, 1, 1, 1}};
    g->next_id = FIRST_VIRTUAL;
    s.k = k;
    s.batch = k->documents ? k->documents : 1;
    s.score_dims = {{s.batch, h, n, n}};
    s.score_strides = {{h * n * n, n * n, n, 1}};
    s.row_dims = {{s.batch, h, n, 1}};
    s.row_strides = {{h * n, n, 1, 1}};
    s.hidden = graph_scalar(g, TENSOR_ID(TENSOR_HIDDEN));
    if (!k->documents) return s;
    const four lengths = {{s.batch, 1, 1, 1}}, offsets = {{s.batch + 1, 1, 1, 1}};
    s.lengths_q = graph_tensor(g, GRAPH_REAL, TENSOR_ID(TENSOR_LENGTHS_Q), I32, lengths, one, NULL);
    s.lengths_kv = graph_tensor(g, GRAPH_REAL, TENSOR_ID(TENSOR_LENGTHS_KV), I32, lengths, one, NULL);
    for (int i = 0; i <= TENSOR_VIEWS; i++)
        if (k->backward || i <= TENSOR_O || i == TENSOR_LSE)
            s.offsets[i] =
                graph_tensor(g, GRAPH_REAL, TENSOR_ID(TENSOR_OFFSETS + i), I32, offsets, one, NULL);
    return s;
}

/* Rows and keys past a document's length are hidden: packed graphs alone. */
static descriptor hide_padding(graph *g, const shape *s, descriptor x)
{
    descriptor r = score(g, s, I32), c = score(g, s, I32), row_in = score(g, s, BOOLEAN),
               key_in = score(g, s, BOOLEAN), both = score(g, s, BOOLEAN), y = score(g, s, F32);
    graph_index(g, I32, 2, x, r);
    graph_index(g, I32, 3, x, c);
    graph_pointwise(g, CUDNN_POINTWISE_CMP_LT, BOOLEAN, r, s->lengths_q, NULL, row_in);
    graph_pointwise(g, CUDNN_POINTWISE_CMP_LT, BOOLEAN, c, s->lengths_kv, NULL, key_in);
    graph_pointwise(g, CUDNN_POINTWISE_LOGICAL_AND, BOOLEAN, row_in, key_in, NULL, both);
    graph_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, F32, x, s->hidden, both, y);
    return y;
}

static descriptor hide_later(graph *g, const shape *s, descriptor x)
{
    descriptor r = score(g, s, I32), c = score(g, s, I32), seen = score(g, s, BOOLEAN), y = score(g, s, F32);
    graph_index(g, F32, 2, x, r);
    graph_index(g, F32, 3, x, c);
    graph_pointwise(g, CUDNN_POINTWISE_CMP_GE, BOOLEAN, r, c, NULL, seen);
    graph_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, F32, x, s->hidden, seen, y);
    return y;
}

/* y = mode(x, b), fp32 scores. */
static descriptor apply(graph *g, const shape *s, cudnnPointwiseMode_t mode, descriptor x, descriptor b)
{
    descriptor y = score(g, s, F32);
    graph_pointwise(g, mode, F32, x, b, NULL, y);
    return y;
}

/* scale q k^T, padding hidden. */
static descriptor scores(graph *g, const shape *s, descriptor q, descriptor k_t, descriptor scale)
{
    descriptor x = score(g, s, F32);
    graph_matmul(g, q, k_t, x, s->lengths_q, s->lengths_kv, NULL);
    x = apply(g, s, CUDNN_POINTWISE_MUL, x, scale);
    return s->k->documents ? hide_padding(g, s, x) : x;
}

void plim_cudnn_describe_fwd(graph *g, const cudnn_key *k)
{
    const shape shape_of = describe(g, k), *s = &shape_of;
    descriptor q = view(g, s, TENSOR_Q, BF16), k_t = view_t(g, s, TENSOR_K), v = view(g, s, TENSOR_V, BF16),
               o = view(g, s, TENSOR_O, BF16), lse = statistic(g, s, TENSOR_LSE),
               scale = graph_scalar(g, TENSOR_ID(TENSOR_SCALE));
    descriptor x = hide_later(g, s, scores(g, s, q, k_t, scale));
    descriptor most = row(g, s), sum = row(g, s), log_sum = row(g, s), p = score(g, s, BF16);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, most);
    x = apply(g, s, CUDNN_POINTWISE_EXP, apply(g, s, CUDNN_POINTWISE_SUB, x, most), NULL);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, sum);
    graph_pointwise(g, CUDNN_POINTWISE_LOG, F32, sum, NULL, NULL, log_sum);
    graph_pointwise(g, CUDNN_POINTWISE_ADD, F32, most, log_sum, NULL, lse);
    graph_pointwise(g, CUDNN_POINTWISE_DIV, F32, x, sum, NULL, p);
    graph_matmul(g, p, v, o, s->lengths_q, NULL, s->lengths_kv);
}

/* out [keys, dim] = x^T y, summed over the query heads of a group.  The per-head sums of packed documents are
 * real memory in out's own layout, one group wider, because a virtual one would be documents x length
 * rows. */
static void sum_by_key(graph *g, const shape *s, descriptor x, descriptor y, int out_id, int heads_id)
{
    const int64_t group = s->k->heads / s->k->kv_heads;
    descriptor out = view(g, s, out_id, BF16), x_t = score_t(g, s), per_head = out;
    graph_reshape(g, x, x_t);
    if (group > 1) {
        const bool packed = s->k->documents != 0;
        per_head = graph_tensor(
            g, packed ? GRAPH_REAL : GRAPH_VIRTUAL, TENSOR_ID(heads_id), BF16, view_dims(s, TENSOR_Q),
            packed ? view_strides(s, out_id, group) : inner_strides(s), s->offsets[out_id]);
    }
    graph_matmul(g, x_t, y, per_head, s->lengths_kv, NULL, s->lengths_q);
    if (group > 1) graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, per_head, out);
}

void plim_cudnn_describe_bwd(graph *g, const cudnn_key *k)
{
    const shape shape_of = describe(g, k), *s = &shape_of;
    descriptor q = view(g, s, TENSOR_Q, BF16), k_t = view_t(g, s, TENSOR_K), v_t = view_t(g, s, TENSOR_V),
               o = view(g, s, TENSOR_O, BF16), dout = view(g, s, TENSOR_DOUT, BF16),
               lse = statistic(g, s, TENSOR_LSE), dq = view(g, s, TENSOR_DQ, BF16);
    descriptor scale = graph_scalar(g, TENSOR_ID(TENSOR_SCALE)), one = graph_scalar(g, TENSOR_ID(TENSOR_ONE));

    descriptor product =
        graph_tensor(g, GRAPH_VIRTUAL, 0, F32, view_dims(s, TENSOR_Q), inner_strides(s), NULL);
    descriptor sum = row(g, s), row_sum = statistic(g, s, TENSOR_ROW_SUM);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, F32, dout, o, NULL, product);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, F32, sum, one, NULL, row_sum);

    descriptor p = apply(g, s, CUDNN_POINTWISE_SUB, scores(g, s, q, k_t, scale), lse);
    p = apply(g, s, CUDNN_POINTWISE_EXP, hide_later(g, s, p), NULL);
    sum_by_key(g, s, p, dout, TENSOR_DV, TENSOR_DV_HEADS);

    descriptor ds = score(g, s, F32);
    graph_matmul(g, dout, v_t, ds, s->lengths_q, s->lengths_kv, NULL);
    ds = apply(g, s, CUDNN_POINTWISE_SUB, ds, row_sum);
    ds = apply(g, s, CUDNN_POINTWISE_MUL, ds, p);
    ds = apply(g, s, CUDNN_POINTWISE_MUL, ds, scale);
    sum_by_key(g, s, ds, q, TENSOR_DK, TENSOR_DK_HEADS);

    descriptor k_again = graph_tensor(g, GRAPH_VIRTUAL, 0, BF16, view_dims(s, TENSOR_K),
                                      view_strides(s, TENSOR_K, 1), s->offsets[TENSOR_K]);
    descriptor dq_sum =
        graph_tensor(g, GRAPH_REAL, TENSOR_ID(TENSOR_DQ_SUM), F32, view_dims(s, TENSOR_DQ),
                     k->documents ? view_strides(s, TENSOR_DQ, 1) : inner_strides(s), s->offsets[TENSOR_DQ]);
    graph_reshape(g, k_t, k_again);
    graph_matmul(g, ds, k_again, dq_sum, s->lengths_q, NULL, s->lengths_kv);
    graph_pointwise(g, CUDNN_POINTWISE_IDENTITY, F32, dq_sum, NULL, NULL, dq);
}

#endif
