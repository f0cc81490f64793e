/* cuda_plugin.h - the CUDA column, opened at run time: one program serves a laptop and a GPU machine. */
#ifndef PLIM_OPS_CUDA_PLUGIN_H
#define PLIM_OPS_CUDA_PLUGIN_H

#include "ops/cuda/cuda.h"

typedef struct plim_cuda_plugin {
    void *file;
    char path[1024];
    plim_status (*describe)(plim_ctx *c, int ordinal, plim_cuda_info *out);
    plim_status (*machine)(plim_ctx *c, const plim_cuda_options *o, plim_machine *out);
} plim_cuda_plugin;

/* Finds libplimsoll_cuda.so: $PLIMSOLL_CUDA, beside the program, in ../lib/plimsoll or ../lib from there.
 * Errors: PLIM_E_UNSUPPORTED (not found, or of another version of plimsoll), in one sentence. */
plim_status plim_cuda_plugin_open(plim_ctx *c, plim_cuda_plugin *out);
/* Only after every machine made by it is closed; a zeroed one is fine. */
void plim_cuda_plugin_close(plim_cuda_plugin *p);

#endif
