/* f16.h - IEEE 754 half precision on the host, in integers; rounded to nearest, ties to even.
 * From 65520 on a float becomes infinity; subnormals are kept; a NaN stays a NaN (quiet, sign and upper
 * payload kept). */
#ifndef PLIM_BASE_F16_H
#define PLIM_BASE_F16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t plim_f16;

static inline float plim_f16_load(plim_f16 h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu, u;
    float x;
    if (exponent == 31) {
        u = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent) {
        u = sign | (exponent + 112) << 23 | mantissa << 13;
    } else if (mantissa) {
        uint32_t e = 113; /* 2^-14 as a float's exponent; a subnormal shifts down until its first bit leads */
        while (!(mantissa & 0x400u)) {
            mantissa <<= 1;
            e--;
        }
        u = sign | e << 23 | (mantissa & 0x3ffu) << 13;
    } else {
        u = sign;
    }
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline plim_f16 plim_f16_round(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    uint32_t sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (plim_f16)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) return (plim_f16)(sign | 0x7c00u); /* 65520 and more */
    if (a >= 0x38800000u)                                    /* 2^-14: normal */
        return (plim_f16)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
    uint32_t shift = 126 - (a >> 23); /* the result counts steps of 2^-24 */
    if (shift > 24) return (plim_f16)sign;
    uint32_t mantissa = (a & 0x7fffffu) | 0x800000u;
    uint32_t half = (uint32_t)1 << (shift - 1), odd = mantissa >> shift & 1u;
    return (plim_f16)(sign | (mantissa + half - 1 + odd) >> shift);
}

#endif
