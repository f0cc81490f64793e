/* random_weights.c - decides the distribution of each kind of tensor. */
#include "model/random_weights.h"

#include <math.h>

#include "base/fnv.h"
#include "base/random.h"
#include "model/tensor_map.h"

enum { PIECE = 4096, THREADED_FROM = 1 << 16 };

static void fill_constant(float value, size_t count, float *out)
{
    for (size_t k = 0; k < count; k++) out[k] = value;
}

static void fill_a_log(plim_random r, uint64_t first, size_t count, float *out)
{
    for (size_t k = 0; k < count; k++) {
        double u = ((double)(plim_random_u32(r, first + k) >> 8) + 0.5) * 0x1p-24;
        out[k] = (float)log(16 * u);
    }
}

static void fill_normal(plim_random r, uint64_t first, size_t count, float sigma, float *out)
{
#pragma omp parallel for if (count >= THREADED_FROM)
    for (size_t k = 0; k < count; k += PIECE)
        plim_random_fill_normal(r, first + k, count - k < PIECE ? count - k : PIECE, sigma, out + k);
}

void plim_random_tensor(const plim_spec *s, uint64_t seed, const plim_tensor_decl *decl, uint64_t first,
                        size_t count, float *out)
{
    plim_target target;
    const plim_random r = {seed, plim_fnv1a64(decl->name)};
    switch (plim_tensor_role_of(decl->name, &target)) {
    case PLIM_ROLE_EMBEDDING:
    case PLIM_ROLE_HEAD:
    case PLIM_ROLE_WEIGHT:
    case PLIM_ROLE_CONV: fill_normal(r, first, count, (float)s->initializer_range, out); break;
    case PLIM_ROLE_NORM: fill_constant(s->unit_offset_norm ? 0 : 1, count, out); break;
    case PLIM_ROLE_GATED_NORM:
    case PLIM_ROLE_DT_BIAS: fill_constant(1, count, out); break;
    case PLIM_ROLE_BIAS: fill_constant(0, count, out); break;
    case PLIM_ROLE_A_LOG: fill_a_log(r, first, count, out); break;
    }
}
