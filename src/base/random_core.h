/* random_core.h - random numbers by index, the same bits with every compiler and on every device.
 *
 * The generator is Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
 * 3"): key     = (seed low, seed high) counter = (block low, block high, stream low, stream high) Block b
 * holds four 32-bit words, so word i of a stream is word i % 4 of block i / 4 and 64-bit word i is words 2 i
 * (low) and 2 i + 1 (high).  No state: any element can be asked for in any order.
 *
 * The normal transform uses integers alone.  From one word u:
 *     sign      = bit 31 of u                      (set: negative)
 *     w         = 2 (u mod 2^31) + 1               tail probability w / 2^33, in (0, 1/2)
 *     e         = place of w's highest bit, m = w shifted left until bit 31 is set
 *     segment   = 32 e + (m >> 26) mod 32, t = m mod 2^26
 *     magnitude = a - ((b - (c t >> 26)) t >> 26)  a, b, c of the segment, in steps of 2^-26
 *     q         = (magnitude + 16) >> 5            in steps of 2^-21
 * so x = +-q / 2^21 follows the inverse of the normal distribution within 5e-7.  |x| <= 6.338, and as q <
 * 2^24 it is exact in a float; times sigma there is one rounding.  The table comes from
 * scripts/make_normal_table.py: each segment is the parabola through the inverse at its two ends and its
 * middle.
 *
 * Plain C that nvcc takes as well; the caller hands in the table, because a device needs its own copy. */
#ifndef PLIM_BASE_RANDOM_CORE_H
#define PLIM_BASE_RANDOM_CORE_H

#include <stdint.h>

#ifdef __CUDACC__
#define PLIM_RANDOM_FN static __host__ __device__ inline
#else
#define PLIM_RANDOM_FN static inline
#endif

#define PLIM_NORMAL_OCTAVES  32
#define PLIM_NORMAL_SEGMENTS 32       /* an octave */
#define PLIM_NORMAL_MAX_Q    13291661 /* the largest |q|, at w = 1 */

/* Which sequence: streams of one seed never meet. */
typedef struct plim_random {
    uint64_t seed, stream;
} plim_random;

typedef struct plim_normal_segment {
    uint32_t a, b, c;
} plim_normal_segment;

/* One Philox4x32-10 block. */
PLIM_RANDOM_FN void plim_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * x0, q = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(q >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)q;
        x2 = (uint32_t)(p >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* Words 4 block .. 4 block + 3. */
PLIM_RANDOM_FN void plim_random_block(plim_random r, uint64_t block, uint32_t out[4])
{
    uint32_t counter[4], key[2];
    counter[0] = (uint32_t)block;
    counter[1] = (uint32_t)(block >> 32);
    counter[2] = (uint32_t)r.stream;
    counter[3] = (uint32_t)(r.stream >> 32);
    key[0] = (uint32_t)r.seed;
    key[1] = (uint32_t)(r.seed >> 32);
    plim_philox(counter, key, out);
}

PLIM_RANDOM_FN uint32_t plim_random_u32(plim_random r, uint64_t i)
{
    uint32_t word[4];
    plim_random_block(r, i / 4, word);
    return word[i % 4];
}

PLIM_RANDOM_FN uint64_t plim_random_u64(plim_random r, uint64_t i)
{
    uint32_t word[4];
    plim_random_block(r, i / 2, word);
    return (uint64_t)word[i % 2 * 2 + 1] << 32 | word[i % 2 * 2];
}

/* Uniform in [0, 1): the upper 24 bits of 32-bit word i. */
PLIM_RANDOM_FN float plim_random_float(plim_random r, uint64_t i)
{
    return (float)(plim_random_u32(r, i) >> 8) * 0x1p-24f;
}

/* Uniform in [0, 1): the upper 53 bits of 64-bit word i. */
PLIM_RANDOM_FN double plim_random_double(plim_random r, uint64_t i)
{
    return (double)(plim_random_u64(r, i) >> 11) * 0x1p-53;
}

/* Uniform in 0 .. n - 1 for 1 <= n <= 2^31: floor(n u / 2^64) of 64-bit word i.  No value's probability
 * differs from 1 / n by more than 2^-64, a relative bias of at most 2^-33. */
PLIM_RANDOM_FN uint32_t plim_random_below(plim_random r, uint64_t i, uint32_t n)
{
    uint64_t u = plim_random_u64(r, i);
    uint64_t low = (u & 0xffffffffu) * n, high = (u >> 32) * n;
    return (uint32_t)((high + (low >> 32)) >> 32);
}

/* The transform above: a standard normal in steps of 2^-21.  table has 32 x 32 segments. */
PLIM_RANDOM_FN int32_t plim_normal_q21(uint32_t u, const plim_normal_segment *table)
{
    uint32_t w = u << 1 | 1u;
#ifdef __CUDA_ARCH__
    int zeros = __clz((int)w);
#else
    int zeros = __builtin_clz(w);
#endif
    uint32_t m = w << zeros;
    const plim_normal_segment *s = &table[(31 - zeros) * PLIM_NORMAL_SEGMENTS + (int)(m >> 26 & 31u)];
    uint64_t t = m & 0x3ffffffu;
    uint64_t magnitude = s->a - ((s->b - (s->c * t >> 26)) * t >> 26);
    int32_t q = (int32_t)((magnitude + 16) >> 5);
    return u >> 31 ? -q : q;
}

/* A normal of mean 0 and deviation sigma from word i.  Whatever is added to it may be contracted into an FMA,
 * so store it first where bits must agree. */
PLIM_RANDOM_FN float plim_random_normal(plim_random r, uint64_t i, float sigma,
                                        const plim_normal_segment *table)
{
    return (float)plim_normal_q21(plim_random_u32(r, i), table) * 0x1p-21f * sigma;
}

#endif
