/* config.c - decides which models are accepted and reads what all families share.
 * Layer types are in config_layers.c, rotary embedding in config_rope.c, what is never loaded in
 * config_vision.c. */
#include "formats/config.h"

#include <stdarg.h>
#include <string.h>

#include "base/file.h"

#define SUPPORTED "qwen3_5, qwen3_5_text, qwen3, qwen2, llama and mistral are supported"
/* Far above any model, far below where 64-bit sizes in bytes overflow. */
#define MAX_PARAMETERS ((int64_t)1 << 50)

static const struct {
    const char *model_type;
    plim_family family;
} family_table[] = {
    {"qwen3_5", PLIM_FAMILY_QWEN3_5}, {"qwen3_5_text", PLIM_FAMILY_QWEN3_5}, {"qwen3", PLIM_FAMILY_QWEN3},
    {"qwen2", PLIM_FAMILY_QWEN2},     {"llama", PLIM_FAMILY_LLAMA},          {"mistral", PLIM_FAMILY_MISTRAL},
};

plim_status plim_config_fail(const plim_config *g, const char *key, plim_status st, const char *fmt, ...)
{
    char what[1024], path[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(path, sizeof path, "%s%s%s", g->text_path, *g->text_path ? "." : "", key);
    return plim_json_fail(&g->json, path, st, "%s", what);
}

static bool has(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return v && !json_is_null(v);
}

/* ---- which model --------------------------------------------------------------------------------------- */

static plim_status find_family(plim_config *g)
{
    const char *type = NULL, *text_type = "qwen3_5_text";
    const plim_json *j = &g->json;
    TRY(plim_json_string(j, g->root, "", "model_type", &type));
    for (size_t i = 0; i < sizeof family_table / sizeof *family_table; i++) {
        if (strcmp(type, family_table[i].model_type) != 0) continue;
        g->spec.family = family_table[i].family;
        g->text = g->root;
        g->text_path = "";
        if (i == 0) { /* the multimodal wrapper */
            TRY(plim_json_object(j, g->root, "", "text_config", &g->text));
            g->text_path = "text_config";
            g->spec.multimodal = true;
            TRY(plim_json_string_opt(j, g->text, g->text_path, "model_type", &text_type));
            if (strcmp(text_type, "qwen3_5_text") != 0)
                return plim_config_fail(g, "model_type", PLIM_E_UNSUPPORTED,
                                        "\"%.80s\" is not supported here; \"qwen3_5_text\" is", text_type);
            type = text_type;
        }
        snprintf(g->spec.model_type, sizeof g->spec.model_type, "%s", type);
        return PLIM_OK;
    }
    bool experts = strstr(type, "moe") || strstr(type, "mixtral");
    return plim_json_fail(j, "model_type", PLIM_E_UNSUPPORTED, "\"%.80s\" is not supported%s; %s", type,
                          experts ? " (a mixture of experts)" : "", SUPPORTED);
}

/* A known model_type with experts inside is another model. */
static plim_status refuse_experts(const plim_config *g)
{
    static const char *const keys[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t n = 0;
        TRY(plim_json_i64_opt(&g->json, g->text, g->text_path, keys[i], 0, INT64_MAX, &n));
        if (n > 0)
            return plim_config_fail(g, keys[i], PLIM_E_UNSUPPORTED,
                                    "%lld experts: a mixture of experts is not supported; %s", (long long)n,
                                    SUPPORTED);
    }
    return PLIM_OK;
}

/* A quantised base is another set of tensors, wherever the block stands. */
static plim_status refuse_quantisation(const plim_config *g)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *method = "unnamed";
        char path[64];
        bool in_text = has(g->text, keys[i]);
        if (!in_text && !has(g->root, keys[i])) continue;
        const json_t *q = json_object_get(in_text ? g->text : g->root, keys[i]);
        if (json_is_string(json_object_get(q, "quant_method")))
            method = json_string_value(json_object_get(q, "quant_method"));
        snprintf(path, sizeof path, "%s%s%s", in_text ? g->text_path : "",
                 in_text && *g->text_path ? "." : "", keys[i]);
        return plim_json_fail(
            &g->json, path, PLIM_E_UNSUPPORTED,
            "quantised weights (%.40s) are not supported; use the bf16 model they were made from", method);
    }
    return PLIM_OK;
}

/* ---- dimensions ---------------------------------------------------------------------------------------- */

static plim_status read_dim(const plim_config *g, const char *key, int64_t max, int64_t *out)
{
    return plim_json_i64(&g->json, g->text, g->text_path, key, 1, max, out);
}

