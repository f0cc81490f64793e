/* cuda_runtime.h - the part of CUDA C and of its runtime that src/ops/cuda uses, for the emulated card: the
 * same source, compiled as C++ for the CPU.  Nothing here is fast. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

/* ---- the language ------------------------------------------------------------------------------------ */

#define __global__
#define __device__
#define __host__
#define __shared__       static /* blocks run one after the other, in one thread */
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __CUDA_ARCH_FEAT_SM90_ALL 1

struct uint2 {
    unsigned x, y;
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

template <typename A, typename B> static inline auto min(A a, B b) -> decltype(a + b)
{
    return b < a ? b : a;
}
template <typename A, typename B> static inline auto max(A a, B b) -> decltype(a + b)
{
    return a < b ? b : a;
}

static inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
#define __expf(x) expf(x) /* glibc has a declaration of this name */
static inline float __fdividef(float a, float b)
{
    return fabsf(b) > 0x1p126f ? 0 : a / b; /* as documented for a divisor beyond 2^126 */
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

/* ---- threads of a block meet (fibers.cpp) ------------------------------------------------------------ */

void __syncthreads();
void __syncwarp();
float __shfl_xor_sync(unsigned mask, float x, int lanes);
int __shfl_xor_sync(unsigned mask, int x, int lanes);
unsigned __shfl_xor_sync(unsigned mask, unsigned x, int lanes);
double __shfl_xor_sync(unsigned mask, double x, int lanes);
float __shfl_up_sync(unsigned mask, float x, unsigned lanes);
float __shfl_down_sync(unsigned mask, float x, unsigned lanes);
float __shfl_sync(unsigned mask, float x, int lane);
unsigned __ballot_sync(unsigned mask, int x);
int __any_sync(unsigned mask, int x);

template <typename T> static inline T atomicAdd(T *to, T x)
{
    const T before = *to;
    *to += x;
    return before;
}

/* ---- the runtime ------------------------------------------------------------------------------------- */

#define CUDART_VERSION 13000

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum { cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount;
};

struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int ordinal);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int ordinal);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t emulated_malloc(void **out, size_t bytes);
template <typename T> static inline cudaError_t cudaMalloc(T **out, size_t bytes)
{
    return emulated_malloc((void **)out, bytes);
}
cudaError_t cudaFree(void *p);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t rows, cudaStream_t s);

cudaError_t emulated_set_dynamic_shared(const void *kernel, int bytes);
template <typename F> static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute, int bytes)
{
    return emulated_set_dynamic_shared((const void *)kernel, bytes);
}
cudaError_t emulated_func_attributes(cudaFuncAttributes *out);
template <typename F> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, F *)
{
    return emulated_func_attributes(out);
}

/* ---- launches ---------------------------------------------------------------------------------------- */

struct emulated_launch {
    const void *kernel;
    const char *name;
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

/* Checks the launch as a card would, and puts it into its stream. */
void emulated_enqueue(const emulated_launch &launch, std::function<void()> thread);

template <typename... P> struct emulated_launcher {
    void (*kernel)(P...);
    emulated_launch launch;

    template <typename... A> void operator()(A... a) const
    {
        std::tuple<P...> arguments(a...);
        void (*const f)(P...) = kernel;
        emulated_enqueue(launch, [f, arguments] { std::apply(f, arguments); });
    }
};

template <typename... P>
static inline emulated_launcher<P...> emulated_prepare(void (*kernel)(P...), const char *name, dim3 grid,
                                                       dim3 block, size_t bytes, cudaStream_t stream)
{
    return {kernel, {(const void *)kernel, name, grid, block, bytes, stream}};
}

#define PLIM_LAUNCH(kernel, grid, block, bytes, stream)                                                      \
    emulated_prepare(kernel, #kernel, grid, block, bytes, stream)

#endif
