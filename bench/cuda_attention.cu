// cuda_attention - attention on one card: both engines, forward and backward, and how far they are apart.
//   cuda_attention [TOKENS...]     4096 16384 65536 when none are given
// Heads of 256: 24 over 4 in one call, and 6 over 1 (one call of four); one document, random data.  Work
// counted as 4 T^2/2 H D forward, 2.5 times that backward.  Median of some calls by CUDA events, after two.
#include "ops/cuda/device.h"

extern "C" {
#include "ops/attention_scratch.h"
#include "ops/cuda_plugin.h"
}

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>
#include <algorithm>

#define DIM 256

static void need(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "cuda_attention: %s\n", what);
    exit(1);
}

/* Near-normal, unit variance: the sum of four uniform numbers of a hash of the index. */
static __global__ void random_kernel(bf16 *x, int64_t n, uint64_t seed)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u + 1;
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        h ^= h >> 31;
        h *= 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
        sum += (float)(h >> 40) / 16777216.0f - 0.5f;
    }
    x[i] = __float2bfloat16_rn(sum * 1.7320508f);
}

/* delta = <dout, o>; one warp a row and head. */
static __global__ void delta_kernel(float *delta, const bf16 *dout, const bf16 *o, int64_t rows,
                                    int64_t heads)
{
    const int64_t row = blockIdx.x, head = blockIdx.y;
    float sum = 0;
    for (int i = threadIdx.x; i < DIM; i += 32) {
        const int64_t at = (row * heads + head) * DIM + i;
        sum += to_float(dout[at]) * to_float(o[at]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) delta[head * rows + row] = sum;
}

struct buffers {
    int64_t rows, heads, kv_heads;
    bf16 *q, *k, *v, *dout, *o, *dq, *dk, *dv;
    float *lse, *delta;
    int64_t *start, start_host[2];
    void *scratch;
    size_t scratch_bytes;
};

template <typename T> static T *block(size_t n)
{
    void *p = NULL;
    need(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess, "out of device memory");
    return (T *)p;
}

static bf16 *random_block(int64_t n, uint64_t seed)
{
    bf16 *x = block<bf16>((size_t)n);
    random_kernel<<<(unsigned)((n + 255) / 256), 256>>>(x, n, seed);
    return x;
}

static buffers open_buffers(int64_t rows, int64_t heads, int64_t kv_heads)
{
    buffers b = {rows, heads, kv_heads};
    const int64_t n = rows * heads * DIM, kv = rows * kv_heads * DIM;
    b.q = random_block(n, 1);
    b.k = random_block(kv, 2);
    b.v = random_block(kv, 3);
    b.dout = random_block(n, 4);
    b.o = block<bf16>((size_t)n);
    b.dq = block<bf16>((size_t)n);
    b.dk = block<bf16>((size_t)kv);
    b.dv = block<bf16>((size_t)kv);
    b.lse = block<float>((size_t)(rows * heads));
    b.delta = block<float>((size_t)(rows * heads));
    b.start = block<int64_t>(2);
    b.start_host[1] = rows;
    cudaMemcpy(b.start, b.start_host, sizeof b.start_host, cudaMemcpyHostToDevice);
    plim_attention_scratch_args s = {PLIM_ATTENTION_CUDNN, true, rows, 1, heads, kv_heads, DIM};
    b.scratch_bytes = plim_attention_scratch_bytes(&s);
    b.scratch = block<char>(b.scratch_bytes);
    need(cudaDeviceSynchronize() == cudaSuccess, "filling failed");
    return b;
}

static void close_buffers(buffers *b)
{
    void *const all[] = {b->q,  b->k,  b->v,   b->dout,  b->o,     b->dq,
                         b->dk, b->dv, b->lse, b->delta, b->start, b->scratch};
    for (void *p : all) cudaFree(p);
}

static plim_attention_args arguments(const buffers *b)
{
    const int64_t cols = b->heads * DIM, kv = b->kv_heads * DIM, T = b->rows;
    plim_attention_args a = {};
    a.q = {b->q, PLIM_BF16, T, cols, cols};
    a.k = {b->k, PLIM_BF16, T, kv, kv};
    a.v = {b->v, PLIM_BF16, T, kv, kv};
    a.o = {b->o, PLIM_BF16, T, cols, cols};
    a.lse = {b->lse, PLIM_F32, b->heads, T, T};
    a.dout = {b->dout, PLIM_BF16, T, cols, cols};
    a.delta = {b->delta, PLIM_F32, b->heads, T, T};
    a.dq = {b->dq, PLIM_BF16, T, cols, cols};
    a.dk = {b->dk, PLIM_BF16, T, kv, kv};
    a.dv = {b->dv, PLIM_BF16, T, kv, kv};
    a.heads = b->heads;
    a.kv_heads = b->kv_heads;
    a.head_dim = DIM;
    a.scale = 1 / sqrt((double)DIM);
    a.docs = {1, T, T, b->start, b->start_host};
    a.scratch = b->scratch;
    a.scratch_bytes = b->scratch_bytes;
    return a;
}

typedef plim_status slot(plim_device *d, const plim_attention_args *a);

static double median_ms(plim_ctx *c, plim_device *d, slot *run, const plim_attention_args *a, int repeats)
{
    cudaEvent_t from, to;
    std::vector<float> ms;
    need(!cudaEventCreate(&from) && !cudaEventCreate(&to), "no events");
    for (int i = -2; i < repeats; i++) {
        float one = 0;
        cudaEventRecord(from, d->compute);
        if (run(d, a)) need(false, plim_ctx_message(c));
        cudaEventRecord(to, d->compute);
        need(cudaEventSynchronize(to) == cudaSuccess, cudaGetErrorString(cudaGetLastError()));
        cudaEventElapsedTime(&one, from, to);
        if (i >= 0) ms.push_back(one);
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
}

static std::vector<float> fetch(const bf16 *x, int64_t n)
{
    std::vector<uint16_t> raw((size_t)n);
    std::vector<float> out((size_t)n);
    cudaMemcpy(raw.data(), x, (size_t)n * 2, cudaMemcpyDeviceToHost);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)raw[(size_t)i] << 16;
        memcpy(&out[(size_t)i], &bits, 4);
    }
    return out;
}

