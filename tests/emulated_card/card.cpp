// card.cpp - decides which card is emulated, and what is left of it.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

namespace emulated
{

namespace
{

const struct model {
    const char *name;
    int major, minor, processors;
    size_t shared_kib, memory_gib;
} models[] = {
    /* CUDA C programming guide, technical specifications: shared memory of a block */
    {"sm_80", 8, 0, 108, 163, 80},  {"sm_86", 8, 6, 84, 99, 48},      {"sm_89", 8, 9, 142, 99, 48},
    {"sm_90", 9, 0, 132, 227, 141}, {"sm_100", 10, 0, 148, 227, 192}, {"sm_120", 12, 0, 188, 99, 96},
};

size_t bytes_of(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

card choose()
{
    const char *wanted = getenv("EMULATED_CARD");
    if (!wanted || !*wanted) wanted = "sm_90";
    for (const model &m : models) {
        if (strcmp(m.name, wanted)) continue;
        card c = {};
        snprintf(c.name, sizeof c.name, "Emulated card, %s", m.name);
        c.major = m.major;
        c.minor = m.minor;
        c.processors = m.processors;
        c.shared_bytes = m.shared_kib << 10;
        c.total_bytes = bytes_of("EMULATED_CARD_BYTES", m.memory_gib << 30);
        c.held_bytes = bytes_of("EMULATED_CARD_HELD_BYTES", 0);
        c.pin_bytes = bytes_of("EMULATED_CARD_PIN_BYTES", SIZE_MAX);
        return c;
    }
    fprintf(stderr, "emulated card: EMULATED_CARD=%s; sm_80, sm_86, sm_89, sm_90, sm_100 and sm_120 work\n",
            wanted);
    exit(2);
}

cudaError_t last_error;

} // namespace

const card &the_card()
{
    static const card c = choose();
    return c;
}

cudaError_t fail(cudaError_t e)
{
    if (e) last_error = e;
    return e;
}

} // namespace emulated

using namespace emulated;

cudaError_t cudaGetLastError()
{
    const cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    }
    return "unknown";
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    }
    return "unknown error";
}

cudaError_t emulated_func_attributes(cudaFuncAttributes *out)
{
    static const bool none = getenv("EMULATED_CARD_NO_KERNELS") != NULL;
    out->maxThreadsPerBlock = 1024;
    return fail(none ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int ordinal)
{
    return fail(ordinal ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int ordinal)
{
    if (ordinal) return fail(cudaErrorInvalidDevice);
    const card &c = the_card();
    *out = {};
    snprintf(out->name, sizeof out->name, "%s", c.name);
    out->totalGlobalMem = c.total_bytes;
    out->sharedMemPerBlockOptin = c.shared_bytes;
    out->major = c.major;
    out->minor = c.minor;
    out->multiProcessorCount = c.processors;
    return cudaSuccess;
}
