/* Prints one checksum over draws of every kind.  test_random builds it with several compilers and flags. */
#include <stdio.h>
#include <string.h>

#include "base/normal_table.h"
#include "base/random_core.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15) ^ hash >> 29;
}

static uint64_t bits_of(const void *x, size_t bytes)
{
    uint64_t u = 0;
    memcpy(&u, x, bytes);
    return u;
}

int main(void)
{
    plim_random r = {UINT64_C(0x0123456789abcdef), 7};
    uint64_t hash = 0;
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t at = i * UINT64_C(0x10000001b);
        float f = plim_random_float(r, at), n = plim_random_normal(r, at, 0.02f, plim_normal_table);
        double d = plim_random_double(r, at);
        hash = mix(hash, plim_random_u32(r, at));
        hash = mix(hash, plim_random_u64(r, at));
        hash = mix(hash, plim_random_below(r, at, (uint32_t)(i % 2147483648u) + 1));
        hash = mix(hash, bits_of(&f, sizeof f));
        hash = mix(hash, bits_of(&d, sizeof d));
        hash = mix(hash, bits_of(&n, sizeof n));
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
