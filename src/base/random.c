/* random.c - decides nothing about the numbers (random_core.h does); walks arrays of them. */
#include "base/random.h"

#include <assert.h>

#include "base/normal_table.h"

const plim_normal_segment *plim_normal_segments(void)
{
    return plim_normal_table;
}

void plim_random_fill_normal(plim_random r, uint64_t first, size_t count, float sigma, float *out)
{
    uint32_t word[4];
    for (size_t k = 0; k < count; k++) {
        uint64_t i = first + k;
        if (k == 0 || i % 4 == 0) plim_random_block(r, i / 4, word);
        out[k] = (float)plim_normal_q21(word[i % 4], plim_normal_table) * 0x1p-21f * sigma;
    }
}

void plim_random_order(plim_random r, uint32_t n, uint32_t *order)
{
    assert(n <= (uint32_t)1 << 31);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = plim_random_below(r, k, k + 1);
        if (at != k) order[k] = order[at];
        order[at] = k;
    }
}
