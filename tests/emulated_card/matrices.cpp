// matrices.cpp - the matrix instructions of a warp: fragments and products of capability 8.0.
#include "ops/cuda/instructions.h"

#include "fibers.h"

using namespace emulated;

namespace {

float low(uint32_t word)
{
    return __uint_as_float(word << 16);
}

float high(uint32_t word)
{
    return __uint_as_float(word & 0xffff0000u);
}

struct product_of_lane {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};

/* Every lane of a warp has to take part. */
void whole(void *const lanes[LANES], const char *what)
{
    for (int i = 0; i < LANES; i++)
        if (!lanes[i]) report("%s without lane %d", what, i);
}

void multiply(void *const lanes[LANES])
{
    float a[16][16], b[16][8], c[16][8];
    whole(lanes, "mma");
    for (int i = 0; i < LANES; i++) {
        const product_of_lane *p = (const product_of_lane *)lanes[i];
        const int g = i / 4, t = i % 4;
        for (int n = 0; n < 4; n++) {
            a[g + n % 2 * 8][2 * t + n / 2 * 8] = low(p->a[n]);
            a[g + n % 2 * 8][2 * t + n / 2 * 8 + 1] = high(p->a[n]);
            c[g + n / 2 * 8][2 * t + n % 2] = p->c[n];
        }
        for (int n = 0; n < 2; n++) {
            b[2 * t + 8 * n][g] = low(p->b[n]);
            b[2 * t + 8 * n + 1][g] = high(p->b[n]);
        }
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) c[i][j] += a[i][k] * b[k][j];
    for (int i = 0; i < LANES; i++)
        for (int n = 0; n < 4; n++)
            ((product_of_lane *)lanes[i])->c[n] = c[i / 4 + n / 2 * 8][i % 4 * 2 + n % 2];
}

struct load_of_lane {
    const uint16_t *row; /* row lane % 8 of block lane / 8 */
    uint32_t *r;
};

template <bool TRANSPOSED> void load(void *const lanes[LANES])
{
    whole(lanes, "ldmatrix");
    for (int i = 0; i < LANES; i++)
        for (int block = 0; block < 4; block++) {
            const int g = i / 4, t = i % 4;
            auto at = [&](int row, int col) {
                return (uint32_t)((const load_of_lane *)lanes[8 * block + row])->row[col];
            };
            ((load_of_lane *)lanes[i])->r[block] =
                TRANSPOSED ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
        }
}

struct word_of_lane {
    uint32_t given, got;
};

void transpose(void *const lanes[LANES])
{
    whole(lanes, "movmatrix");
    auto at = [&](int row, int col) {
        const uint32_t word = ((const word_of_lane *)lanes[4 * row + col / 2])->given;
        return col % 2 ? word >> 16 : word & 0xffffu;
    };
    for (int i = 0; i < LANES; i++)
        ((word_of_lane *)lanes[i])->got = at(2 * (i % 4), i / 4) | at(2 * (i % 4) + 1, i / 4) << 16;
}

load_of_lane row_at(uint32_t at, uint32_t *r)
{
    if (at % 16) report("ldmatrix: an address is not a multiple of 16");
    return {(const uint16_t *)shared_at(at, 16), r};
}

} // namespace

void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    product_of_lane p = {c, a, {b0, b1}};
    meet("mma", &p, multiply);
}

void ldsm(uint32_t r[4], uint32_t at)
{
    load_of_lane l = row_at(at, r);
    meet("ldmatrix", &l, load<false>);
}

void ldsm_t(uint32_t r[4], uint32_t at)
{
    load_of_lane l = row_at(at, r);
    meet("ldmatrix.trans", &l, load<true>);
}

uint32_t transpose8(uint32_t x)
{
    word_of_lane w = {x, 0};
    meet("movmatrix", &w, transpose);
    return w.got;
}
