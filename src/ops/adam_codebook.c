/* adam_codebook.c - decides the 256 values of a code book: seven decades of even midpoints, 0 and 1. */
#include "ops/adam_codebook.h"

#define DECADES 7

/* Cell j of n even cells of [0.1, 1], times scale. */
static float cell(int j, int n, double scale)
{
    return (float)(scale * (0.1 + 0.9 * (j + 0.5) / n));
}

void plim_adam_book_make(plim_adam_book *b, bool with_sign)
{
    static const double scale[DECADES] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int zero = with_sign ? PLIM_ADAM_ZERO_SIGNED : PLIM_ADAM_ZERO_UNSIGNED, above = zero + 1;
    b->value[zero] = 0;
    for (int i = 0; i < DECADES; i++) {
        int cells = with_sign ? 1 << i : 2 << i;
        for (int j = 0; j < cells; j++) {
            float x = cell(j, cells, scale[i]);
            if (with_sign) b->value[2 * zero - above] = -x;
            b->value[above++] = x;
        }
    }
    b->value[above] = 1;
    for (int i = 0; i < 255; i++) b->middle[i] = 0.5f * (b->value[i] + b->value[i + 1]);
}
