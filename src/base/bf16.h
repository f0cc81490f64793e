/* bf16.h - bfloat16 on the host: the upper half of a float; rounded to nearest, ties to even.
 * Infinities and subnormals are kept; a NaN stays a NaN (quiet, sign and upper payload kept). */
#ifndef PLIM_BASE_BF16_H
#define PLIM_BASE_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t plim_bf16;

#define PLIM_BF16_STEP 0.0078125 /* 2^-7: distance from 1 to the next bf16 */

static inline float plim_bf16_load(plim_bf16 h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline plim_bf16 plim_bf16_round(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (plim_bf16)(u >> 16 | 0x40u);
    u += 0x7fffu + (u >> 16 & 1u); /* a carry out of the mantissa is the next exponent, at last infinity */
    return (plim_bf16)(u >> 16);
}

#endif
