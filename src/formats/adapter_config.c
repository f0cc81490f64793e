/* adapter_config.c - decides which members of an adapter_config.json are read, which may be ignored, and that
 * every other one must be off. */
#include "formats/adapter_config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

#define CAP_BYTES ((size_t)1 << 20)

double plim_adapter_scale(const plim_adapter_config *g)
{
    return g->rslora ? g->alpha / sqrt((double)g->rank) : g->alpha / (double)g->rank;
}

/* Members that say nothing about the result, and those read below. */
static const char *const known[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

static bool is_known(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i])) return true;
    return false;
}

static bool is_off(const json_t *value)
{
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_null(value) || json_is_false(value);
}

static plim_status check_members(const plim_json *j)
{
    const char *key;
    json_t *value;
    json_object_foreach(j->root, key, value)
    {
        if (is_known(key) || is_off(value)) continue;
        return plim_json_fail(
            j, key, PLIM_E_UNSUPPORTED,
            "plimsoll's adapters know no %s; plain LoRA on whole projections, the same rank "
            "and alpha everywhere, would work",
            key);
    }
    return PLIM_OK;
}

/* Member key is one of the allowed words (NULL ends them), or absent where that is allowed. */
static plim_status check_word(const plim_json *j, const char *key, bool needed, const char *const *allowed)
{
    const char *word = NULL;
    TRY(needed ? plim_json_string(j, j->root, "", key, &word)
               : plim_json_string_opt(j, j->root, "", key, &word));
    if (!word) return PLIM_OK;
    for (const char *const *w = allowed; *w; w++)
        if (!strcmp(word, *w)) return PLIM_OK;
    return plim_json_fail(j, key, PLIM_E_UNSUPPORTED, "'%.60s' is not what plimsoll trains; '%s' would work",
                          word, allowed[0]);
}

/* PiSSA, OLoRA, CorDA and LoftQ move part of the base weights into the adapter. */
static plim_status check_initialisation(const plim_json *j)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const json_t *value = json_object_get(j->root, "init_lora_weights");
    if (!value || json_is_null(value) || json_is_boolean(value)) return PLIM_OK;
    if (!json_is_string(value))
        return plim_json_fail(j, "init_lora_weights", PLIM_E_FORMAT, "wanted true, false or a string");
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (!strcmp(json_string_value(value), harmless[i])) return PLIM_OK;
    return plim_json_fail(j, "init_lora_weights", PLIM_E_UNSUPPORTED,
                          "'%.60s' may have changed the base weights; let PEFT convert the adapter to plain "
                          "LoRA (save_pretrained with path_initial_model_for_weight_conversion)",
                          json_string_value(value));
}

static bool target_of(const char *name, uint32_t *bits)
{
    for (int t = 0; t < PLIM_TARGET_COUNT; t++) {
        if (strcmp(name, plim_target_name((plim_target)t))) continue;
        *bits |= PLIM_TARGET_BIT(t);
        return true;
    }
    return false;
}

static plim_status read_targets(const plim_json *j, plim_adapter_config *g)
{
    const json_t *value = json_object_get(j->root, "target_modules"), *list = NULL;
    if (json_is_string(value)) return PLIM_OK;
    TRY(plim_json_array(j, j->root, "", "target_modules", &list));
    if (json_array_size(list) == 0)
        return plim_json_fail(j, "target_modules", PLIM_E_FORMAT,
                              "no module is named, so there is no adapter");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name;
        char path[64];
        TRY(plim_json_at_string(j, list, "target_modules", i, &name));
        if (target_of(name, &g->targets)) continue;
        snprintf(path, sizeof path, "target_modules[%zu]", i);
        return plim_json_fail(
            j, path, PLIM_E_UNSUPPORTED,
            "'%.60s' is no projection an adapter can sit on here; known: q_proj, k_proj, v_proj, "
            "o_proj, gate_proj, up_proj, down_proj, in_proj_qkv, in_proj_z, out_proj, in_proj_b, "
            "in_proj_a",
            name);
    }
    return PLIM_OK;
}

