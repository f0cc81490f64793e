/* machine.h - a column with its device opened: operations and memory.  What differs between a laptop and a
 * card. */
#ifndef PLIM_OPS_MACHINE_H
#define PLIM_OPS_MACHINE_H

#include "ops/ops.h"

typedef struct plim_machine {
    const char *name; /* "cpu", or the card's */
    const plim_ops *ops;
    plim_device *device;
    /* Blocks aligned to PLIM_ARENA_ALIGN; host memory is pinned where that matters.  Contents undefined.
     * Errors: PLIM_E_OOM_DEVICE, PLIM_E_OOM_HOST.  free accepts NULL. */
    plim_status (*alloc_device)(plim_device *d, size_t bytes, void **out);
    void (*free_device)(plim_device *d, void *p);
    plim_status (*alloc_host)(plim_device *d, size_t bytes, void **out);
    void (*free_host)(plim_device *d, void *p);
    /* Scratch the products may use from now on; may be NULL. */
    void (*set_workspace)(plim_device *d, void *p, size_t bytes);
    /* Bytes of the whole device, whoever uses them; NULL where device memory is the host's. */
    plim_status (*memory_info)(plim_device *d, size_t *free_bytes, size_t *total_bytes);
    void (*close)(plim_device *d);
    const char *libraries; /* whose code runs, with versions: for the record of a run */
    const char *attention; /* the attention engine in use, and why; NULL: there is one only */
    plim_attention_kernel attention_kernel; /* that engine, as the layout must know it */
    bool shared_memory;                     /* device and host memory are the same */
} plim_machine;

/* The CPU.  threads 0: all cores. */
plim_status plim_machine_cpu(plim_ctx *c, int threads, plim_machine *out);
void plim_machine_close(plim_machine *m); /* a zeroed one is fine */

#endif
