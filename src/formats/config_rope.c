/* config_rope.c - decides the rotary embedding: base, rotated columns, and the one scaling that is computed.
 * Three spellings are read: rope_parameters, the same one level deeper for each layer type, and the older
 * rope_scaling with the base beside it.  A scaling that is not computed is refused, never dropped. */
#include "formats/config.h"

#include <math.h>
#include <string.h>

#define PATH_BYTES 128
#define MAX_THETA  1e18

typedef struct block {
    const json_t *object; /* NULL: the config has none */
    char path[PATH_BYTES];
} block;

static void child(char out[PATH_BYTES], const char *path, const char *key)
{
    snprintf(out, PATH_BYTES, "%.80s%s%.40s", path, *path ? "." : "", key);
}

static bool has(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return v && !json_is_null(v);
}

/* Steps into the block of full attention when the blocks are one for each layer type. */
static plim_status enter_layered(const plim_config *g, block *b)
{
    static const char *const words[] = {"full_attention", "linear_attention", "sliding_attention",
                                        "chunked_attention"};
    const plim_json *j = &g->json;
    const json_t *inner = NULL;
    const char *key;
    json_t *value;
    bool layered = false;
    char path[PATH_BYTES];
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) layered = layered || has(b->object, words[w]);
    if (!layered) return PLIM_OK;
    TRY(plim_json_object(j, b->object, b->path, "full_attention", &inner));
    json_object_foreach((json_t *)(uintptr_t)b->object, key, value)
    {
        if (json_is_object(value) || json_is_null(value)) continue;
        child(path, b->path, key);
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED,
                              "stands beside blocks for layer types; move it into the block it belongs to");
    }
    b->object = inner;
    memcpy(path, b->path, sizeof path);
    child(b->path, path, "full_attention");
    return PLIM_OK;
}

/* The block that holds for full attention. */
static plim_status find_block(const plim_config *g, block *out)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    const plim_json *j = &g->json;
    const json_t *found[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        TRY(plim_json_object_opt(j, g->text, g->text_path, keys[i], &found[i]));
        if (g->root != g->text && has(g->root, keys[i]))
            return plim_json_fail(j, keys[i], PLIM_E_UNSUPPORTED,
                                  "stands beside text_config; move it into text_config");
    }
    if (found[0] && found[1] && !json_equal(found[0], found[1]))
        return plim_config_fail(g, keys[1], PLIM_E_UNSUPPORTED,
                                "differs from rope_parameters; both are present, keep the one that holds");
    int chosen = found[0] ? 0 : 1;
    out->object = found[chosen];
    child(out->path, g->text_path, keys[chosen]);
    return enter_layered(g, out);
}

/* A number that may stand in the block, beside it, or in both with one value; *found says whether it does. */
static plim_status read_either(const plim_config *g, const block *b, const char *key, double min, double max,
                               bool *found, double *out)
{
    const plim_json *j = &g->json;
    double inner = NAN, outer = NAN;
    if (b->object) TRY(plim_json_double_opt(j, b->object, b->path, key, min, max, &inner));
    TRY(plim_json_double_opt(j, g->text, g->text_path, key, min, max, &outer));
    if (!isnan(inner) && !isnan(outer) && inner != outer)
        return plim_config_fail(g, key, PLIM_E_UNSUPPORTED,
                                "%.17g here, but %.17g in %s; keep the one that holds", outer, inner,
                                b->path);
    *found = !isnan(inner) || !isnan(outer);
    if (*found) *out = isnan(inner) ? outer : inner;
    return PLIM_OK;
}

static plim_status read_type(const plim_config *g, const block *b, plim_rope_type *out)
{
    const plim_json *j = &g->json;
    const char *word = NULL, *older = NULL;
    char path[PATH_BYTES];
    *out = PLIM_ROPE_DEFAULT;
    if (!b->object) return PLIM_OK;
    TRY(plim_json_string_opt(j, b->object, b->path, "rope_type", &word));
    TRY(plim_json_string_opt(j, b->object, b->path, "type", &older));
    child(path, b->path, word ? "rope_type" : "type");
    if (word && older && strcmp(word, older) != 0)
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED,
                              "\"%.40s\" here, but type says \"%.40s\"; keep one", word, older);
    if (!word) word = older;
    if (!word || strcmp(word, "default") == 0) return PLIM_OK;
    if (g->spec.family != PLIM_FAMILY_QWEN3_5 && strcmp(word, "llama3") == 0) {
        *out = PLIM_ROPE_LLAMA3;
        return PLIM_OK;
    }
    return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "\"%.40s\" scaling is not supported for %s; %s", word,
                          g->spec.model_type,
                          g->spec.family == PLIM_FAMILY_QWEN3_5 ? "\"default\" is"
                                                                : "\"default\" and \"llama3\" are");
}