static double apart(const std::vector<float> &x, const std::vector<float> &y)
{
    double square = 0, norm = 0;
    for (size_t i = 0; i < x.size(); i++) {
        square += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        norm += (double)y[i] * y[i];
    }
    return sqrt(square / norm);
}

/* Both passes of one engine over fresh NaN. */
static std::vector<std::vector<float>> results(plim_ctx *c, const plim_machine *m, const buffers *b)
{
    const int64_t n = b->rows * b->heads * DIM, kv = b->rows * b->kv_heads * DIM;
    const plim_attention_args a = arguments(b);
    cudaMemset(b->o, 0xff, (size_t)n * 2);
    cudaMemset(b->dq, 0xff, (size_t)n * 2);
    cudaMemset(b->dk, 0xff, (size_t)kv * 2);
    cudaMemset(b->dv, 0xff, (size_t)kv * 2);
    cudaDeviceSynchronize();
    if (m->ops->attention_fwd(m->device, &a)) need(false, plim_ctx_message(c));
    cudaDeviceSynchronize();
    delta_kernel<<<dim3((unsigned)b->rows, (unsigned)b->heads), 32>>>(b->delta, b->dout, b->o, b->rows,
                                                                      b->heads);
    cudaDeviceSynchronize();
    if (m->ops->attention_bwd(m->device, &a)) need(false, plim_ctx_message(c));
    need(cudaDeviceSynchronize() == cudaSuccess, "a kernel failed");
    return {fetch(b->o, n), fetch(b->dq, n), fetch(b->dk, kv), fetch(b->dv, kv)};
}

int main(int argc, char **argv)
{
    static const int64_t heads[][2] = {{6, 1}, {24, 4}};
    std::vector<int64_t> rows = {4096, 16384, 65536};
    if (argc > 1) rows.clear();
    for (int i = 1; i < argc; i++) rows.push_back(atoll(argv[i]));
    for (int64_t T : rows) need(T > 0, "lengths are positive numbers");
    plim_ctx *c = NULL;
    plim_cuda_plugin plugin = {};
    plim_machine m[2] = {};
    const plim_attention_kernel engine[] = {PLIM_ATTENTION_OWN, PLIM_ATTENTION_CUDNN};
    static const char *const name[] = {"own", "cudnn"};
    need(plim_ctx_open(NULL, &c) == PLIM_OK, "no context");
    need(plim_cuda_plugin_open(c, &plugin) == PLIM_OK, plim_ctx_message(c));
    for (int e = 0; e < 2; e++) {
        plim_cuda_options o = {};
        o.attention = engine[e];
        o.allow_missing = true;
        if (plugin.machine(c, &o, &m[e])) need(false, plim_ctx_message(c));
        printf("%s: %s\n", name[e], m[e].device->attention_why);
    }
    const int64_t compared = std::min<int64_t>(rows[0] * 2, 8192);
    buffers b = open_buffers(compared, 6, 1);
    const std::vector<std::vector<float>> x = results(c, &m[0], &b), y = results(c, &m[1], &b);
    static const char *const output[] = {"o", "dq", "dk", "dv"};
    printf("%lld tokens, 6/1 heads: own from cudnn, relative:", (long long)compared);
    for (int i = 0; i < 4; i++) printf(" %s %.2e", output[i], apart(x[(size_t)i], y[(size_t)i]));
    printf("\n");
    close_buffers(&b);
    for (int64_t T : rows)
        for (const int64_t *h : heads) {
            b = open_buffers(T, h[0], h[1]);
            const plim_attention_args a = arguments(&b);
            const double flop = 2.0 * (double)T * (double)T * (double)h[0] * DIM;
            for (int e = 0; e < 2; e++) {
                const int repeats = T > 16384 ? 3 : 7;
                const double fwd = median_ms(c, m[e].device, m[e].ops->attention_fwd, &a, repeats);
                const double bwd = median_ms(c, m[e].device, m[e].ops->attention_bwd, &a, repeats);
                printf(
                    "%-5s T %6lld heads %2lld/%lld  fwd %8.3f ms %6.1f TFLOP/s  bwd %8.3f ms %6.1f TFLOP/s\n",
                    name[e], (long long)T, (long long)h[0], (long long)h[1], fwd, flop / fwd * 1e-9, bwd,
                    2.5 * flop / bwd * 1e-9);
                fflush(stdout);
            }
            close_buffers(&b);
        }
    for (plim_machine &one : m) plim_machine_close(&one);
    plim_cuda_plugin_close(&plugin);
    plim_ctx_close(c);
    return 0;
}
