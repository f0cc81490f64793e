/* golden.c - opens a golden folder and sets an engine up from it. */
#include "golden/golden.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "model/working_copy.h"
#include "train/load.h"

static plim_status open_part(golden *g, const char *name, plim_safetensors **out)
{
    char path[PLIM_PATH_BYTES];
    TRY(plim_path_join(g->ctx, path, sizeof path, g->folder, name));
    return plim_safetensors_open(g->ctx, path, out);
}

static plim_status find(golden *g, plim_safetensors *s, const char *name, plim_dtype d, int64_t elements,
                        const void **out)
{
    const plim_safetensors_tensor *t = plim_safetensors_find(s, name);
    if (!t || t->dtype != d || t->elements != elements)
        return plim_fail(g->ctx, PLIM_E_FORMAT, "%s: %s is %s, wanted %s with %lld elements", g->folder, name,
                         t ? "of another size or dtype" : "absent", plim_dtype_name(d), (long long)elements);
    *out = plim_safetensors_data(s, t);
    return PLIM_OK;
}

plim_status golden_values(golden *g, const char *name, int64_t elements, const float **out)
{
    const void *p;
    TRY(find(g, g->values, name, PLIM_F32, elements, &p));
    *out = p;
    return PLIM_OK;
}

static plim_status read_starts(golden *g)
{
    const plim_safetensors_tensor *t = plim_safetensors_find(g->values, "document_starts");
    const void *p;
    g->documents = 1;
    g->start[1] = g->T;
    if (!t) return PLIM_OK;
    if (t->elements < 2 || t->elements > GOLDEN_DOCUMENTS + 1)
        return plim_fail(g->ctx, PLIM_E_FORMAT, "%s: document_starts has %lld elements; 2 to %d work",
                         g->folder, (long long)t->elements, GOLDEN_DOCUMENTS + 1);
    TRY(find(g, g->values, "document_starts", PLIM_I32, t->elements, &p));
    g->documents = t->elements - 1;
    for (int64_t i = 0; i <= g->documents; i++) g->start[i] = ((const int32_t *)p)[i];
    return PLIM_OK;
}

static plim_status open_all(golden *g)
{
    char path[PLIM_PATH_BYTES];
    TRY(plim_spec_load(g->ctx, g->folder, &g->spec));
    TRY(plim_model_files_check(g->ctx, g->folder, &g->spec, &g->files));
    TRY(plim_path_join(g->ctx, path, sizeof path, g->folder, "adapter/" PLIM_ADAPTER_CONFIG_NAME));
    TRY(plim_adapter_config_load(g->ctx, path, &g->config));
    TRY(open_part(g, "adapter/" PLIM_ADAPTER_TENSORS_NAME, &g->adapter));
    TRY(open_part(g, "golden.safetensors", &g->values));
    const plim_safetensors_tensor *ids = plim_safetensors_find(g->values, "input_ids");
    if (!ids) return plim_fail(g->ctx, PLIM_E_FORMAT, "%s: golden.safetensors has no input_ids", g->folder);
    const void *p, *labels;
    g->T = ids->elements;
    TRY(read_starts(g));
    TRY(find(g, g->values, "input_ids", PLIM_I32, g->T, &p));
    TRY(find(g, g->values, "labels", PLIM_I32, g->T, &labels));
    g->ids = p;
    TRY(plim_alloc(g->ctx, (size_t)g->T, sizeof *g->weights, "golden weights", &g->weights));
    for (int64_t t = 0; t < g->T; t++) {
        int32_t label = ((const int32_t *)labels)[t];
        g->weights[t] = label == -100 ? 0.0f : 1.0f;
        if (label != -100 && label != g->ids[t])
            return plim_fail(g->ctx, PLIM_E_FORMAT, "%s: label %lld is %d, the token %d", g->folder,
                             (long long)t, label, g->ids[t]);
    }
    return PLIM_OK;
}

plim_status golden_open(plim_ctx *c, const char *folder, golden *g)
{
    *g = (golden){.ctx = c};
    snprintf(g->folder, sizeof g->folder, "%s", folder);
    plim_status st = open_all(g);
    if (st) golden_close(g);
    return st;
}

void golden_close(golden *g)
{
    plim_model_files_close(g->files);
    plim_safetensors_close(g->adapter);
    plim_safetensors_close(g->values);
    if (g->ctx) plim_release(g->ctx, g->weights);
    *g = (golden){0};
}

plim_sample golden_sample(const golden *g)
{
    return (plim_sample){{g->ids, g->weights, g->start, g->documents}, 0};
}

void golden_name(const plim_adapter_tensor *t, char *out, size_t bytes)
{
    snprintf(out, bytes, "base_model.model.model.layers.%lld.%s.lora_%c.weight", (long long)t->layer,
             plim_target_module(t->target), t->is_b ? 'B' : 'A');
}

/* ---- engine
 * ------------------------------------------------------------------------------------------------------------
 */

typedef struct filler {
    golden *g;
    plim_engine *engine;
    plim_status status;
} filler;

static void put(plim_tensor t, int64_t row, int64_t col, float value)
{
    if (t.dtype == PLIM_F64) ((double *)t.data)[row * t.pitch + col] = (double)value;
    else ((float *)t.data)[row * t.pitch + col] = value;
}

static void fill_adapter(void *user, const plim_adapter_tensor *t)
{
    filler *f = user;
    char name[256];
    const void *p;
    if (f->status) return;
    int64_t rank = f->g->config.rank, rows = t->is_b ? t->rows : rank, cols = t->is_b ? rank : t->cols;
    plim_tensor to = plim_tensor_cols(f->engine->step->adapters.master, t->offset, t->cols);
    to.rows = t->rows;
    to.pitch = t->cols;
    golden_name(t, name, sizeof name);
    f->status = find(f->g, f->g->adapter, name, PLIM_F32, rows * cols, &p);
    for (int64_t i = 0; !f->status && i < t->rows; i++)
        for (int64_t j = 0; j < t->cols; j++)
            put(to, i, j, i < rows && j < cols ? ((const float *)p)[i * cols + j] : 0.0f);
}

plim_status golden_engine(golden *g, const plim_machine *m, plim_options o, plim_training *out)
{
    plim_training t = {.hyper = plim_hyper_defaults()};
    o.seq_tokens = g->T;
    o.documents = g->documents;
    o.lora_rank = g->config.rank;
    o.lora_targets = g->config.targets;
    TRY(plim_engine_open(g->ctx, m, &g->spec, &o, &t.engine));
    plim_engine *e = t.engine;
    e->lora_scale = plim_adapter_scale(&g->config);
    plim_load load = {e->sh, &e->step->model, e->step->weights, plim_weight_sink_host(), NULL, NULL};
    filler f = {g, e, PLIM_OK};
    plim_status st = plim_weights_load(g->ctx, g->folder, g->files, &load);
    if (!st) {
        plim_adapters_walk(e->sh->spec, o.lora_rank, o.lora_targets, o.adam_bits, 0, g->spec.layers,
                           fill_adapter, &f);
        st = f.status;
    }
    if (!st) st = plim_training_refresh(&t);
    if (!st) st = plim_training_reset_states(&t);
    if (st) {
        golden_engine_close(&t);
        return st;
    }
    *out = t;
    return PLIM_OK;
}

void golden_engine_close(plim_training *t)
{
    plim_engine_close(t->engine);
    *t = (plim_training){0};
}
