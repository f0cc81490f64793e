/* walled_machine.h - the CPU behind a wall: device memory that only operations may touch, as on a card.  Any
 * other access, read or write, ends the test with a signal. */
#ifndef PLIM_TESTS_WALLED_MACHINE_H
#define PLIM_TESTS_WALLED_MACHINE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/context.h"
#include "ops/machine.h"

#define WALLED_BLOCKS 8

/* One machine a test program: operations have no other way to know which blocks are theirs. */
static struct walled_block {
    char *start;
    size_t bytes;
} walled_blocks[WALLED_BLOCKS];
static plim_machine walled_cpu;
static size_t walled_used, walled_total; /* bytes of the device */

static inline void walled_protect(int how)
{
    for (int i = 0; i < WALLED_BLOCKS; i++)
        if (walled_blocks[i].start && mprotect(walled_blocks[i].start, walled_blocks[i].bytes, how)) abort();
}

static inline plim_status walled_leave(plim_status st)
{
    walled_protect(PROT_NONE);
    return st;
}

#define WALLED(name, args)                                                                                   \
    static plim_status walled_##name(plim_device *d, const args *a)                                          \
    {                                                                                                        \
        walled_protect(PROT_READ | PROT_WRITE);                                                              \
        return walled_leave(walled_cpu.ops->name(d, a));                                                     \
    }
PLIM_OPS_MAP(WALLED)
#undef WALLED

#define WALLED_OTHER(name, parameters, ...)                                                                  \
    static plim_status walled_##name parameters                                                              \
    {                                                                                                        \
        walled_protect(PROT_READ | PROT_WRITE);                                                              \
        return walled_leave(walled_cpu.ops->name(__VA_ARGS__));                                              \
    }
WALLED_OTHER(copy, (plim_device * d, plim_tensor x, plim_tensor y), d, x, y)
WALLED_OTHER(scaled_copy, (plim_device * d, double alpha, plim_tensor x, plim_tensor y), d, alpha, x, y)
WALLED_OTHER(add, (plim_device * d, plim_tensor x, plim_tensor y), d, x, y)
WALLED_OTHER(add_bias, (plim_device * d, plim_tensor bias, plim_tensor y), d, bias, y)
WALLED_OTHER(offload, (plim_device * d, plim_tensor x, plim_tensor host, int event), d, x, host, event)
WALLED_OTHER(fetch, (plim_device * d, plim_tensor host, plim_tensor x, int event), d, host, x, event)
WALLED_OTHER(wait, (plim_device * d, int event), d, event)
WALLED_OTHER(settle, (plim_device * d, int event), d, event)
WALLED_OTHER(read, (plim_device * d, const void *device, void *host, size_t bytes), d, device, host, bytes)
WALLED_OTHER(write, (plim_device * d, const void *host, void *device, size_t bytes), d, host, device, bytes)
#undef WALLED_OTHER

static const plim_ops walled_ops = {
#define WALLED(name, args) .name = walled_##name,
    PLIM_OPS_MAP(WALLED)
#undef WALLED
        .copy = walled_copy,
    .scaled_copy = walled_scaled_copy,
    .add = walled_add,
    .add_bias = walled_add_bias,
    .offload = walled_offload,
    .fetch = walled_fetch,
    .wait = walled_wait,
    .settle = walled_settle,
    .read = walled_read,
    .write = walled_write,
};

static inline plim_status walled_alloc(plim_device *d, size_t bytes, void **out)
{
    (void)d;
    int at = 0;
    while (at < WALLED_BLOCKS && walled_blocks[at].start) at++;
    if (at == WALLED_BLOCKS) abort();
    bytes = (bytes + 4095) / 4096 * 4096 + 4096;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    walled_blocks[at] = (struct walled_block){p, bytes};
    walled_used += bytes;
    *out = p;
    return PLIM_OK;
}

static inline void walled_free(plim_device *d, void *p)
{
    (void)d;
    for (int i = 0; p && i < WALLED_BLOCKS; i++) {
        if (walled_blocks[i].start != p) continue;
        munmap(p, walled_blocks[i].bytes);
        walled_used -= walled_blocks[i].bytes;
        walled_blocks[i] = (struct walled_block){0};
    }
}

/* As pinned memory: whole pages, untouched until they are used. */
static inline plim_status walled_pin(plim_device *d, size_t bytes, void **out)
{
    (void)d;
    bytes = (bytes + 4095) / 4096 * 4096 + 4096;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    memcpy(p, &bytes, sizeof bytes);
    *out = p + 4096;
    return PLIM_OK;
}

static inline void walled_unpin(plim_device *d, void *p)
{
    size_t bytes;
    (void)d;
    if (!p) return;
    memcpy(&bytes, (char *)p - 4096, sizeof bytes);
    munmap((char *)p - 4096, bytes);
}

static inline plim_status walled_info(plim_device *d, size_t *free_bytes, size_t *total_bytes)
{
    (void)d;
    *total_bytes = walled_total;
    *free_bytes = walled_total - walled_used;
    return PLIM_OK;
}

static inline void walled_close(plim_device *d)
{
    (void)d;
    plim_machine_close(&walled_cpu);
}

/* total_bytes: what memory_info says the device has. */
static inline plim_status walled_open(plim_ctx *c, size_t total_bytes, plim_machine *out)
{
    TRY(plim_machine_cpu(c, 2, &walled_cpu));
    plim_machine m = walled_cpu;
    walled_total = total_bytes;
    m.name = "walled";
    m.ops = &walled_ops;
    m.alloc_device = walled_alloc;
    m.free_device = walled_free;
    m.alloc_host = walled_pin;
    m.free_host = walled_unpin;
    m.memory_info = walled_info;
    m.close = walled_close;
    m.shared_memory = false;
    *out = m;
    return PLIM_OK;
}

#endif
