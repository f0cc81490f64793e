// attention_cudnn.cu - attention through cuDNN: which documents go to which plan, and what each call binds.
//
// A document above LONG_TOKENS, or one that is alone and not tiny, gets a plan of its exact length, which is
// 13 to 18 % faster backward; shorter ones run together, packed, in slices that one plan serves whatever
// their lengths are.
#include "ops/cuda/attention_cudnn_plan.h"
#include "ops/cuda/attention_parts.h"

extern "C" {
#include "ops/attention_scratch.h"
}

#ifdef PLIM_HAVE_CUDNN

#include <inttypes.h>

#define LONG_TOKENS  4096
#define ALONE_TOKENS 128
#define LEAST_DIM    64  /* below it nothing is gained */
#define FEW          16  /* documents of the smaller packed plan */
#define MANY         256 /* and of the larger */

/* Packed, cuDNN's backward takes the rows of q from where those of dq are: their pitches must agree. */
bool plim_cudnn_attention_takes(const plim_attention_args *a, bool backward)
{
    const bool alone = a->docs.count == 1 && a->docs.tokens >= ALONE_TOKENS;
    return a->head_dim >= LEAST_DIM && (!backward || alone || a->q.pitch == a->dq.pitch);
}

/* ---- scratch
 * -------------------------------------------------------------------------------------------------------- */

/* Regions of args->scratch, in order; a sticky size. */
struct region {
    char *base;
    size_t used;
};

static void *take(region *r, int64_t bytes)
{
    void *p = r->base + r->used;
    r->used += ((size_t)bytes + 255) / 256 * 256;
    return p;
}

/* A call of one plan: pointers by tensor. */
struct call {
    const plim_attention_args *a; /* views of these rows alone */
    bool backward;
    int64_t rows, heads, kv_heads, dim;
    cudnn_key key;
    cudnn_plan *plan;
    void *pointer[TENSOR_COUNT], *workspace;
};

static const float scalar_one = 1, scalar_hidden = -INFINITY;

static void name_views(call *c)
{
    const plim_attention_args *a = c->a;
    const plim_tensor views[TENSOR_VIEWS] = {a->q, a->k, a->v, a->o, a->dout, a->dq, a->dk, a->dv};
    for (int i = 0; i < (c->backward ? TENSOR_VIEWS : TENSOR_O + 1); i++) {
        c->pointer[i] = views[i].data;
        c->key.pitch[i] = views[i].pitch;
    }
    c->key.backward = c->backward;
    c->key.heads = c->heads = a->heads;
    c->key.kv_heads = c->kv_heads = a->kv_heads;
    c->key.dim = c->dim = a->head_dim;
    c->rows = a->q.rows;
}

/* Scratch of the backward graph that cuDNN does not own. */
static void take_sums(call *c, region *r)
{
    const bool packed = c->key.documents != 0;
    const int64_t group = c->heads / c->kv_heads, n = c->rows;
    c->pointer[TENSOR_ROW_SUM] = take(r, n * c->heads * 4);
    c->pointer[TENSOR_DQ_SUM] = take(r, n * (packed ? c->key.pitch[TENSOR_DQ] : c->heads * c->dim) * 4);
    if (!packed || group == 1) return;
    c->pointer[TENSOR_DK_HEADS] = take(r, n * c->key.pitch[TENSOR_DK] * group * 2);
    c->pointer[TENSOR_DV_HEADS] = take(r, n * c->key.pitch[TENSOR_DV] * group * 2);
}

static plim_status finish_scratch(plim_device *d, call *c, region *r)
{
    const plim_attention_args *a = c->a;
    if (c->backward) take_sums(c, r);
    TRY(plim_cudnn_plan_get(d, &c->key, &c->plan));
    c->workspace = take(r, c->plan->workspace_bytes);
    if (r->used <= a->scratch_bytes) return PLIM_OK;
    plim_attention_scratch_args planned = {
        PLIM_ATTENTION_CUDNN, c->backward, c->rows, c->key.documents ? c->key.documents : 1, c->heads,
        c->kv_heads,          c->dim};
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: cuDNN needs %zu bytes of scratch for %" PRId64 " rows (its own workspace %" PRId64
                     "), %zu are given and %zu are foreseen; attention: own would work",
                     c->backward ? "attention_bwd" : "attention_fwd", r->used, c->rows,
                     c->plan->workspace_bytes, a->scratch_bytes, plim_attention_scratch_bytes(&planned));
}

/* ---- binding
 * -------------------------------------------------------------------------------------------------------- */

