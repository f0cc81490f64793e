/* fnv.h - FNV-1a with 64 bits: the same number for a name everywhere, so that a name can choose a random
 * stream.  Source: Fowler, Noll, Vo; offset basis 14695981039346656037, prime 1099511628211. */
#ifndef PLIM_BASE_FNV_H
#define PLIM_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t plim_fnv1a64(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

/* The same of bytes that may hold a zero. */
static inline uint64_t plim_fnv1a64_bytes(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif
