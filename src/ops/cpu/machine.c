/* machine.c - the CPU as a machine: its device memory comes from the context's allocator. */
#include "ops/machine.h"

#include "base/arena.h"
#include "ops/cpu/device.h"

#include <string.h>

#include <cblas.h>

/* The context aligns to 64 bytes; an arena wants more, so the true start is kept just before the block. */
static plim_status take(plim_device *d, size_t bytes, void **out)
{
    char *start, *block;
    if (bytes > SIZE_MAX - 2 * PLIM_ARENA_ALIGN) return plim_fail_alloc(d->ctx, bytes, "a training step");
    TRY(plim_alloc(d->ctx, bytes + 2 * PLIM_ARENA_ALIGN, 1, "a training step", &start));
    block = start + PLIM_ARENA_ALIGN;
    block += (PLIM_ARENA_ALIGN - (uintptr_t)block % PLIM_ARENA_ALIGN) % PLIM_ARENA_ALIGN;
    memcpy(block - sizeof start, &start, sizeof start);
    *out = block;
    return PLIM_OK;
}

static void give(plim_device *d, void *p)
{
    char *start;
    if (!p) return;
    memcpy(&start, (char *)p - sizeof start, sizeof start);
    plim_release(d->ctx, start);
}

plim_status plim_machine_cpu(plim_ctx *c, int threads, plim_machine *out)
{
    plim_device *d;
    TRY(plim_cpu_open(c, threads, &d));
    *out = (plim_machine){.name = "cpu",
                          .ops = &plim_ops_cpu,
                          .device = d,
                          .alloc_device = take,
                          .free_device = give,
                          .alloc_host = take,
                          .free_host = give,
                          .close = plim_cpu_close,
                          .libraries = openblas_get_config(),
                          .attention_kernel = PLIM_ATTENTION_CPU,
                          .shared_memory = true};
    return PLIM_OK;
}

void plim_machine_close(plim_machine *m)
{
    if (m->close) m->close(m->device);
    *m = (plim_machine){0};
}