static plim_status read_heads(plim_config *g)
{
    plim_spec *s = &g->spec;
    bool dense_default =
        s->family == PLIM_FAMILY_LLAMA; /* the others have other defaults, so they must say */
    TRY(read_dim(g, "num_attention_heads", 1 << 16, &s->heads));
    s->kv_heads = s->heads;
    if (!dense_default || has(g->text, "num_key_value_heads"))
        TRY(read_dim(g, "num_key_value_heads", 1 << 16, &s->kv_heads));
    if (s->heads % s->kv_heads)
        return plim_config_fail(g, "num_key_value_heads", PLIM_E_SHAPE,
                                "%lld key/value heads do not divide %lld query heads", (long long)s->kv_heads,
                                (long long)s->heads);
    bool fixed = s->family == PLIM_FAMILY_QWEN3_5 || s->family == PLIM_FAMILY_QWEN3;
    if (fixed || has(g->text, "head_dim")) {
        TRY(read_dim(g, "head_dim", 1 << 16, &s->head_dim));
    } else {
        if (s->hidden % s->heads)
            return plim_config_fail(g, "num_attention_heads", PLIM_E_SHAPE,
                                    "%lld heads do not divide hidden_size %lld, and there is no head_dim",
                                    (long long)s->heads, (long long)s->hidden);
        s->head_dim = s->hidden / s->heads;
    }
    if (s->heads * s->head_dim > PLIM_CONFIG_MAX_DIM)
        return plim_config_fail(
            g, "num_attention_heads", PLIM_E_RANGE,
            "%lld heads of %lld columns are out of range; %lld columns in all is the most",
            (long long)s->heads, (long long)s->head_dim, (long long)PLIM_CONFIG_MAX_DIM);
    return PLIM_OK;
}

static plim_status read_dims(plim_config *g)
{
    plim_spec *s = &g->spec;
    TRY(read_dim(g, "num_hidden_layers", PLIM_MAX_LAYERS, &s->layers));
    TRY(read_dim(g, "hidden_size", PLIM_CONFIG_MAX_DIM, &s->hidden));
    TRY(read_dim(g, "intermediate_size", PLIM_CONFIG_MAX_DIM, &s->mlp));
    TRY(read_dim(g, "vocab_size", (int64_t)1 << 27, &s->vocab));
    TRY(read_dim(g, "max_position_embeddings", (int64_t)1 << 40, &s->max_position));
    TRY(plim_json_double(&g->json, g->text, g->text_path, "rms_norm_eps", 1e-20, 0.1, &s->rms_eps));
    s->initializer_range = 0.02; /* of every family's config class */
    TRY(plim_json_double_opt(&g->json, g->text, g->text_path, "initializer_range", 0, 100,
                             &s->initializer_range));
    return read_heads(g);
}

/* ---- conventions --------------------------------------------------------------------------------------- */

/* A word that must be silu, by whatever of its two names; absent means silu. */
static plim_status need_silu(const plim_config *g, const char *key)
{
    const char *word = "silu";
    TRY(plim_json_string_opt(&g->json, g->text, g->text_path, key, &word));
    if (strcmp(word, "silu") != 0 && strcmp(word, "swish") != 0)
        return plim_config_fail(g, key, PLIM_E_UNSUPPORTED, "\"%.40s\" is not supported; \"silu\" is", word);
    return PLIM_OK;
}

static plim_status read_biases(plim_config *g)
{
    plim_spec *s = &g->spec;
    bool qwen2 = s->family == PLIM_FAMILY_QWEN2, attention = qwen2, mlp = false;
    bool may = s->family == PLIM_FAMILY_LLAMA || s->family == PLIM_FAMILY_QWEN3;
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "attention_bias", &attention));
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "mlp_bias", &mlp));
    if (qwen2 && !attention)
        return plim_config_fail(g, "attention_bias", PLIM_E_UNSUPPORTED,
                                "false, but %s always has biases on q, k and v; delete the field",
                                s->model_type);
    if (!qwen2 && !may && attention)
        return plim_config_fail(g, "attention_bias", PLIM_E_UNSUPPORTED,
                                "true is not supported for %s; llama and qwen3 may have it", s->model_type);
    if (mlp && s->family != PLIM_FAMILY_LLAMA)
        return plim_config_fail(g, "mlp_bias", PLIM_E_UNSUPPORTED,
                                "true is not supported for %s; llama may have it", s->model_type);
    s->qkv_bias = attention;
    s->o_bias = attention && !qwen2;
    s->mlp_bias = mlp;
    return PLIM_OK;
}

/* The flag of the wrapper and the flag of the text config mean the same head; readers differ in which they
 * obey, so a contradiction has no right answer. */
