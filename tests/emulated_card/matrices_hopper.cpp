// matrices_hopper.cpp - matrix products of a warp group, capability 9.0: each warp does its 16 of 64 rows,
// as late as a card may.
#include "ops/cuda/instructions_hopper.h"

#include "fibers.h"

using namespace emulated;

namespace {

enum { MOST_COLUMNS = 128, DEPTH = 16 };

/* What an operand's name says (PTX ISA, matrix descriptors): start, bytes between panels and between blocks
 * of eight rows; always the 128-byte swizzle here. */
struct operand_view {
    uint32_t start, panel, block;
};

operand_view view_of(uint64_t name)
{
    if (name >> 62 != 1) report("wgmma: an operand without the 128-byte swizzle is not emulated");
    return {(uint32_t)(name & 0x3fff) << 4, (uint32_t)(name >> 16 & 0x3fff) << 4,
            (uint32_t)(name >> 32 & 0x3fff) << 4};
}

/* Eight neighbouring elements; start is a multiple of 16 bytes, which the swizzle moves as one. */
void eight(uint32_t address, float *to, int step)
{
    uint16_t bits[8];
    memcpy(bits, shared_at(address ^ (address >> 7 & 7) << 4, sizeof bits), sizeof bits);
    for (int i = 0; i < 8; i++) to[i * step] = __uint_as_float((uint32_t)bits[i] << 16);
}

/* Row r of an operand whose rows are 16 columns long; step: between its elements in to. */
void by_rows(const operand_view &v, int r, float *to, int step)
{
    const uint32_t at = v.start + (uint32_t)(r / 8) * v.block + (uint32_t)(r % 8) * 128;
    eight(at, to, step);
    eight(at + 16, to + 8 * step, step);
}

/* Row k of an operand of 16 rows, panels of 64 columns. */
void by_columns(const operand_view &v, int k, int columns, float *to)
{
    for (int n = 0; n < columns; n += 8)
        eight(v.start + (uint32_t)(n / 64) * v.panel + (uint32_t)(k / 8) * v.block + (uint32_t)(k % 8) * 128 +
                  (uint32_t)(n % 64) * 2,
              to + n, 1);
}

void read_left(float a[16][DEPTH], void *const lanes[LANES], size_t at)
{
    const fiber *first = (const fiber *)lanes[0];
    const product &p = first->products[at];
    if (!p.held) {
        const operand_view v = view_of(p.left);
        for (int i = 0; i < 16; i++) by_rows(v, first->warp % 4 * 16 + i, a[i], 1);
        return;
    }
    for (int i = 0; i < LANES; i++)
        for (int n = 0; n < 4; n++) {
            const uint32_t word = ((const fiber *)lanes[i])->products[at].a[n];
            float *to = &a[i / 4 + n % 2 * 8][2 * (i % 4) + n / 2 * 8];
            to[0] = __uint_as_float(word << 16);
            to[1] = __uint_as_float(word & 0xffff0000u);
        }
}

void perform(void *const lanes[LANES], size_t at)
{
    static float a[16][DEPTH], b[DEPTH][MOST_COLUMNS], c[16][MOST_COLUMNS];
    const product &p = ((const fiber *)lanes[0])->products[at];
    const operand_view v = view_of(p.right);
    read_left(a, lanes, at);
    if (p.transposed)
        for (int k = 0; k < DEPTH; k++) by_columns(v, k, p.columns, b[k]);
    else
        for (int n = 0; n < p.columns; n++) by_rows(v, n, &b[0][n], MOST_COLUMNS);
    for (int i = 0; i < 16; i++)
        for (int n = 0; n < p.columns; n++) c[i][n] = 0;
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < DEPTH; k++)
            for (int n = 0; n < p.columns; n++) c[i][n] += a[i][k] * b[k][n];
    for (int i = 0; i < LANES; i++) {
        const product &mine = ((const fiber *)lanes[i])->products[at];
        for (int n = 0; n < p.columns / 2; n++) {
            const float x = c[i / 4 + n / 2 % 2 * 8][n / 4 * 8 + i % 4 * 2 + n % 2];
            mine.c[n] = mine.add ? mine.c[n] + x : x;
        }
    }
}

/* Does every product of the groups that were committed before the last `left`. */
void catch_up(void *const lanes[LANES], int left)
{
    const fiber *first = (const fiber *)lanes[0];
    size_t n = 0;
    for (int i = 0; i < LANES; i++)
        if (!lanes[i]) report("wgmma without lane %d", i);
    while (n < first->products.size() && first->products[n].group < first->product_group - left)
        perform(lanes, n++);
    for (int i = 0; i < LANES; i++) {
        std::vector<product> &all = ((fiber *)lanes[i])->products;
        all.erase(all.begin(), all.begin() + (ptrdiff_t)n);
    }
}

template <int LEFT> void catch_up_to(void *const lanes[LANES])
{
    catch_up(lanes, LEFT);
}

void begin(const product &p)
{
    self->products.push_back(p);
    if (early()) meet("wgmma", self, catch_up_to<-1>);
}

} // namespace

void group_commit()
{
    self->product_group++;
}

void emulated_group_wait(int left)
{
    if (left == 0) meet("wgmma.wait_group 0", self, catch_up_to<0>);
    else if (left == 1) meet("wgmma.wait_group 1", self, catch_up_to<1>);
    else report("wgmma.wait_group %d is not emulated", left);
}

void group_multiply(float (&c)[32], uint64_t a, uint64_t b, bool add)
{
    begin({c, {0, 0, 0, 0}, a, b, 64, self->product_group, false, add, false});
}

void group_multiply_own(float (&c)[64], const uint32_t (&a)[4], uint64_t b)
{
    begin({c, {a[0], a[1], a[2], a[3]}, 0, b, 128, self->product_group, true, true, true});
}

void group_multiply_held(float (&c)[16], const uint32_t (&a)[4], uint64_t b, bool add)
{
    begin({c, {a[0], a[1], a[2], a[3]}, 0, b, 32, self->product_group, true, add, false});
}

void pair_arrive()
{
    barrier_arrive(1, 256);
}

void pair_sync()
{
    barrier_sync(1, 256);
}
