/* adapter.c - decides how adapter tensors are named, which files are accepted, and what a new adapter is. */
#include "train/adapter.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/floats.h"
#include "base/fnv.h"
#include "base/random.h"
#include "formats/safetensors.h"
#include "model/tensor_map.h"

#define KEY_START "base_model.model."

static const char *const prefixes[] = {"model.", "model.language_model."};

/* ---- keys ---------------------------------------------------------------------------------------------- */

void plim_adapter_key_of(const plim_spec *s, int64_t rank, const plim_adapter_tensor *t,
                         plim_adapter_key *out)
{
    snprintf(out->name, sizeof out->name, KEY_START "%slayers.%lld.%s.lora_%c.weight",
             prefixes[s->multimodal], (long long)t->layer, plim_target_module(t->target),
             t->is_b ? 'B' : 'A');
    out->rows = t->is_b ? t->rows : rank;
    out->cols = t->is_b ? rank : t->cols;
    out->tensor = *t;
}

typedef struct key_check {
    const plim_adapter_key *keys;
    size_t count, at;
} key_check;

/* Whether key is lora_A or lora_B of the weight d. */
static bool belongs(const plim_adapter_key *key, const plim_tensor_decl *d)
{
    static const char weight[] = ".weight";
    size_t n = strlen(d->name), start = strlen(KEY_START);
    if (n < sizeof weight || d->dims != 2) return false;
    n -= sizeof weight - 1;
    const char *rest = key->name + start + n;
    if (strncmp(key->name, KEY_START, start) || strncmp(key->name + start, d->name, n)) return false;
    if (strcmp(d->name + n, weight)) return false;
    if (!strcmp(rest, ".lora_A.weight")) return key->cols == d->shape[1];
    return !strcmp(rest, ".lora_B.weight") && key->rows == d->shape[0];
}

static bool match_decl(void *user, const plim_tensor_decl *d)
{
    key_check *k = user;
    while (k->at < k->count && belongs(&k->keys[k->at], d)) k->at++;
    return k->at < k->count;
}

plim_status plim_adapter_keys_check(plim_ctx *c, const plim_spec *s, const plim_adapter_key *keys,
                                    size_t count)
{
    key_check k = {keys, count, 0};
    plim_spec_tensors(s, PLIM_GROUP_TEXT, match_decl, &k);
    if (k.at == count) return PLIM_OK;
    return plim_fail(
        c, PLIM_E_MISMATCH,
        "%s [%lld, %lld]: the base has no weight this adapter tensor belongs to; its names start "
        "with %slayers.",
        keys[k.at].name, (long long)keys[k.at].rows, (long long)keys[k.at].cols, prefixes[s->multimodal]);
}

