#!/usr/bin/env python3
"""Writes src/base/normal_table.h: the inverse of the normal distribution as 32 octaves of 32 parabolas.

    scripts/make_normal_table.py > src/base/normal_table.h

The transform it serves is stated in src/base/random_core.h.  Segment (e, k) covers tail probabilities
2^(e - 33) (1 + k / 32) to 2^(e - 33) (1 + (k + 1) / 32); its parabola a - b t + c t^2, t in 0 .. 1, passes through
the inverse at both ends and in the middle.  Coefficients are in steps of 2^-26.  Standard library alone.
"""
from statistics import NormalDist

OCTAVES, SEGMENTS, STEP = 32, 32, 2.0**-26


def deviation(p):
    """How many standard deviations leave a tail of probability p."""
    return 0.0 if p == 0.5 else -NormalDist().inv_cdf(p)


def segment(e, k):
    y0, ym, y1 = (deviation(2.0 ** (e - 33) * (1 + (k + f) / SEGMENTS)) for f in (0, 0.5, 1))
    c = 2 * (y0 + y1 - 2 * ym)
    a = round(y0 / STEP)
    c = round(c / STEP)
    b = a - round(y1 / STEP) + c  # so that neighbouring segments meet
    return a, b, c


def main():
    print("/* normal_table.h - written by scripts/make_normal_table.py; what it means is said in random_core.h. */")
    print("#ifndef PLIM_BASE_NORMAL_TABLE_H")
    print("#define PLIM_BASE_NORMAL_TABLE_H")
    print()
    print('#include "base/random_core.h"')
    print()
    print("#ifndef PLIM_NORMAL_TABLE_AT /* a device defines it as `static __device__ const` */")
    print("#define PLIM_NORMAL_TABLE_AT static const")
    print("#endif")
    print()
    print("/* clang-format off */")
    print("PLIM_NORMAL_TABLE_AT plim_normal_segment")
    print("plim_normal_table[PLIM_NORMAL_OCTAVES * PLIM_NORMAL_SEGMENTS] = {")
    for e in range(OCTAVES):
        for k in range(0, SEGMENTS, 4):
            row = (segment(e, k + i) for i in range(4))
            print("    " + " ".join("{%d, %d, %d}," % s for s in row))
    print("};")
    print("/* clang-format on */")
    print()
    print("#endif")


if __name__ == "__main__":
    main()
