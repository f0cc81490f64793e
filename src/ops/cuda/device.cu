// device.cu - opens a card: streams, events, libraries, memory.
#include "ops/cuda/device.h"

#include "ops/cuda/parts.h"

#include <stdio.h>
#include <string.h>

extern "C" {
#include "base/arena.h"
#include "base/random.h"
}

plim_status plim_cuda_fail(plim_device *d, cudaError_t e, const char *what)
{
    cudaGetLastError(); /* an allocation that failed leaves nothing behind */
    if (e == cudaErrorMemoryAllocation)
        return plim_fail(d->ctx, PLIM_E_OOM_DEVICE, "out of device memory: %s (%s)", what,
                         cudaGetErrorString(e));
    return plim_fail(d->ctx, PLIM_E_CUDA, "CUDA failed at %s: %s (%s)", what, cudaGetErrorString(e),
                     cudaGetErrorName(e));
}

plim_status plim_cuda_view(plim_device *d, const char *op, const char *name, plim_tensor t, plim_dtype dtype,
                           int64_t rows, int64_t cols)
{
    bool empty = rows == 0 || cols == 0;
    if (t.dtype == dtype && t.rows == rows && t.cols == cols && (empty || (t.data && t.pitch >= cols)))
        return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %s is %s [%lld, %lld] pitch %lld%s; wanted %s [%lld, %lld]",
                     op, name, plim_dtype_name(t.dtype), (long long)t.rows, (long long)t.cols,
                     (long long)t.pitch, t.data ? "" : " without memory", plim_dtype_name(dtype),
                     (long long)rows, (long long)cols);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static plim_status alloc_device(plim_device *d, size_t bytes, void **out)
{
    size_t free_bytes = 0, total = 0;
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, bytes);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &total);
        return plim_fail(d->ctx, PLIM_E_OOM_DEVICE,
                         "out of device memory: a training step needs %zu bytes, %zu of %zu are free on %s",
                         bytes, free_bytes, total, d->prop.name);
    }
    CUDA_TRY(d, e, "allocating the arena");
    *out = p;
    return PLIM_OK;
}

static void free_device(plim_device *d, void *p)
{
    (void)d;
    if (p) cudaFree(p);
}

static plim_status alloc_host(plim_device *d, size_t bytes, void **out)
{
    return plim_cuda_pin(d, bytes, out);
}

static void free_host(plim_device *d, void *p)
{
    plim_cuda_unpin(d, p);
}

static plim_status memory_info(plim_device *d, size_t *free_bytes, size_t *total_bytes)
{
    CUDA_TRY(d, cudaMemGetInfo(free_bytes, total_bytes), "reading the card's free memory");
    return PLIM_OK;
}

static void set_workspace(plim_device *d, void *p, size_t bytes)
{
    d->gemm_workspace = p;
    d->gemm_workspace_bytes = bytes;
}

/* ---- open
 * ------------------------------------------------------------------------------------------------------------
 */

static void close_device(plim_device *d)
{
    if (!d) return;
    plim_ctx *c = d->ctx;
    cudaDeviceSynchronize();
    plim_cuda_attention_close(d);
    plim_cuda_gemm_close(d);
    for (int i = 0; i < PLIM_EVENTS; i++)
        if (d->event[i]) cudaEventDestroy(d->event[i]);
    if (d->ready) cudaEventDestroy(d->ready);
    cudaStream_t const streams[] = {d->compute, d->out, d->in};
    for (cudaStream_t s : streams)
        if (s) cudaStreamDestroy(s);
    plim_cuda_optimiser_close(d);
    plim_cuda_libraries_close(&d->lib);
    plim_release(c, d);
}

static __global__ void any_kernel()
{
}

/* Real machine code alone is built in, no PTX to translate: a card of a kind that was left out has none. */
static plim_status check_machine_code(plim_device *d)
{
    cudaFuncAttributes kernel;
    const cudaError_t e = cudaFuncGetAttributes(&kernel, any_kernel);
    if (e != cudaErrorNoKernelImageForDevice && e != cudaErrorInvalidDeviceFunction)
        return e ? plim_cuda_fail(d, e, "loading a kernel") : PLIM_OK;
    cudaGetLastError();
    return plim_fail(d->ctx, PLIM_E_UNSUPPORTED,
                     "the CUDA plug-in holds no machine code for %s (capability %d.%d): it was built for %s; "
                     "one built with PLIM_CUDA_ARCHITECTURES=%d%d-real would work",
                     d->prop.name, d->prop.major, d->prop.minor, PLIM_BUILT_FOR, d->prop.major,
                     d->prop.minor);
}