/* "base_model.model.model.layers.3.mlp.up_proj.lora_A.weight" -> 3, up, false. */
static bool parse_key(const char *name, int64_t layers, int64_t *layer, plim_target *target, bool *is_b)
{
    char expected[PLIM_ADAPTER_KEY_BYTES];
    const char *p = name + strlen(KEY_START);
    if (strncmp(name, KEY_START, strlen(KEY_START))) return false;
    for (int i = 0; i < 2; i++) {
        int at = snprintf(expected, sizeof expected, "%slayers.", prefixes[i]);
        if (strncmp(p, expected, (size_t)at) || p[at] < '0' || p[at] > '9') continue;
        char *end;
        *layer = strtol(p + at, &end, 10);
        if (*layer >= layers) return false;
        for (int t = 0; t < 2 * PLIM_TARGET_COUNT; t++) {
            *target = (plim_target)(t / 2);
            *is_b = t % 2;
            /* spelt out again, so that 03 is not taken for 3 */
            snprintf(expected, sizeof expected, "%slayers.%lld.%s.lora_%c.weight", prefixes[i],
                     (long long)*layer, plim_target_module(*target), *is_b ? 'B' : 'A');
            if (!strcmp(p, expected)) return true;
        }
    }
    return false;
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* An open adapter.  at: by layer, target and lora_A or lora_B, 1 + the tensor's number in the file. */
typedef struct source {
    plim_ctx *c;
    const plim_spec *spec;
    char path[PLIM_PATH_BYTES];
    plim_adapter_config config;
    plim_safetensors *file;
    size_t *at;
    uint32_t found; /* targets */
    plim_status st;
} source;

static size_t slot_of(int64_t layer, plim_target target, bool is_b)
{
    return ((size_t)layer * PLIM_TARGET_COUNT + (size_t)target) * 2 + is_b;
}

static const plim_safetensors_tensor *tensor_at(const source *s, const plim_adapter_tensor *t)
{
    size_t at = s->at[slot_of(t->layer, t->target, t->is_b)];
    return at ? plim_safetensors_at(s->file, at - 1) : NULL;
}

static plim_status note_tensor(source *s, size_t i)
{
    const plim_safetensors_tensor *t = plim_safetensors_at(s->file, i);
    int64_t layer;
    plim_target target;
    bool is_b;
    const plim_linear *linear;
    const plim_linear_weights *lies;
    if (!parse_key(t->name, s->spec->layers, &layer, &target, &is_b))
        return plim_fail(s->c, PLIM_E_MISMATCH,
                         "%s: %.200s: no such projection in this model; wanted names like " KEY_START
                         "%slayers.0.mlp.up_proj.lora_A.weight, of layers 0 to %lld",
                         s->path, t->name, prefixes[s->spec->multimodal], (long long)s->spec->layers - 1);
    plim_layer_linears l = plim_layer_linears_of(s->spec, (plim_layer_type)s->spec->layer_type[layer], 0, 0);
    if (!plim_layer_part_find(&l, NULL, target, &linear, &lies))
        return plim_fail(s->c, PLIM_E_MISMATCH, "%s: %.200s: layer %lld of this model has no %s", s->path,
                         t->name, (long long)layer, plim_target_name(target));
    size_t *at = &s->at[slot_of(layer, target, is_b)];
    if (*at)
        return plim_fail(s->c, PLIM_E_MISMATCH, "%s: %.200s is there twice: also as %.200s", s->path, t->name,
                         plim_safetensors_at(s->file, *at - 1)->name);
    if (t->dtype != PLIM_F32 && t->dtype != PLIM_F16 && t->dtype != PLIM_BF16)
        return plim_fail(s->c, PLIM_E_UNSUPPORTED, "%s: %.200s: found %s, wanted F32, F16 or BF16", s->path,
                         t->name, plim_dtype_name(t->dtype));
    *at = i + 1;
    s->found |= PLIM_TARGET_BIT(target);
    return PLIM_OK;
}

static void check_tensor(void *user, const plim_adapter_tensor *t)
{
    source *s = user;
    plim_adapter_key key;
    if (s->st) return;
    plim_adapter_key_of(s->spec, s->config.rank, t, &key);
    const plim_safetensors_tensor *have = tensor_at(s, t);
    if (!have) {
        s->st = plim_fail(
            s->c, PLIM_E_MISMATCH,
            "%s: %s is missing; an adapter has lora_A and lora_B of a projection in every layer that "
            "has the projection",
            s->path, key.name);
    } else if (have->dims != 2 || have->shape[0] != key.rows || have->shape[1] != key.cols) {
        s->st = plim_fail(s->c, PLIM_E_MISMATCH, "%s: %.200s: found [%lld, %lld]%s, wanted [%lld, %lld]",
                          s->path, have->name, have->dims > 0 ? (long long)have->shape[0] : 0LL,
                          have->dims > 1 ? (long long)have->shape[1] : 0LL,
                          have->dims == 2 ? "" : " with other dimensions", (long long)key.rows,
                          (long long)key.cols);
    }
}

static plim_status check_targets(source *s)
{
    uint32_t listed = plim_model_targets(s->spec, s->config.targets);
    if (!s->found)
        return plim_fail(s->c, PLIM_E_MISMATCH, "%s: holds no tensors, so there is no adapter", s->path);
    for (int t = 0; s->config.targets && t < PLIM_TARGET_COUNT; t++) {
        uint32_t bit = PLIM_TARGET_BIT(t);
        if ((listed & bit) == (s->found & bit)) continue;
        return plim_fail(s->c, PLIM_E_MISMATCH,
                         "%s: %s %s, but " PLIM_ADAPTER_CONFIG_NAME " %s in target_modules", s->path,
                         s->found & bit ? "holds tensors of" : "holds no tensor of",
                         plim_target_name((plim_target)t), s->found & bit ? "does not name it" : "names it");
    }
    s->config.targets = s->found;
    return PLIM_OK;
}

static plim_status open_tensors(source *s)
{
    TRY(plim_safetensors_open(s->c, s->path, &s->file));
    TRY(plim_alloc(s->c, (size_t)s->spec->layers * PLIM_TARGET_COUNT * 2, sizeof *s->at, "adapter tensors",
                   &s->at));
    for (size_t i = 0; i < plim_safetensors_count(s->file); i++) TRY(note_tensor(s, i));
    TRY(check_targets(s));
    plim_adapters_walk(s->spec, s->config.rank, s->config.targets, 32, 0, s->spec->layers, check_tensor, s);
    return s->st;
}

static void close_source(source *s)
{
    plim_safetensors_close(s->file);
    plim_release(s->c, s->at);
}

static plim_status open_source(plim_ctx *c, const char *folder, const plim_spec *spec, source *s)
{
    *s = (source){.c = c, .spec = spec};
    TRY(plim_path_join(c, s->path, sizeof s->path, folder, PLIM_ADAPTER_CONFIG_NAME));
    TRY(plim_adapter_config_load(c, s->path, &s->config));
    TRY(plim_path_join(c, s->path, sizeof s->path, folder, PLIM_ADAPTER_TENSORS_NAME));
    plim_status st = open_tensors(s);
    if (st) close_source(s);
    return st;
}

plim_status plim_adapter_survey(plim_ctx *c, const char *folder, const plim_spec *s, plim_adapter_config *out)
{
    source src;
    TRY(open_source(c, folder, s, &src));
    *out = src.config;
    close_source(&src);
    return PLIM_OK;
}

/* ---- master block -------------------------------------------------------------------------------------- */

typedef struct filling {
    const plim_shape *sh;
    plim_tensor master;
    source *from;
    uint64_t seed;
} filling;

static char *row_at(const filling *f, const plim_adapter_tensor *t, int64_t row)
{
    return (char *)f->master.data + (size_t)(t->offset + row * t->cols) * plim_dtype_bytes(f->master.dtype);
}

static void load_tensor(void *user, const plim_adapter_tensor *t)
{
    filling *f = user;
    source *s = f->from;
    const plim_safetensors_tensor *have = tensor_at(s, t);
    int64_t rows = have->shape[0], cols = have->shape[1];
    const char *data = plim_safetensors_data(s->file, have);
    size_t row_bytes = (size_t)cols * plim_dtype_bytes(have->dtype);
    for (int64_t i = 0; i < rows && !s->st; i++) {
        const char *src = data + (size_t)i * row_bytes;
        int64_t bad = plim_floats_convert(have->dtype, src, cols, f->master.dtype, row_at(f, t, i));
        if (bad >= 0)
            s->st = plim_fail(s->c, PLIM_E_NUMERIC, "%s: %.200s: element [%lld, %lld] is not finite", s->path,
                              have->name, (long long)i, (long long)bad);
    }
}

static void walk(filling *f, plim_adapter_visit visit)
{
    const plim_shape *sh = f->sh;
    assert(f->master.dtype == sh->stat && f->master.cols == sh->adapters.elements);
    memset(f->master.data, 0, (size_t)f->master.cols * plim_dtype_bytes(f->master.dtype));
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, sh->first_layer,
                       sh->last_layer, visit, f);
}

