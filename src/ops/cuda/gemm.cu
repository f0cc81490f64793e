// gemm.cu - every matrix product, through cuBLASLt.  The algorithm of a shape is chosen once and kept.
#include "ops/cuda/parts.h"

#include <string.h>

#define SLOTS 1024 /* a power of two; distinct shapes of a run are a few dozen */

struct gemm_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t type_a, type_c;
    uint32_t align_a, align_b, align_c;
    bool ta, tb, accumulate;
};

struct gemm_choice {
    bool used;
    gemm_key key;
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

struct plim_gemm_cache {
    gemm_choice slot[SLOTS];
};

plim_status plim_cuda_gemm_open(plim_device *d)
{
    TRY(plim_alloc(d->ctx, 1, sizeof(plim_gemm_cache), "the products' algorithms", &d->gemm_cache));
    cublasStatus_t s = d->lib.cublasLtCreate(&d->blas);
    if (s)
        return plim_fail(d->ctx, PLIM_E_CUDA, "cuBLASLt does not open: %s",
                         d->lib.cublasLtGetStatusString(s));
    return PLIM_OK;
}

void plim_cuda_gemm_close(plim_device *d)
{
    if (d->blas) d->lib.cublasLtDestroy(d->blas);
    plim_release(d->ctx, d->gemm_cache);
}

static plim_status blas_fail(plim_device *d, cublasStatus_t s, const char *what, const gemm_key *k)
{
    return plim_fail(d->ctx, s == CUBLAS_STATUS_NOT_SUPPORTED ? PLIM_E_SHAPE : PLIM_E_CUDA,
                     "gemm: %s: %s (m %lld n %lld k %lld, pitches %lld %lld %lld)", what,
                     d->lib.cublasLtGetStatusString(s), (long long)k->m, (long long)k->n, (long long)k->k,
                     (long long)k->lda, (long long)k->ldb, (long long)k->ldc);
}

static uint32_t alignment(const void *p)
{
    uint32_t a = 256;
    while (a > 1 && (uintptr_t)p % a) a >>= 1;
    return a;
}

static cudaDataType_t type_of(plim_dtype d)
{
    return d == PLIM_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

#define BLAS_TRY(call, what)                                                                                 \
    do {                                                                                                     \
        cublasStatus_t s_ = (call);                                                                          \
        if (s_) return blas_fail(d, s_, (what), key);                                                        \
    } while (0)

/* Row-major c = op(a) op(b) is, read column-major, c^T = op(b)^T op(a)^T: b comes first. */
static plim_status choose(plim_device *d, const gemm_key *key, const plim_gemm_args *g, gemm_choice *out)
{
    gemm_choice c = {};
    cublasLtMatmulPreferenceOpaque_t pref;
    cublasLtMatmulHeuristicResult_t result = {};
    const plim_cuda_libraries *l = &d->lib;
    int found = 0;
    cublasOperation_t opa = key->tb ? CUBLAS_OP_T : CUBLAS_OP_N, opb = key->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    BLAS_TRY(l->cublasLtMatmulDescInit_internal(&c.desc, sizeof c.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "descriptor");
    BLAS_TRY(l->cublasLtMatmulDescSetAttribute(&c.desc, CUBLASLT_MATMUL_DESC_TRANSA, &opa, sizeof opa),
             "transposition");
    BLAS_TRY(l->cublasLtMatmulDescSetAttribute(&c.desc, CUBLASLT_MATMUL_DESC_TRANSB, &opb, sizeof opb),
             "transposition");
    BLAS_TRY(l->cublasLtMatrixLayoutInit_internal(&c.a, sizeof c.a, type_of(g->b.dtype), (uint64_t)g->b.cols,
                                                  (uint64_t)g->b.rows, g->b.pitch),
             "layout");
    BLAS_TRY(l->cublasLtMatrixLayoutInit_internal(&c.b, sizeof c.b, type_of(g->a.dtype), (uint64_t)g->a.cols,
                                                  (uint64_t)g->a.rows, g->a.pitch),
             "layout");
    BLAS_TRY(l->cublasLtMatrixLayoutInit_internal(&c.c, sizeof c.c, type_of(g->c.dtype), (uint64_t)g->c.cols,
                                                  (uint64_t)g->c.rows, g->c.pitch),
             "layout");
    BLAS_TRY(l->cublasLtMatmulPreferenceInit_internal(&pref, sizeof pref), "preference");
    BLAS_TRY(l->cublasLtMatmulPreferenceSetAttribute(&pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                     &d->gemm_workspace_bytes,
                                                     sizeof d->gemm_workspace_bytes),
             "workspace");
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint32_t bytes;
    } alignments[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->align_b},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->align_a},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->align_c},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->align_c}};
    for (const auto &a : alignments)
        BLAS_TRY(l->cublasLtMatmulPreferenceSetAttribute(&pref, a.attribute, &a.bytes, sizeof a.bytes),
                 "alignment");
    BLAS_TRY(l->cublasLtMatmulAlgoGetHeuristic(d->blas, &c.desc, &c.a, &c.b, &c.c, &c.c, &pref, 1, &result,
                                               &found),
             "no algorithm");
    if (!found) return blas_fail(d, CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm", key);
    c.algo = result.algo;
    c.key = *key;
    c.used = true;
    *out = c;
    return PLIM_OK;
}

