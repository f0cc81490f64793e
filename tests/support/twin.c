/* twin.c - tensors on both sides and their comparison. */
#include "support/twin.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "base/random.h"

#define GUARD_BYTES 512
#define GUARD       0xA5

static int open_with(void **state, plim_attention_kernel attention)
{
    twin *t = calloc(1, sizeof *t);
    if (!t) return -1;
    *state = t;
    t->ctx = test_ctx_open();
    if (plim_machine_cpu(t->ctx, 0, &t->cpu)) return -1;
    plim_cuda_options o = {.attention = attention};
    if (plim_cuda_plugin_open(t->ctx, &t->plugin) == PLIM_OK &&
        t->plugin.machine(t->ctx, &o, &t->gpu) == PLIM_OK)
        t->have_gpu = true;
    else print_message("twin tests are skipped: %s\n", plim_ctx_message(t->ctx));
    plim_ctx_clear(t->ctx);
    return 0;
}

int twin_open(void **state)
{
    return open_with(state, PLIM_ATTENTION_CUDNN);
}

int twin_open_own(void **state)
{
    return open_with(state, PLIM_ATTENTION_OWN);
}

int twin_close(void **state)
{
    twin *t = *state;
    plim_machine_close(&t->gpu);
    plim_machine_close(&t->cpu);
    plim_cuda_plugin_close(&t->plugin);
    test_ctx_close(t->ctx);
    free(t);
    return 0;
}

int64_t twin_most_tokens(void)
{
    const char *text = getenv("PLIM_TWIN_MOST_TOKENS");
    return text && *text ? strtoll(text, NULL, 10) : INT64_MAX;
}

static twin_tensor make(twin *t, plim_dtype d, int64_t rows, int64_t cols, int64_t slack)
{
    size_t width = plim_dtype_bytes(d);
    int64_t unit = 16 / (int64_t)width, pitch = (cols + slack + unit - 1) / unit * unit;
    twin_tensor x = {.bytes = (size_t)(rows * pitch) * width + 2 * GUARD_BYTES};
    x.host_block = malloc(x.bytes);
    if (!x.host_block) abort();
    memset(x.host_block, GUARD, x.bytes);
    CHECK_OK(t->ctx, t->gpu.alloc_device(t->gpu.device, x.bytes, &x.dev_block));
    x.host = (plim_tensor){(char *)x.host_block + GUARD_BYTES, d, rows, cols, pitch};
    x.dev = x.host;
    x.dev.data = (char *)x.dev_block + GUARD_BYTES;
    return x;
}

void twin_push(twin *t, twin_tensor *x)
{
    CHECK_OK(t->ctx, t->gpu.ops->write(t->gpu.device, x->host_block, x->dev_block, x->bytes));
    char sync;
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x->dev_block, &sync, 1));
}

static void put(plim_tensor x, int64_t i, int64_t j, double v)
{
    int64_t at = i * x.pitch + j;
    if (x.dtype == PLIM_BF16) ((uint16_t *)x.data)[at] = plim_bf16_round((float)v);
    else if (x.dtype == PLIM_F64) ((double *)x.data)[at] = v;
    else ((float *)x.data)[at] = (float)v;
}

static double get(plim_tensor x, int64_t i, int64_t j)
{
    int64_t at = i * x.pitch + j;
    if (x.dtype == PLIM_BF16) return (double)plim_bf16_load(((const uint16_t *)x.data)[at]);
    return x.dtype == PLIM_F64 ? ((const double *)x.data)[at] : (double)((const float *)x.data)[at];
}

twin_tensor twin_random(twin *t, plim_dtype d, int64_t rows, int64_t cols, int64_t slack, double sigma)
{
    static uint64_t stream; /* a new sequence for every tensor of a test program */
    twin_tensor x = make(t, d, rows, cols, slack);
    plim_random r = {20261201, stream++};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            put(x.host, i, j,
                (double)plim_random_normal(r, (uint64_t)(i * cols + j), (float)sigma,
                                           plim_normal_segments()));
    twin_push(t, &x);
    return x;
}

