/* adam_codebook.h - the two 256-entry code books of 8-bit Adam states, made on the spot.
 * docs/maths.md 5.1, 5.2. Every device gets the books from here, so that all choose the same codes. Source:
 * Dettmers et al. 2022, arXiv:2110.02861 (dynamic quantisation, blocks of 256). */
#ifndef PLIM_OPS_ADAM_CODEBOOK_H
#define PLIM_OPS_ADAM_CODEBOOK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PLIM_ADAM_FN static __host__ __device__ inline
#else
#define PLIM_ADAM_FN static inline
#endif

#define PLIM_ADAM_BLOCK         256 /* elements that share a maximum */
#define PLIM_ADAM_ZERO_SIGNED   127 /* the code of 0 */
#define PLIM_ADAM_ZERO_UNSIGNED 0

/* value ascends; middle[i] is halfway between value[i] and value[i + 1]. */
typedef struct plim_adam_book {
    float value[256], middle[255];
} plim_adam_book;

/* with_sign: the book of first moments, -0.99 .. 1 with 0 at 127; else of second moments, 0 .. 1 with 0 at
 * 0. */
void plim_adam_book_make(plim_adam_book *b, bool with_sign);

/* Code whose value is nearest to x; the lower one at a tie. */
PLIM_ADAM_FN uint8_t plim_adam_nearest(const plim_adam_book *b, float x)
{
    int low = 0, high = 255;
    while (low < high) {
        int at = (low + high) / 2;
        if (x > b->middle[at]) low = at + 1;
        else high = at;
    }
    return (uint8_t)low;
}

/* Code of m / max (max > 0).  A negative moment never takes the code of zero, so it keeps its sign. */
PLIM_ADAM_FN uint8_t plim_adam_code_m(const plim_adam_book *b, float m, float max)
{
    uint8_t code = plim_adam_nearest(b, m / max);
    return m < 0 && code == PLIM_ADAM_ZERO_SIGNED ? PLIM_ADAM_ZERO_SIGNED - 1 : code;
}

/* Code of v / max (max > 0).  A positive moment never takes the code of zero: with a first moment that
 * survived, a later small gradient would be divided by almost nothing (5.3). */
PLIM_ADAM_FN uint8_t plim_adam_code_v(const plim_adam_book *b, float v, float max)
{
    uint8_t code = plim_adam_nearest(b, v / max);
    return v > 0 && code == PLIM_ADAM_ZERO_UNSIGNED ? PLIM_ADAM_ZERO_UNSIGNED + 1 : code;
}

#endif