static size_t slot_of(const gemm_key *k)
{
    const uint64_t parts[] = {(uint64_t)k->m,
                              (uint64_t)k->n,
                              (uint64_t)k->k,
                              (uint64_t)k->lda,
                              (uint64_t)k->ldb,
                              (uint64_t)k->ldc,
                              (uint64_t)k->type_c * 8u + k->ta * 4u + k->tb * 2u + k->accumulate,
                              (uint64_t)k->align_a * 65536u + k->align_b * 512u + k->align_c};
    uint64_t h = 1469598103934665603u;
    for (uint64_t p : parts) h = (h ^ p) * 1099511628211u;
    return (size_t)(h >> 17) & (SLOTS - 1);
}

static bool same(const gemm_key *a, const gemm_key *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->type_a == b->type_a && a->type_c == b->type_c && a->align_a == b->align_a &&
           a->align_b == b->align_b && a->align_c == b->align_c && a->ta == b->ta && a->tb == b->tb &&
           a->accumulate == b->accumulate;
}

static plim_status check(plim_device *d, const plim_gemm_args *g, int64_t *k)
{
    int64_t m = g->transpose_a ? g->a.cols : g->a.rows, n = g->transpose_b ? g->b.rows : g->b.cols;
    int64_t kb = g->transpose_b ? g->b.cols : g->b.rows;
    *k = g->transpose_a ? g->a.rows : g->a.cols;
    bool types = g->a.dtype == g->b.dtype && (g->a.dtype == PLIM_BF16 || g->a.dtype == PLIM_F32) &&
                 (g->c.dtype == PLIM_F32 || g->c.dtype == g->a.dtype);
    if (types && *k == kb && g->c.rows == m && g->c.cols == n) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "gemm: %s [%lld, %lld]%s x %s [%lld, %lld]%s -> %s [%lld, %lld]",
                     plim_dtype_name(g->a.dtype), (long long)g->a.rows, (long long)g->a.cols,
                     g->transpose_a ? "^T" : "", plim_dtype_name(g->b.dtype), (long long)g->b.rows,
                     (long long)g->b.cols, g->transpose_b ? "^T" : "", plim_dtype_name(g->c.dtype),
                     (long long)g->c.rows, (long long)g->c.cols);
}

plim_status plim_cuda_gemm(plim_device *d, const plim_gemm_args *g)
{
    int64_t k = 0;
    TRY(check(d, g, &k));
    if (g->c.rows == 0 || g->c.cols == 0) return PLIM_OK;
    if (k == 0) {
        plim_fill_args zero = {g->c, PLIM_FILL_CONSTANT, 0, 0, 0, 0};
        return g->accumulate ? PLIM_OK : plim_cuda_fill(d, &zero);
    }
    gemm_key key = {g->c.rows,
                    g->c.cols,
                    k,
                    g->a.pitch,
                    g->b.pitch,
                    g->c.pitch,
                    g->a.dtype,
                    g->c.dtype,
                    alignment(g->a.data),
                    alignment(g->b.data),
                    alignment(g->c.data),
                    g->transpose_a,
                    g->transpose_b,
                    g->accumulate};
    gemm_choice *c = &d->gemm_cache->slot[slot_of(&key)];
    if (!c->used || !same(&c->key, &key)) TRY(choose(d, &key, g, c));
    float alpha = (float)g->alpha, beta = g->accumulate ? 1.0f : 0.0f;
    cublasStatus_t s = d->lib.cublasLtMatmul(d->blas, &c->desc, &alpha, g->b.data, &c->a, g->a.data, &c->b,
                                             &beta, g->c.data, &c->c, g->c.data, &c->c, &c->algo,
                                             d->gemm_workspace, d->gemm_workspace_bytes, d->compute);
    return s ? blas_fail(d, s, "launch", &key) : PLIM_OK;
}