plim_status plim_adapter_load(plim_ctx *c, const char *folder, const plim_shape *sh, plim_tensor master)
{
    source src;
    uint32_t targets = plim_model_targets(sh->spec, sh->o.lora_targets);
    TRY(open_source(c, folder, sh->spec, &src));
    if (src.config.rank != sh->o.lora_rank)
        src.st =
            plim_fail(c, PLIM_E_MISMATCH, "%s: the adapter has rank %lld, and the run %lld; they must agree",
                      src.path, (long long)src.config.rank, (long long)sh->o.lora_rank);
    for (int t = 0; t < PLIM_TARGET_COUNT && !src.st; t++)
        if ((targets ^ src.config.targets) & PLIM_TARGET_BIT(t))
            src.st = plim_fail(c, PLIM_E_MISMATCH, "%s: %s is adapted %s, and not %s; they must agree",
                               src.path, plim_target_name((plim_target)t),
                               targets & PLIM_TARGET_BIT(t) ? "in the run" : "in the adapter",
                               targets & PLIM_TARGET_BIT(t) ? "in the adapter" : "in the run");
    if (!src.st) walk(&(filling){.sh = sh, .master = master, .from = &src}, load_tensor);
    close_source(&src);
    return src.st;
}

static void draw_tensor(void *user, const plim_adapter_tensor *t)
{
    const filling *f = user;
    plim_adapter_key key;
    if (t->is_b) return;
    plim_adapter_key_of(f->sh->spec, f->sh->o.lora_rank, t, &key);
    const plim_random r = {f->seed, plim_fnv1a64(key.name)};
    const float bound = (float)(1 / sqrt((double)key.cols));
    int64_t n = key.rows * key.cols;
    float *single = (void *)row_at(f, t, 0);
    double *wide = (void *)row_at(f, t, 0);
    for (int64_t i = 0; i < n; i++) {
        float x = (2 * plim_random_float(r, (uint64_t)i) - 1) * bound;
        if (f->master.dtype == PLIM_F64) wide[i] = x;
        else single[i] = x;
    }
}

void plim_adapter_fresh(const plim_shape *sh, uint64_t seed, plim_tensor master)
{
    walk(&(filling){.sh = sh, .master = master, .seed = seed}, draw_tensor);
}