static plim_status execute(plim_device *d, const call *c, const float *scale)
{
    const plim_cuda_libraries *l = &d->lib;
    int64_t ids[TENSOR_COUNT], bound = 0;
    void *pointers[TENSOR_COUNT], *workspace = c->workspace;
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (c->pointer[i]) {
            ids[bound] = TENSOR_ID(i);
            pointers[bound++] = c->pointer[i];
        }
    ids[bound] = TENSOR_ID(TENSOR_SCALE);
    pointers[bound++] = (void *)scale;
    ids[bound] = TENSOR_ID(TENSOR_HIDDEN);
    pointers[bound++] = (void *)&scalar_hidden;
    if (c->backward) {
        ids[bound] = TENSOR_ID(TENSOR_ONE);
        pointers[bound++] = (void *)&scalar_one;
    }
    descriptor pack = NULL; /* frozen once finalized, so each call has its own */
    cudnnStatus_t s = l->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!s)
        s = l->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, bound,
                                        ids);
    if (!s)
        s = l->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                        bound, pointers);
    if (!s)
        s = l->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                        &workspace);
    if (!s) s = l->cudnnBackendFinalize(pack);
    if (!s) s = l->cudnnBackendExecute(d->cudnn->handle, c->plan->plan, pack);
    char why[256] = "";
    if (s) l->cudnnGetLastErrorString(why, sizeof why);
    if (pack) l->cudnnBackendDestroyDescriptor(pack);
    return s ? plim_cudnn_fail(d, s, c->backward ? "attention_bwd" : "attention_fwd", why) : PLIM_OK;
}

/* ---- one document
 * --------------------------------------------------------------------------------------------------- */

/* lse as cuDNN wants it, [heads][rows] without slack, is often not how its rows lie in ours. */
static plim_status copy_lse(plim_device *d, void *to, int64_t to_pitch, const void *from, int64_t from_pitch,
                            int64_t heads, int64_t rows)
{
    CUDA_TRY(d,
             cudaMemcpy2DAsync(to, (size_t)to_pitch * 4, from, (size_t)from_pitch * 4, (size_t)rows * 4,
                               (size_t)heads, cudaMemcpyDeviceToDevice, d->compute),
             "moving lse");
    return PLIM_OK;
}

static plim_status run_dense(plim_device *d, const plim_attention_args *a, bool backward)
{
    call c = {};
    region r = {(char *)a->scratch, 0};
    const float scale = (float)a->scale;
    c.a = a;
    c.backward = backward;
    name_views(&c);
    c.key.length = c.rows;
    const bool staged = a->lse.pitch != c.rows || (uintptr_t)a->lse.data % 16 != 0;
    void *lse = staged ? take(&r, c.rows * c.heads * 4) : a->lse.data;
    c.pointer[TENSOR_LSE] = lse;
    TRY(finish_scratch(d, &c, &r));
    if (staged && backward) TRY(copy_lse(d, lse, c.rows, a->lse.data, a->lse.pitch, c.heads, c.rows));
    TRY(execute(d, &c, &scale));
    if (staged && !backward) TRY(copy_lse(d, a->lse.data, a->lse.pitch, lse, c.rows, c.heads, c.rows));
    return PLIM_OK;
}

/* ---- packed documents
 * ----------------------------------------------------------------------------------------------- */

struct pitches {
    int64_t v[TENSOR_VIEWS + 1];
};

/* lengths [places], then TENSOR_VIEWS + 1 tables of places + 1 offsets in elements, stride entries apart.
 * Places past the documents are empty.  i32; launch: one thread a place; a few KiB of traffic. */
static __global__ void cudnn_offsets_kernel(int32_t *out, const int64_t *start, int count, int places,
                                            int stride, pitches p)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i > places) return;
    const int64_t row = start[min(i, count)] - start[0];
    if (i < places) out[i] = i < count ? (int32_t)(start[i + 1] - start[i]) : 0;
    for (int v = 0; v <= TENSOR_VIEWS; v++) out[(v + 1) * stride + i] = (int32_t)(row * p.v[v]);
}

#define SIDE 32

/* to [cols, rows] = from [rows, cols]^T, f32.
 * Launch: grid (row tiles, column tiles), 32 x 8 threads, tiles of 32 x 32 in shared memory.  Moves 8 bytes
 * an element; exact. */
static __global__ void transpose_kernel(float *to, int64_t to_pitch, const float *from, int64_t from_pitch,
                                        int64_t rows, int64_t cols)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int64_t row_0 = (int64_t)blockIdx.x * SIDE, col_0 = (int64_t)blockIdx.y * SIDE;
    for (int i = threadIdx.y; i < SIDE; i += 8)
        if (row_0 + i < rows && col_0 + threadIdx.x < cols)
            tile[i][threadIdx.x] = from[(row_0 + i) * from_pitch + col_0 + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += 8)
        if (col_0 + i < cols && row_0 + threadIdx.x < rows)
            to[(col_0 + i) * to_pitch + row_0 + threadIdx.x] = tile[threadIdx.x][i];
}

static plim_status transpose(plim_device *d, void *to, int64_t to_pitch, const void *from, int64_t from_pitch,
                             int64_t rows, int64_t cols)
{
    const dim3 grid(plim_cuda_blocks(rows, SIDE), plim_cuda_blocks(cols, SIDE)), threads(SIDE, 8);
    PLIM_LAUNCH(transpose_kernel, grid, threads, 0, d->compute)
    ((float *)to, to_pitch, (const float *)from, from_pitch, rows, cols);
    return plim_cuda_launched(d, "moving lse");
}

