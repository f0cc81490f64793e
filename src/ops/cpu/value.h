/* value.h - one element in and out of a row of any float dtype, and functions of it that vectorise.
 *
 * The element-wise operations compute in double whatever the dtype, and round once on store.  Each writes one
 * always-inlined body that takes the dtype as an argument and calls it from a switch with a constant, so the
 * compiler makes one loop a dtype; no branch stays inside.  exp: reduction by ln 2 in two parts
 * and a Taylor polynomial on [-ln2/2, ln2/2], accurate to about one step of double. */
#ifndef PLIM_OPS_CPU_VALUE_H
#define PLIM_OPS_CPU_VALUE_H

#include <math.h>
#include <string.h>

#include "plimsoll.h"

#define PLIM_CPU_INLINE static inline __attribute__((always_inline))

/* Row functions are compiled for three vector widths; the loader picks.  Products and sums are never
 * contracted
 * (-ffp-contract=off), so the width changes no bit of an element-wise result.  Sanitizers cannot run before
 * their own start-up, which is when the loader asks. */
#if defined(__x86_64__) && defined(__linux__) && defined(__OPTIMIZE__) && !defined(__clang__) &&             \
    !defined(__SANITIZE_ADDRESS__)
#define PLIM_CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLIM_CPU_CLONES
#endif

/* Calls body(dtype, ...) with the dtype as a constant. */
#define PLIM_CPU_BY_DTYPE(dtype, body, ...)                                                                  \
    do {                                                                                                     \
        if ((dtype) == PLIM_F32) body(PLIM_F32, __VA_ARGS__);                                                \
        else if ((dtype) == PLIM_BF16) body(PLIM_BF16, __VA_ARGS__);                                         \
        else body(PLIM_F64, __VA_ARGS__);                                                                    \
    } while (0)

/* ---- bf16 ---------------------------------------------------------------------------------------------- */

/* As in base/bf16.h, without a branch, so that the loops around them vectorise. */
PLIM_CPU_INLINE float plim_cpu_bf16_load(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

PLIM_CPU_INLINE uint16_t plim_cpu_bf16_round(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* ---- elements ------------------------------------------------------------------------------------------ */

PLIM_CPU_INLINE double plim_cpu_load(plim_dtype t, const void *row, int64_t i)
{
    if (t == PLIM_F32) return ((const float *)row)[i];
    if (t == PLIM_BF16) return plim_cpu_bf16_load(((const uint16_t *)row)[i]);
    return ((const double *)row)[i];
}

PLIM_CPU_INLINE void plim_cpu_store(plim_dtype t, void *row, int64_t i, double x)
{
    if (t == PLIM_F32) ((float *)row)[i] = (float)x;
    else if (t == PLIM_BF16) ((uint16_t *)row)[i] = plim_cpu_bf16_round((float)x);
    else ((double *)row)[i] = x;
}

/* ---- functions ----------------------------------------------------------------------------------------- */

/* exp; 0 below -708.1, inf above 709.78; NaN stays NaN. */
PLIM_CPU_INLINE double plim_cpu_exp(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it leaves an integer in the low bits */
    double y = x < -720.0 ? -720.0 : x;
    y = y > 710.0 ? 710.0 : y;
    const double n = (y * 1.4426950408889634 + shift) - shift;
    const double k = (n < -1022.0 ? -1022.0 : n) + shift;
    uint64_t bits;
    memcpy(&bits, &k, sizeof bits);
    const double r = (y - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const uint64_t exponent = (bits + 1022) << 52; /* 2^(n - 1), since n reaches 1024; 0 when n is -1022 */
    double scale;
    memcpy(&scale, &exponent, sizeof scale);
    return p * scale * 2.0;
}

/* The same in single precision, within two steps: 0 below -87, inf above 88.72. */
PLIM_CPU_INLINE float plim_cpu_expf(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float y = x < -90.0f ? -90.0f : x;
    y = y > 89.0f ? 89.0f : y;
    const float n = (y * 1.44269504f + shift) - shift;
    const float k = (n < -126.0f ? -126.0f : n) + shift;
    uint32_t bits;
    memcpy(&bits, &k, sizeof bits);
    const float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    const uint32_t exponent = (bits + 126) << 23;
    float scale;
    memcpy(&scale, &exponent, sizeof scale);
    return p * scale * 2.0f;
}

/* 1 / (1 + e^-x). */
PLIM_CPU_INLINE double plim_cpu_sigmoid(double x)
{
    return 1.0 / (1.0 + plim_cpu_exp(-x));
}

/* x sigmoid(x), and its derivative; s = sigmoid(x). */
PLIM_CPU_INLINE double plim_cpu_silu(double x)
{
    return x * plim_cpu_sigmoid(x);
}

PLIM_CPU_INLINE double plim_cpu_silu_slope(double x, double s)
{
    return s * (1.0 + x * (1.0 - s));
}

#endif
