/* transfer.c - the CPU's device memory is host memory: what crosses the link on a card is a plain copy
 * here. */
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/device.h"

plim_status plim_cpu_offload(plim_device *d, plim_tensor x, plim_tensor host, int event)
{
    (void)event;
    return plim_cpu_copy(d, x, host);
}

plim_status plim_cpu_fetch(plim_device *d, plim_tensor host, plim_tensor x, int event)
{
    (void)event;
    return plim_cpu_copy(d, host, x);
}

plim_status plim_cpu_wait(plim_device *d, int event)
{
    (void)d;
    (void)event;
    return PLIM_OK;
}

plim_status plim_cpu_settle(plim_device *d, int event)
{
    (void)d;
    (void)event;
    return PLIM_OK;
}

plim_status plim_cpu_read(plim_device *d, const void *device, void *host, size_t bytes)
{
    (void)d;
    memcpy(host, device, bytes);
    return PLIM_OK;
}

plim_status plim_cpu_write(plim_device *d, const void *host, void *device, size_t bytes)
{
    (void)d;
    memcpy(device, host, bytes);
    return PLIM_OK;
}