static plim_status write_offsets(plim_device *d, call *c, region *r, const int64_t *start, int64_t count)
{
    const int places = (int)c->key.documents, stride = (places + 4) / 4 * 4;
    int32_t *tables = (int32_t *)take(r, (int64_t)(TENSOR_VIEWS + 2) * stride * 4);
    pitches p = {};
    for (int i = 0; i < TENSOR_VIEWS; i++) p.v[i] = c->key.pitch[i];
    p.v[TENSOR_LSE] = c->heads;
    PLIM_LAUNCH(cudnn_offsets_kernel, plim_cuda_blocks(places + 1, 256), 256, 0, d->compute)
    (tables, start, (int)count, places, stride, p);
    c->pointer[TENSOR_LENGTHS_Q] = c->pointer[TENSOR_LENGTHS_KV] = tables;
    for (int i = 0; i <= TENSOR_VIEWS; i++)
        if (c->backward || i <= TENSOR_O || i == TENSOR_LSE)
            c->pointer[TENSOR_OFFSETS + i] = tables + (i + 1) * stride;
    return plim_cuda_launched(d, "the documents' offsets");
}

static plim_status run_packed(plim_device *d, const plim_attention_args *a, bool backward)
{
    call c = {};
    region r = {(char *)a->scratch, 0};
    const float scale = (float)a->scale;
    c.a = a;
    c.backward = backward;
    name_views(&c);
    c.key.documents = a->docs.count <= FEW ? FEW : MANY;
    c.key.length = LONG_TOKENS;
    void *lse = take(&r, c.rows * c.heads * 4);
    c.pointer[TENSOR_LSE] = lse;
    take(&r, 0);
    const size_t tables = r.used;
    take(&r, (int64_t)(TENSOR_VIEWS + 2) * (c.key.documents + 4) * 4);
    TRY(finish_scratch(d, &c, &r));
    r.used = tables;
    TRY(write_offsets(d, &c, &r, a->docs.start, a->docs.count));
    if (backward) TRY(transpose(d, lse, c.heads, a->lse.data, a->lse.pitch, c.heads, c.rows));
    TRY(execute(d, &c, &scale));
    if (!backward) TRY(transpose(d, a->lse.data, a->lse.pitch, lse, c.heads, c.rows, c.heads));
    return PLIM_OK;
}

/* ---- documents
 * ------------------------------------------------------------------------------------------------------ */

/* Documents first .. first + count - 1 as a call of their own; start still holds rows of the whole. */
static plim_attention_args some_documents(const plim_attention_args *a, int64_t first, int64_t count,
                                          bool backward)
{
    plim_attention_args s = *a;
    const int64_t row = a->docs.start_host[first], rows = a->docs.start_host[first + count] - row;
    plim_tensor *const views[] = {&s.q, &s.k, &s.v, &s.o, &s.dout, &s.dq, &s.dk, &s.dv};
    for (int i = 0; i < (backward ? TENSOR_VIEWS : TENSOR_O + 1); i++)
        *views[i] = plim_tensor_rows(*views[i], row, rows);
    s.lse = plim_tensor_cols(s.lse, row, rows);
    s.docs.count = count;
    s.docs.tokens = rows;
    s.docs.start = a->docs.start + first;
    s.docs.start_host = a->docs.start_host + first;
    return s;
}

static int64_t length_of(const plim_docs *docs, int64_t n)
{
    return docs->start_host[n + 1] - docs->start_host[n];
}

/* Rows of a slice: its offsets are 32-bit. */
static int64_t most_rows(const plim_attention_args *a)
{
    const int64_t pitch[] = {a->q.pitch,    a->k.pitch,  a->v.pitch,  a->o.pitch,
                             a->dout.pitch, a->dq.pitch, a->dk.pitch, a->dv.pitch};
    int64_t widest = 1;
    for (int64_t p : pitch) widest = p > widest ? p : widest;
    return INT32_MAX / widest;
}

/* Of the documents from first on, how many short ones go into one packed call. */
static int64_t slice(const plim_attention_args *a, int64_t first)
{
    const plim_docs *docs = &a->docs;
    const int64_t rows = most_rows(a);
    int64_t n = first;
    while (n < docs->count && n - first < MANY && length_of(docs, n) <= LONG_TOKENS &&
           (n == first || docs->start_host[n + 1] - docs->start_host[first] <= rows))
        n++;
    return n - first;
}

plim_status plim_cudnn_attention(plim_device *d, const plim_attention_args *a, bool backward)
{
    const plim_docs *docs = &a->docs;
    if (docs->count == 1 && docs->tokens >= ALONE_TOKENS) return run_dense(d, a, backward);
    for (int64_t n = 0; n < docs->count;) {
        const int64_t packed = slice(a, n), count = packed ? packed : 1;
        const plim_attention_args part = some_documents(a, n, count, backward);
        if (!packed) TRY(run_dense(d, &part, backward));
        else if (part.docs.tokens > 0) TRY(run_packed(d, &part, backward));
        n += count;
    }
    return PLIM_OK;
}

#endif
