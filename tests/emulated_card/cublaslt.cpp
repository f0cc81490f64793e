// cublaslt.cpp - cuBLASLt's matrix products, by OpenBLAS in float32 with one rounding at the end.
#include "cublasLt.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "runtime.h"

using namespace emulated;

namespace {

float bf16_value(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

uint16_t bf16_bits(float x)
{
    const uint32_t u = __float_as_uint(x);
    return x != x ? 0x7fff : (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

std::vector<float> read(const cublasLtMatrixLayoutOpaque_t &l, const void *p)
{
    std::vector<float> out(l.rows * l.cols);
    for (uint64_t j = 0; j < l.cols; j++)
        for (uint64_t i = 0; i < l.rows; i++) {
            const uint64_t at = j * (uint64_t)l.pitch + i;
            out[j * l.rows + i] =
                l.type == CUDA_R_16BF ? bf16_value(((const uint16_t *)p)[at]) : ((const float *)p)[at];
        }
    return out;
}

void write(const cublasLtMatrixLayoutOpaque_t &l, void *p, const std::vector<float> &x)
{
    for (uint64_t j = 0; j < l.cols; j++)
        for (uint64_t i = 0; i < l.rows; i++) {
            const uint64_t at = j * (uint64_t)l.pitch + i;
            if (l.type == CUDA_R_16BF) ((uint16_t *)p)[at] = bf16_bits(x[j * l.rows + i]);
            else ((float *)p)[at] = x[j * l.rows + i];
        }
}

struct product {
    cublasLtMatmulDescOpaque_t how;
    cublasLtMatrixLayoutOpaque_t la, lb, lc;
    const void *a, *b;
    void *c;
    float alpha, beta;
    void *workspace;
    size_t workspace_bytes;

    uint64_t depth() const
    {
        return how.transpose_a ? la.rows : la.cols;
    }

    void run() const
    {
        memory_open open;
        const std::vector<float> x = read(la, a), y = read(lb, b);
        std::vector<float> z(lc.rows * lc.cols);
        if (beta != 0) z = read(lc, c);
        /* Nobody else may keep anything here. */
        if (workspace) memset(workspace, 0xff, workspace_bytes < 65536 ? workspace_bytes : 65536);
        cblas_sgemm(CblasColMajor, how.transpose_a ? CblasTrans : CblasNoTrans,
                    how.transpose_b ? CblasTrans : CblasNoTrans, (int)lc.rows, (int)lc.cols, (int)depth(),
                    alpha, x.data(), (int)la.rows, y.data(), (int)lb.rows, beta, z.data(), (int)lc.rows);
        write(lc, c, z);
    }
};

bool aligned(const void *p, uint32_t bytes)
{
    return (uintptr_t)p % (bytes ? bytes : 1) == 0;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = (cublasLtHandle_t)malloc(1);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_SUCCESS         ? "success"
           : s == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                              : "invalid value";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t, cublasComputeType_t,
                                               cudaDataType_t)
{
    *d = {CUBLAS_OP_N, CUBLAS_OP_N};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    cublasOperation_t *to =
        what == CUBLASLT_MATMUL_DESC_TRANSA ? &d->transpose_a : &d->transpose_b;
    if (bytes != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t, cudaDataType_t type,
                                                 uint64_t rows, uint64_t cols, int64_t pitch)
{
    if (pitch < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    *l = {type, rows, cols, pitch};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t)
{
    *p = {0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes)
{
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        if (bytes != sizeof p->workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(&p->workspace_bytes, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (bytes != sizeof p->alignment[0]) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p->alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t p, int,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    *found = 0;
    if (a->type != b->type || (c->type != a->type && c->type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasLtMatmulAlgo_t algo = {{}, p->workspace_bytes};
    memcpy(algo.alignment, p->alignment, sizeof algo.alignment);
    results->algo = algo;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *out,
                              cublasLtMatrixLayout_t lout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t s)
{
    const product p = {*d, *la,  *lb, *lc, a, b, out, *(const float *)alpha, *(const float *)beta,
                       workspace, workspace_bytes};
    const uint64_t rows = d->transpose_a ? la->cols : la->rows, cols = d->transpose_b ? lb->rows : lb->cols,
                   depth = d->transpose_b ? lb->cols : lb->rows;
    const bool fits = rows == lc->rows && cols == lc->cols && depth == p.depth() && c == out && lc == lout;
    if (!fits || workspace_bytes < algo->workspace_bytes || !aligned(a, algo->alignment[0]) ||
        !aligned(b, algo->alignment[1]) || !aligned(c, algo->alignment[2]))
        return CUBLAS_STATUS_INVALID_VALUE;
    enqueue(s, [p] { p.run(); });
    return CUBLAS_STATUS_SUCCESS;
}