static plim_status open_device(plim_device *d, const plim_cuda_options *o)
{
    char why[512];
    CUDA_TRY(d, cudaSetDevice(o->ordinal), "choosing the card");
    CUDA_TRY(d, cudaGetDeviceProperties(&d->prop, o->ordinal), "reading the card's properties");
    if (d->prop.major < 8)
        return plim_fail(d->ctx, PLIM_E_UNSUPPORTED,
                         "%s has compute capability %d.%d; 8.0 or newer would work", d->prop.name,
                         d->prop.major, d->prop.minor);
    TRY(check_machine_code(d));
    TRY(plim_cuda_libraries_open(d->ctx, &d->lib, why));
    cudaStream_t *const streams[] = {&d->compute, &d->out, &d->in};
    for (cudaStream_t *s : streams)
        CUDA_TRY(d, cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "opening a stream");
    CUDA_TRY(d, cudaEventCreateWithFlags(&d->ready, cudaEventDisableTiming), "opening an event");
    for (int i = 0; i < PLIM_EVENTS; i++)
        CUDA_TRY(d, cudaEventCreateWithFlags(&d->event[i], cudaEventDisableTiming), "opening an event");
    snprintf(d->libraries_text, sizeof d->libraries_text, "CUDA %d.%d, cuBLASLt %zu", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, d->lib.cublasLtGetVersion());
    d->deterministic = o->deterministic;
    d->attention = o->deterministic ? PLIM_ATTENTION_OWN : o->attention;
    TRY(plim_cuda_gemm_open(d));
    TRY(plim_cuda_optimiser_open(d));
    return plim_cuda_attention_open(d, why);
}

/* No driver, no card, a driver older than the runtime: each in one sentence. */
static plim_status check_driver(plim_ctx *c)
{
    int count = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (e == cudaSuccess && count > 0) return PLIM_OK;
    if (e == cudaErrorInsufficientDriver)
        return plim_fail(c, PLIM_E_CUDA,
                         "no usable NVIDIA driver for CUDA %d.%d here; --device cpu works without one",
                         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return plim_fail(c, PLIM_E_CUDA, "no CUDA card here (%s); --device cpu works without one",
                     e ? cudaGetErrorString(e) : "none is visible");
}

plim_status plim_cuda_machine(plim_ctx *c, const plim_cuda_options *o, plim_machine *out)
{
    plim_device *d = NULL;
    TRY(check_driver(c));
    TRY(plim_alloc(c, 1, sizeof *d, "a card", &d));
    d->ctx = c;
    plim_status st = open_device(d, o);
    if (st) {
        close_device(d);
        return st;
    }
    plim_machine m = {};
    m.name = d->prop.name;
    m.ops = &plim_ops_cuda;
    m.device = d;
    m.alloc_device = alloc_device;
    m.free_device = free_device;
    m.alloc_host = alloc_host;
    m.free_host = free_host;
    m.set_workspace = set_workspace;
    m.close = close_device;
    m.memory_info = memory_info;
    m.libraries = d->libraries_text;
    m.attention = plim_cuda_attention_name(d);
    m.attention_kernel = d->cudnn ? PLIM_ATTENTION_CUDNN : PLIM_ATTENTION_OWN;
    *out = m;
    return PLIM_OK;
}

int plim_cuda_abi(void)
{
    return PLIM_CUDA_ABI;
}

static void version_text(char *out, size_t bytes, int version)
{
    snprintf(out, bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

plim_status plim_cuda_describe(plim_ctx *c, int ordinal, plim_cuda_info *out)
{
    plim_cuda_info i = {};
    cudaDeviceProp prop;
    plim_cuda_libraries lib = {};
    char why[512];
    int version = 0;
    size_t free_bytes = 0, total = 0;
    TRY(check_driver(c));
    if (cudaGetDeviceProperties(&prop, ordinal) || cudaSetDevice(ordinal) ||
        cudaMemGetInfo(&free_bytes, &total))
        return plim_fail(c, PLIM_E_CUDA, "card %d cannot be opened: %s", ordinal,
                         cudaGetErrorString(cudaGetLastError()));
    snprintf(i.name, sizeof i.name, "%.127s", prop.name);
    i.capability_major = prop.major;
    i.capability_minor = prop.minor;
    i.memory_bytes = (int64_t)total;
    i.free_bytes = (int64_t)free_bytes;
    cudaDriverGetVersion(&version);
    version_text(i.driver, sizeof i.driver, version);
    cudaRuntimeGetVersion(&version);
    version_text(i.runtime, sizeof i.runtime, version);
    if (plim_cuda_libraries_open(c, &lib, why) == PLIM_OK) {
        size_t blas = lib.cublasLtGetVersion();
        snprintf(i.cublas, sizeof i.cublas, "%zu.%zu.%zu", blas / 10000, blas / 100 % 100, blas % 100);
        snprintf(i.cublas_path, sizeof i.cublas_path, "%s", lib.cublas_path);
#ifdef PLIM_HAVE_CUDNN
        if (lib.cudnn_file) {
            size_t dnn = lib.cudnnGetVersion();
            snprintf(i.cudnn, sizeof i.cudnn, "%zu.%zu.%zu", dnn / 10000, dnn / 100 % 100, dnn % 100);
            snprintf(i.cudnn_path, sizeof i.cudnn_path, "%s", lib.cudnn_path);
        }
#endif
    } else {
        plim_ctx_clear(c);
    }
    plim_cuda_libraries_close(&lib);
    *out = i;
    return PLIM_OK;
}