static plim_status read_tie(plim_config *g)
{
    bool outer = false, inner = false;
    TRY(plim_json_bool_opt(&g->json, g->root, "", "tie_word_embeddings", &outer));
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "tie_word_embeddings", &inner));
    bool both = has(g->root, "tie_word_embeddings") && has(g->text, "tie_word_embeddings");
    if (both && outer != inner)
        return plim_config_fail(
            g, "tie_word_embeddings", PLIM_E_UNSUPPORTED,
            "%s here, but the top level says %s; make both say whether lm_head.weight is the "
            "embedding",
            inner ? "true" : "false", outer ? "true" : "false");
    g->spec.tied = outer || inner;
    return PLIM_OK;
}

static plim_status read_dtype(plim_config *g)
{
    static const char *const known[] = {"bfloat16", "float16", "float32", "float64"};
    static const char *const keys[] = {"torch_dtype", "dtype"}; /* the newer name wins */
    const char *word = NULL, *from = NULL;
    const json_t *const levels[] = {g->root, g->text};
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < 2; i++) {
            const char *before = word;
            TRY(plim_json_string_opt(&g->json, levels[l], l ? g->text_path : "", keys[i], &word));
            if (word != before) from = keys[i];
        }
    if (!word) return PLIM_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0) {
            snprintf(g->spec.dtype_name, sizeof g->spec.dtype_name, "%s", word);
            return PLIM_OK;
        }
    const char *path = has(g->text, from) && *g->text_path ? "text_config." : "";
    char full[64];
    snprintf(full, sizeof full, "%s%s", path, from);
    return plim_json_fail(
        &g->json, full, PLIM_E_UNSUPPORTED,
        "weights of type \"%.40s\" are not supported; bfloat16, float16, float32, float64 are", word);
}

static plim_status read_conventions(plim_config *g)
{
    plim_spec *s = &g->spec;
    bool hybrid = s->family == PLIM_FAMILY_QWEN3_5;
    s->unit_offset_norm = s->attention_gate = hybrid;
    s->qk_norm = hybrid || s->family == PLIM_FAMILY_QWEN3;
    TRY(need_silu(g, "hidden_act"));
    TRY(read_biases(g));
    TRY(read_tie(g));
    TRY(read_dtype(g));
    if (!hybrid) return PLIM_OK;
    TRY(need_silu(g, "output_gate_type"));
    TRY(plim_json_bool_opt(&g->json, g->text, g->text_path, "attn_output_gate", &s->attention_gate));
    if (!s->attention_gate)
        return plim_config_fail(g, "attn_output_gate", PLIM_E_UNSUPPORTED,
                                "false is not supported for %s; true is", s->model_type);
    return PLIM_OK;
}

static plim_status refuse_absurd_total(const plim_config *g)
{
    plim_counts n = plim_spec_counts(&g->spec);
    if (n.parameters > MAX_PARAMETERS || n.vision_parameters > MAX_PARAMETERS ||
        n.mtp_parameters > MAX_PARAMETERS)
        return plim_config_fail(
            g, "hidden_size", PLIM_E_RANGE,
            "these dimensions make %lld parameters, out of range; check them against the model",
            (long long)n.parameters);
    return PLIM_OK;
}

static plim_status read_config(plim_config *g)
{
    g->root = g->json.root;
    TRY(find_family(g));
    TRY(refuse_experts(g));
    TRY(refuse_quantisation(g));
    TRY(read_dims(g));
    TRY(read_conventions(g));
    TRY(plim_config_layers(g));
    TRY(plim_config_rope(g));
    TRY(plim_config_vision(g));
    return refuse_absurd_total(g);
}

plim_status plim_spec_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_spec *out)
{
    plim_config g;
    memset(&g, 0, sizeof g);
    TRY(plim_json_parse(c, name, text, bytes, PLIM_JSON_CAP_BYTES, &g.json));
    plim_status st = read_config(&g);
    plim_json_close(&g.json);
    if (st == PLIM_OK) *out = g.spec;
    return st;
}

plim_status plim_spec_load(plim_ctx *c, const char *path, plim_spec *out)
{
    char inside[PLIM_PATH_BYTES];
    plim_file f = {0};
    if (plim_path_is_folder(path)) {
        TRY(plim_path_join(c, inside, sizeof inside, path, "config.json"));
        if (!plim_path_is_file(inside))
            return plim_fail(c, PLIM_E_IO,
                             "%s: the folder holds no config.json; name the folder of a model, or its "
                             "config file",
                             path);
        path = inside;
    }
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_spec_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}

int64_t plim_spec_layers_of(const plim_spec *s, plim_layer_type type)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->layers; i++) n += s->layer_type[i] == type;
    return n;
}