/* Fields that change the frequencies under another type: present here, they would be dropped. */
static plim_status refuse_unused(const plim_config *g, const block *b)
{
    static const char *const any[] = {"attention_factor", "beta_fast",      "beta_slow",
                                      "mscale",           "mscale_all_dim", "short_factor",
                                      "long_factor",      "alpha",          "truncate"};
    static const char *const llama3[] = {"factor", "low_freq_factor", "high_freq_factor"};
    char path[PATH_BYTES];
    const char *key = NULL;
    for (size_t i = 0; i < sizeof any / sizeof *any && !key; i++)
        if (has(b->object, any[i])) key = any[i];
    for (size_t i = 0; i < sizeof llama3 / sizeof *llama3 && !key; i++)
        if (g->spec.rope.type == PLIM_ROPE_DEFAULT && has(b->object, llama3[i])) key = llama3[i];
    if (!key) return PLIM_OK;
    const json_t *v = json_object_get(b->object, key);
    if (strcmp(key, "factor") == 0 && json_is_number(v) && json_number_value(v) == 1.0) return PLIM_OK;
    child(path, b->path, key);
    return plim_json_fail(
        &g->json, path, PLIM_E_UNSUPPORTED,
        "has no meaning for rope_type \"%s\" and would be ignored; name the scaling it belongs to, "
        "or delete it",
        g->spec.rope.type == PLIM_ROPE_DEFAULT ? "default" : "llama3");
}

static plim_status read_llama3(plim_config *g, const block *b)
{
    plim_rope *r = &g->spec.rope;
    const plim_json *j = &g->json;
    char path[PATH_BYTES];
    TRY(plim_json_double(j, b->object, b->path, "factor", 1.0, 1e6, &r->factor));
    TRY(plim_json_double(j, b->object, b->path, "low_freq_factor", 1e-6, 1e6, &r->low_freq_factor));
    TRY(plim_json_double(j, b->object, b->path, "high_freq_factor", 1e-6, 1e6, &r->high_freq_factor));
    TRY(plim_json_i64(j, b->object, b->path, "original_max_position_embeddings", 1, (int64_t)1 << 40,
                      &r->original_max_position));
    child(path, b->path, "high_freq_factor");
    if (r->high_freq_factor <= r->low_freq_factor)
        return plim_json_fail(j, path, PLIM_E_RANGE, "%g must be above low_freq_factor %g",
                              r->high_freq_factor, r->low_freq_factor);
    return PLIM_OK;
}

static plim_status read_theta(plim_config *g, const block *b)
{
    bool found;
    TRY(read_either(g, b, "rope_theta", 1.0, MAX_THETA, &found, &g->spec.rope.theta));
    if (!found)
        return plim_config_fail(
            g, "rope_theta", PLIM_E_FORMAT,
            "is missing here, in rope_parameters and in rope_scaling; the base is never guessed");
    return PLIM_OK;
}

static plim_status read_rotary_dim(plim_config *g, const block *b)
{
    plim_spec *s = &g->spec;
    bool found, hybrid = s->family == PLIM_FAMILY_QWEN3_5;
    double factor = 1.0;
    TRY(read_either(g, b, "partial_rotary_factor", 1e-6, 1.0, &found, &factor));
    if (hybrid && !found)
        return plim_config_fail(g, "partial_rotary_factor", PLIM_E_FORMAT,
                                "is missing here and in rope_parameters; %s needs it", s->model_type);
    if (!hybrid && factor != 1.0)
        return plim_config_fail(g, "partial_rotary_factor", PLIM_E_UNSUPPORTED,
                                "%g is not supported for %s; 1 is", factor, s->model_type);
    double columns = (double)s->head_dim * factor;
    s->rope.rotary_dim = (int64_t)columns;
    if (s->rope.rotary_dim < 2 || s->rope.rotary_dim % 2 || columns != (double)s->rope.rotary_dim)
        return plim_config_fail(
            g, hybrid ? "partial_rotary_factor" : "head_dim", PLIM_E_SHAPE,
            "%g of head_dim %lld makes %g rotating columns; they must be a positive even number", factor,
            (long long)s->head_dim, columns);
    return PLIM_OK;
}

plim_status plim_config_rope(plim_config *g)
{
    block b = {0};
    TRY(find_block(g, &b));
    TRY(read_type(g, &b, &g->spec.rope.type));
    TRY(refuse_unused(g, &b));
    TRY(read_theta(g, &b));
    TRY(read_rotary_dim(g, &b));
    return g->spec.rope.type == PLIM_ROPE_LLAMA3 ? read_llama3(g, &b) : PLIM_OK;
}
