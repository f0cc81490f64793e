// pinned.cu - pinned host memory fast: one call pins at about 1 GiB/s, because it faults pages in from one
// thread; faulting them in from all cores first, in huge pages, leaves it little to do.
#include "ops/cuda/parts.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define HEADER     HUGE_BYTES /* holds the size; keeps what follows on a huge page */
#define THREADS    64

struct span {
    char *first;
    size_t bytes;
};

static void *touch(void *user)
{
    const span *s = (const span *)user;
    for (size_t at = 0; at < s->bytes; at += 4096) ((volatile char *)s->first)[at] = 0;
    return NULL;
}

static void touch_all(char *first, size_t bytes)
{
    pthread_t thread[THREADS];
    span part[THREADS];
    bool started[THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores < 1 ? 1 : cores > THREADS ? THREADS : (size_t)cores;
    size_t each = (bytes / count + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    for (size_t i = 0; i < count; i++) {
        size_t at = i * each < bytes ? i * each : bytes;
        part[i] = {first + at, bytes - at < each ? bytes - at : each};
        started[i] = pthread_create(&thread[i], NULL, touch, &part[i]) == 0;
        if (!started[i]) touch(&part[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (started[i]) pthread_join(thread[i], NULL);
}

plim_status plim_cuda_pin(plim_device *d, size_t bytes, void **out)
{
    if (bytes > SIZE_MAX / 2) return plim_fail_alloc(d->ctx, bytes, "pinned memory");
    size_t all = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES + HEADER;
    char *p =
        (char *)mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return plim_fail_alloc(d->ctx, all, "pinned memory");
    madvise(p, all, MADV_HUGEPAGE);
    touch_all(p, all);
    /* Mapped: kernels read rows of an embedding that stays here. */
    cudaError_t e = cudaHostRegister(p, all, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (e) {
        cudaGetLastError();
        munmap(p, all);
        return plim_fail(d->ctx, PLIM_E_OOM_HOST, "%zu bytes of host memory could not be pinned: %s", bytes,
                         cudaGetErrorString(e));
    }
    memcpy(p, &all, sizeof all);
    *out = p + HEADER;
    return PLIM_OK;
}

void plim_cuda_unpin(plim_device *d, void *p)
{
    (void)d;
    if (!p) return;
    char *start = (char *)p - HEADER;
    size_t all;
    memcpy(&all, start, sizeof all);
    cudaHostUnregister(start);
    munmap(start, all);
}
