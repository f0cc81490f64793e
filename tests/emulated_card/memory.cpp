// memory.cpp - device memory, which the host must not touch, and pinned memory, which both may.
#include "runtime.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace emulated {

namespace {

enum { PAGE_BYTES = 4096, GUARD_BYTES = 1 << 20 };
const size_t CONTEXT_BYTES = (size_t)500 << 20;

struct block {
    char *pages;
    size_t page_bytes, bytes;
};

std::map<char *, block> blocks; /* by what the caller got */
std::map<char *, size_t> pinned;
size_t in_use, pinned_bytes;
int opened;

bool walled()
{
    static const char *text = getenv("EMULATED_CARD_WALL");
    return text && !strcmp(text, "1");
}

void protect(int how)
{
    if (!walled()) return;
    for (const auto &b : blocks)
        if (mprotect(b.second.pages, b.second.page_bytes, how)) {
            fprintf(stderr, "emulated card: device memory cannot be %s\n", how ? "opened" : "closed");
            abort();
        }
}

} // namespace

memory_open::memory_open()
{
    if (opened++ == 0) protect(PROT_READ | PROT_WRITE);
}

memory_open::~memory_open()
{
    if (--opened == 0) protect(PROT_NONE);
}

size_t allocated_bytes()
{
    return in_use;
}

bool is_pinned(const void *p, size_t bytes)
{
    auto after = pinned.upper_bound((char *)p);
    if (after == pinned.begin()) return false;
    const auto &at = *--after;
    return (char *)p + bytes <= at.first + at.second;
}

} // namespace emulated

using namespace emulated;

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const card &c = the_card();
    const size_t used = c.held_bytes + CONTEXT_BYTES + in_use;
    *total_bytes = c.total_bytes;
    *free_bytes = used < c.total_bytes ? c.total_bytes - used : 0;
    return cudaSuccess;
}

/* Its end lies within 256 bytes of pages that nobody may touch, as does its start; every bit is set, so that
 * floats are NaN until written. */
cudaError_t emulated_malloc(void **out, size_t bytes)
{
    size_t free_bytes, total;
    cudaMemGetInfo(&free_bytes, &total);
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (rounded > free_bytes) return fail(cudaErrorMemoryAllocation);
    const size_t pages = (rounded + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    char *p = (char *)mmap(NULL, pages + 2 * GUARD_BYTES, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return fail(cudaErrorMemoryAllocation);
    const block b = {p + GUARD_BYTES, pages, rounded};
    if (mprotect(b.pages, pages, PROT_READ | PROT_WRITE)) {
        munmap(p, pages + 2 * GUARD_BYTES);
        return fail(cudaErrorMemoryAllocation);
    }
    char *start = b.pages + (pages - rounded);
    blocks[start] = b;
    in_use += rounded;
    if (bytes <= (size_t)1 << 30) memset(start, 0xff, bytes);
    if (opened == 0) protect(PROT_NONE);
    *out = start;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    if (!p) return cudaSuccess;
    drain_all();
    auto at = blocks.find((char *)p);
    if (at == blocks.end()) return fail(cudaErrorInvalidValue);
    in_use -= at->second.bytes;
    munmap(at->second.pages - GUARD_BYTES, at->second.page_bytes + 2 * GUARD_BYTES);
    blocks.erase(at);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    if (pinned_bytes + bytes > the_card().pin_bytes) return fail(cudaErrorMemoryAllocation);
    pinned[(char *)p] = bytes;
    pinned_bytes += bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    auto at = pinned.find((char *)p);
    if (at == pinned.end()) return fail(cudaErrorInvalidValue);
    drain_all();
    pinned_bytes -= at->second;
    pinned.erase(at);
    return cudaSuccess;
}
