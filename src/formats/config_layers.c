/* config_layers.c - decides the type of every layer.  layer_types wins over full_attention_interval; a
 * sliding window that any layer would use is refused; sizes of the delta-net are read when a layer needs
 * them. */
#include "formats/config.h"

#include <string.h>

static plim_status read_layer_types(plim_config *g, const json_t *types)
{
    plim_spec *s = &g->spec;
    char path[64];
    size_t n = json_array_size(types);
    if (n != (size_t)s->layers)
        return plim_config_fail(g, "layer_types", PLIM_E_FORMAT,
                                "has %zu entries, but num_hidden_layers is %lld", n, (long long)s->layers);
    for (size_t i = 0; i < n; i++) {
        const char *word = NULL;
        snprintf(path, sizeof path, "%s%slayer_types", g->text_path, *g->text_path ? "." : "");
        TRY(plim_json_at_string(&g->json, types, path, i, &word));
        if (strcmp(word, "full_attention") == 0) s->layer_type[i] = PLIM_LAYER_ATTENTION;
        else if (strcmp(word, "linear_attention") == 0 && s->family == PLIM_FAMILY_QWEN3_5)
            s->layer_type[i] = PLIM_LAYER_DELTA;
        else {
            snprintf(path, sizeof path, "layer_types[%zu]", i);
            return plim_config_fail(
                g, path, PLIM_E_UNSUPPORTED, "\"%.40s\" is not supported for %s; %s", word, s->model_type,
                s->family == PLIM_FAMILY_QWEN3_5 ? "\"full_attention\" and \"linear_attention\" are"
                                                 : "\"full_attention\" is");
        }
    }
    return PLIM_OK;
}

static plim_status types_by_interval(plim_config *g, const json_t *types)
{
    plim_spec *s = &g->spec;
    int64_t interval = 0;
    const plim_json *j = &g->json;
    if (types)
        TRY(plim_json_i64_opt(j, g->text, g->text_path, "full_attention_interval", 1, INT64_MAX, &interval));
    else TRY(plim_json_i64(j, g->text, g->text_path, "full_attention_interval", 1, INT64_MAX, &interval));
    if (types) return PLIM_OK; /* only checked */
    for (int64_t i = 0; i < s->layers; i++)
        s->layer_type[i] = (i + 1) % interval ? PLIM_LAYER_DELTA : PLIM_LAYER_ATTENTION;
    return PLIM_OK;
}

/* Families differ in what an absent field means: a window of 4096 for mistral, and for qwen only when
 * use_sliding_window asks for it and a layer lies at or above max_window_layers. */
static plim_status refuse_window(const plim_config *g, const json_t *types)
{
    const plim_spec *s = &g->spec;
    const json_t *value = json_object_get(g->text, "sliding_window");
    bool mistral = s->family == PLIM_FAMILY_MISTRAL, use = false;
    bool qwen = s->family == PLIM_FAMILY_QWEN2 || s->family == PLIM_FAMILY_QWEN3;
    int64_t window = 0, full_layers = 0;
    TRY(plim_json_i64_opt(&g->json, g->text, g->text_path, "sliding_window", 0, INT64_MAX, &window));
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "use_sliding_window", &use));
    TRY(plim_json_i64_opt(&g->json, g->text, g->text_path, "max_window_layers", 0, INT64_MAX, &full_layers));
    if (json_is_null(value)) return PLIM_OK;
    if (mistral && !value)
        return plim_config_fail(g, "sliding_window", PLIM_E_UNSUPPORTED,
                                "is missing, which means a window of 4096 tokens; a sliding window is not "
                                "supported, write null if the model has none");
    if (qwen && (!use || types || full_layers >= s->layers)) return PLIM_OK;
    if (!qwen && !value) return PLIM_OK;
    return plim_config_fail(
        g, "sliding_window", PLIM_E_UNSUPPORTED,
        "%lld: a sliding window is not supported; every layer must attend to the whole sample",
        (long long)window);
}

/* The sizes differ between models of one family, so none has a default. */
static plim_status read_delta(plim_config *g)
{
    plim_spec *s = &g->spec;
    const struct {
        const char *key;
        int64_t max, *out;
    } fields[] = {
        {"linear_num_key_heads", 1 << 16, &s->key_heads},
        {"linear_num_value_heads", 1 << 16, &s->value_heads},
        {"linear_key_head_dim", 1 << 16, &s->key_dim},
        {"linear_value_head_dim", 1 << 16, &s->value_dim},
        {"linear_conv_kernel_dim", 1 << 10, &s->conv_taps},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        TRY(plim_json_i64(&g->json, g->text, g->text_path, fields[i].key, 1, fields[i].max, fields[i].out));
    if (s->value_heads % s->key_heads)
        return plim_config_fail(g, "linear_num_key_heads", PLIM_E_SHAPE,
                                "%lld key heads do not divide %lld value heads", (long long)s->key_heads,
                                (long long)s->value_heads);
    int64_t channels = 2 * s->key_heads * s->key_dim + s->value_heads * s->value_dim;
    if (channels > PLIM_CONFIG_MAX_DIM)
        return plim_config_fail(g, "linear_num_value_heads", PLIM_E_RANGE,
                                "the delta-net would have %lld channels, out of range; %lld is the most",
                                (long long)channels, (long long)PLIM_CONFIG_MAX_DIM);
    return PLIM_OK;
}

plim_status plim_config_layers(plim_config *g)
{
    const json_t *types = NULL;
    TRY(plim_json_array_opt(&g->json, g->text, g->text_path, "layer_types", &types));
    if (g->spec.family == PLIM_FAMILY_QWEN3_5) TRY(types_by_interval(g, types));
    if (types) TRY(read_layer_types(g, types));
    TRY(refuse_window(g, types));
    return plim_spec_layers_of(&g->spec, PLIM_LAYER_DELTA) ? read_delta(g) : PLIM_OK;
}