twin_tensor twin_output(twin *t, plim_dtype d, int64_t rows, int64_t cols, int64_t slack)
{
    twin_tensor x = make(t, d, rows, cols, slack);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) put(x.host, i, j, (double)NAN);
    twin_push(t, &x);
    return x;
}

twin_tensor twin_from(twin *t, plim_dtype d, int64_t rows, int64_t cols, const double *values)
{
    twin_tensor x = make(t, d, rows, cols, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) put(x.host, i, j, values[i * cols + j]);
    twin_push(t, &x);
    return x;
}

void twin_free(twin *t, twin_tensor *x)
{
    t->gpu.free_device(t->gpu.device, x->dev_block);
    free(x->host_block);
    *x = (twin_tensor){0};
}

/* The card's copy, in a block of its own. */
static plim_tensor fetch(twin *t, const twin_tensor *x, void **block)
{
    *block = malloc(x->bytes);
    if (!*block) abort();
    CHECK_OK(t->ctx, t->gpu.ops->read(t->gpu.device, x->dev_block, *block, x->bytes));
    plim_tensor got = x->host;
    got.data = (char *)*block + GUARD_BYTES;
    return got;
}

void twin_check_close(twin *t, twin_tensor *x, double tolerance, const char *what)
{
    void *block;
    plim_tensor got = fetch(t, x, &block), want = x->host;
    double square = 0;
    for (int64_t i = 0; i < want.rows; i++)
        for (int64_t j = 0; j < want.cols; j++) square += get(want, i, j) * get(want, i, j);
    double rms = want.rows > 0 && want.cols > 0 ? sqrt(square / (double)(want.rows * want.cols)) : 0;
    for (int64_t i = 0; i < want.rows; i++)
        for (int64_t j = 0; j < want.cols; j++) {
            double g = get(got, i, j), w = get(want, i, j);
            if (!(fabs(g - w) <= tolerance * (fabs(w) + rms)))
                fail_msg("%s [%lld, %lld]: %.9g, the CPU says %.9g (rms %.3g, tolerance %.2g)", what,
                         (long long)i, (long long)j, g, w, rms, tolerance);
        }
    free(block);
}

void twin_check_relative(twin *t, twin_tensor *x, double tolerance, const char *what)
{
    void *block;
    plim_tensor got = fetch(t, x, &block), want = x->host;
    double square = 0, norm = 0;
    for (int64_t i = 0; i < want.rows; i++)
        for (int64_t j = 0; j < want.cols; j++) {
            double g = get(got, i, j), w = get(want, i, j);
            square += (g - w) * (g - w);
            norm += w * w;
        }
    free(block);
    if (!(sqrt(square) <= tolerance * sqrt(norm)))
        fail_msg("%s: relative error %.3g above %.3g", what, sqrt(square / norm), tolerance);
}

void twin_check_guards(twin *t, twin_tensor *x, const char *what)
{
    void *block;
    plim_tensor got = fetch(t, x, &block);
    const unsigned char *bytes = block;
    size_t width = plim_dtype_bytes(got.dtype);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (bytes[i] != GUARD || bytes[x->bytes - 1 - i] != GUARD)
            fail_msg("%s: written outside its rows", what);
    for (int64_t i = 0; i < got.rows; i++)
        for (int64_t at = (i * got.pitch + got.cols) * (int64_t)width;
             at < (i + 1) * got.pitch * (int64_t)width; at++)
            if (((const unsigned char *)got.data)[at] != GUARD)
                fail_msg("%s: row %lld written beside its columns", what, (long long)i);
    free(block);
}

void *twin_device_bytes(twin *t, const void *host, size_t bytes)
{
    void *p;
    CHECK_OK(t->ctx, t->gpu.alloc_device(t->gpu.device, bytes, &p));
    if (host) CHECK_OK(t->ctx, t->gpu.ops->write(t->gpu.device, host, p, bytes));
    return p;
}

void twin_device_free(twin *t, void *p)
{
    t->gpu.free_device(t->gpu.device, p);
}
