// plugin.cu - what the program asks of the plug-in before anything else.
#include <cuda_runtime.h>

// The CUDA version the plug-in was compiled with, as the runtime counts it (13000 = 13.0).
extern "C" __attribute__((visibility("default"))) int plim_cuda_built_version(void)
{
    return CUDART_VERSION;
}
