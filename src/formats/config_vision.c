/* config_vision.c - reads what lies in the files beside the text model and is never loaded: the vision tower
 * and the layers of multi-token prediction.  Only their tensors' names and shapes matter. */
#include "formats/config.h"

static plim_status read_mtp(plim_config *g)
{
    bool dedicated = false;
    TRY(plim_json_i64_opt(&g->json, g->text, g->text_path, "mtp_num_hidden_layers", 0, 64,
                          &g->spec.mtp_layers));
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "mtp_use_dedicated_embeddings", &dedicated));
    if (dedicated && g->spec.mtp_layers)
        return plim_config_fail(g, "mtp_use_dedicated_embeddings", PLIM_E_UNSUPPORTED,
                                "true is not supported; multi-token prediction must share the embedding");
    return PLIM_OK;
}

static plim_status read_tower(plim_config *g, const json_t *tower)
{
    static const char path[] = "vision_config";
    plim_vision *v = &g->spec.vision;
    const plim_json *j = &g->json;
    const json_t *deepstack = NULL;
    const struct {
        const char *key;
        int64_t max, *out;
    } fields[] = {
        {"depth", PLIM_MAX_LAYERS, &v->depth},
        {"hidden_size", 1 << 20, &v->hidden},
        {"intermediate_size", 1 << 20, &v->mlp},
        {"num_heads", 1 << 16, &v->heads},
        {"in_channels", 1 << 10, &v->in_channels},
        {"patch_size", 1 << 10, &v->patch},
        {"temporal_patch_size", 1 << 6, &v->temporal_patch},
        {"spatial_merge_size", 1 << 4, &v->spatial_merge},
        {"num_position_embeddings", 1 << 26, &v->positions},
        {"out_hidden_size", PLIM_CONFIG_MAX_DIM, &v->out_hidden},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        TRY(plim_json_i64(j, tower, path, fields[i].key, 1, fields[i].max, fields[i].out));
    TRY(plim_json_array_opt(j, tower, path, "deepstack_visual_indexes", &deepstack));
    if (json_array_size(deepstack))
        return plim_json_fail(
            j, "vision_config.deepstack_visual_indexes", PLIM_E_UNSUPPORTED,
            "%zu entries: further mergers in the vision tower are not supported; an empty list is",
            json_array_size(deepstack));
    if (v->hidden % v->heads)
        return plim_json_fail(j, "vision_config.num_heads", PLIM_E_SHAPE,
                              "%lld heads do not divide hidden_size %lld", (long long)v->heads,
                              (long long)v->hidden);
    if (v->out_hidden != g->spec.hidden)
        return plim_json_fail(j, "vision_config.out_hidden_size", PLIM_E_SHAPE,
                              "%lld must be hidden_size of text_config, %lld", (long long)v->out_hidden,
                              (long long)g->spec.hidden);
    v->present = true;
    return PLIM_OK;
}

plim_status plim_config_vision(plim_config *g)
{
    const json_t *tower = NULL;
    if (g->spec.family != PLIM_FAMILY_QWEN3_5) return PLIM_OK;
    TRY(read_mtp(g));
    if (!g->spec.multimodal) return PLIM_OK;
    TRY(plim_json_object_opt(&g->json, g->root, "", "vision_config", &tower));
    return tower ? read_tower(g, tower) : PLIM_OK;
}
