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

/* What fills a tensor; constant: *value. */
typedef enum content { NORMAL, CONSTANT, A_LOG } content;

static content content_of(const plim_spec *s, const plim_tensor_decl *decl, float *value)
{
    plim_target target;
    switch (plim_tensor_role_of(decl->name, &target)) {
    case PLIM_ROLE_NORM: *value = s->unit_offset_norm ? 0 : 1; return CONSTANT;
    case PLIM_ROLE_GATED_NORM:
    case PLIM_ROLE_DT_BIAS: *value = 1; return CONSTANT;
    case PLIM_ROLE_BIAS: *value = 0; return CONSTANT;
    case PLIM_ROLE_A_LOG: return A_LOG;
    default: return NORMAL;
    }
}

void plim_random_tensor(const plim_spec *s, uint64_t seed, const plim_tensor_decl *decl, uint64_t first,
                        size_t count, float *out)
{
    const plim_random r = {seed, plim_fnv1a64(decl->name)};
    float value;
    switch (content_of(s, decl, &value)) {
    case NORMAL: fill_normal(r, first, count, (float)s->initializer_range, out); break;
    case CONSTANT: fill_constant(value, count, out); break;
    case A_LOG: fill_a_log(r, first, count, out); break;
    }
}

bool plim_random_tensor_fill(const plim_spec *s, uint64_t seed, const plim_tensor_decl *decl,
                             plim_fill_args *out)
{
    float value = 0;
    content is = content_of(s, decl, &value);
    if (is == A_LOG) return false;
    *out = (plim_fill_args){.kind = is == NORMAL ? PLIM_FILL_NORMAL : PLIM_FILL_CONSTANT,
                            .seed = seed,
                            .stream = plim_fnv1a64(decl->name),
                            .a = (double)value,
                            .b = s->initializer_range};
    return true;
}