static plim_status read_members(const plim_json *j, plim_adapter_config *g)
{
    const char *base = "";
    bool transposed = false;
    TRY(check_word(j, "peft_type", true, (const char *const[]){"LORA", NULL}));
    TRY(check_word(j, "task_type", false, (const char *const[]){"CAUSAL_LM", NULL}));
    TRY(check_word(j, "bias", false, (const char *const[]){"none", NULL}));
    TRY(plim_json_bool_opt(j, j->root, "", "fan_in_fan_out", &transposed));
    if (transposed)
        return plim_json_fail(j, "fan_in_fan_out", PLIM_E_UNSUPPORTED,
                              "weights stored [in, out] belong to other models; false would work");
    TRY(check_initialisation(j));
    TRY(check_members(j));
    TRY(plim_json_i64(j, j->root, "", "r", 1, PLIM_MAX_RANK, &g->rank));
    TRY(plim_json_double(j, j->root, "", "lora_alpha", 1e-6, 1e6, &g->alpha));
    TRY(plim_json_double_opt(j, j->root, "", "lora_dropout", 0, 0.999999, &g->dropout));
    TRY(plim_json_bool_opt(j, j->root, "", "use_rslora", &g->rslora));
    TRY(plim_json_string_opt(j, j->root, "", "base_model_name_or_path", &base));
    if (strlen(base) >= sizeof g->base_model)
        return plim_json_fail(j, "base_model_name_or_path", PLIM_E_RANGE, "longer than %zu bytes",
                              sizeof g->base_model - 1);
    snprintf(g->base_model, sizeof g->base_model, "%s", base);
    return read_targets(j, g);
}

plim_status plim_adapter_config_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                      plim_adapter_config *out)
{
    plim_json j = {0};
    plim_adapter_config g = {0};
    TRY(plim_json_parse(c, name, text, bytes, CAP_BYTES, &j));
    plim_status st = PLIM_OK;
    if (!json_is_object(j.root)) st = plim_json_fail(&j, "", PLIM_E_FORMAT, "wanted an object");
    if (!st) st = read_members(&j, &g);
    plim_json_close(&j);
    if (!st) *out = g;
    return st;
}

plim_status plim_adapter_config_load(plim_ctx *c, const char *path, plim_adapter_config *out)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_adapter_config_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* A JSON string; base_model is the only text that is not ours. */
static plim_status write_text(plim_ctx *c, plim_writer *w, const char *text)
{
    plim_writer_write(w, "\"", 1);
    for (const char *p = text; *p;) {
        size_t n = plim_utf8_length(p);
        if (n == 0) return plim_fail(c, PLIM_E_FORMAT, "the base model's name '%.80s' is not UTF-8", text);
        if (*p == '"' || *p == '\\') plim_writer_printf(w, "\\%c", *p);
        else if ((unsigned char)*p < 0x20) plim_writer_printf(w, "\\u%04x", (unsigned)*p);
        else plim_writer_write(w, p, n);
        p += n;
    }
    return plim_writer_write(w, "\"", 1);
}

static bool digits_keep(double x, int digits)
{
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, x);
    return strtod(text, NULL) == x;
}

static void write_number(plim_writer *w, double x)
{
    if (x == floor(x) && fabs(x) < 1e15) plim_writer_printf(w, "%.0f", x);
    else plim_writer_printf(w, "%.*g", digits_keep(x, 15) ? 15 : 17, x);
}

static plim_status write_members(plim_ctx *c, plim_writer *w, const plim_adapter_config *g)
{
    plim_writer_printf(
        w, "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n  \"base_model_name_or_path\": ");
    if (g->base_model[0]) TRY(write_text(c, w, g->base_model));
    else plim_writer_printf(w, "null");
    plim_writer_printf(w,
                       ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n  \"inference_mode\": true,\n"
                       "  \"init_lora_weights\": true,\n  \"layers_pattern\": null,\n"
                       "  \"layers_to_transform\": null,\n  \"lora_alpha\": ");
    write_number(w, g->alpha);
    plim_writer_printf(w, ",\n  \"lora_dropout\": ");
    write_number(w, g->dropout);
    plim_writer_printf(w,
                       ",\n  \"modules_to_save\": null,\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n"
                       "  \"rank_pattern\": {},\n  \"revision\": null,\n  \"target_modules\": [",
                       (long long)g->rank);
    const char *between = "";
    for (int t = 0; t < PLIM_TARGET_COUNT; t++) {
        if (!(g->targets & PLIM_TARGET_BIT(t))) continue;
        plim_writer_printf(w, "%s\n    \"%s\"", between, plim_target_name((plim_target)t));
        between = ",";
    }
    return plim_writer_printf(w, "\n  ],\n  \"task_type\": \"CAUSAL_LM\",\n  \"use_rslora\": %s\n}\n",
                              g->rslora ? "true" : "false");
}

plim_status plim_adapter_config_write(plim_ctx *c, const char *path, const plim_adapter_config *g)
{
    plim_writer *w = NULL;
    assert(g->targets);
    TRY(plim_writer_open(c, path, &w));
    plim_status st = write_members(c, w, g);
    if (!st) return plim_writer_commit(w);
    plim_writer_abort(w);
    return st;
}
