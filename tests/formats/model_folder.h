/* model_folder.h - a model folder for tests, written from a list of tensors that each test bends. */
#ifndef PLIM_TESTS_MODEL_FOLDER_H
#define PLIM_TESTS_MODEL_FOLDER_H

#include "support/test.h"

#include <stdlib.h>

#include "formats/model_files.h"
#include "formats/safetensors_writer.h"

#define SHARD_1 "model-00001-of-00003.safetensors"
#define SHARD_2 "model-00002-of-00003.safetensors"
#define SHARD_3 "model-00003-of-00003.safetensors"
#define LAYER_0 "model.language_model.layers.0."
#define LAYER_1 "model.language_model.layers.1."

#define MAX_ITEMS 2000
#define NOWHERE   (-1)

typedef struct item {
    char name[160];
    plim_dtype dtype;
    int32_t dims;
    int64_t shape[5];
    int shard;       /* the file it is written to */
    int index_shard; /* the file the index names */
} item;

typedef struct model {
    plim_spec spec;
    item items[MAX_ITEMS];
    size_t count;
    int shards; /* 0: model.safetensors and no index */
    int64_t total_size_error;
} model;

static inline plim_spec tiny_spec(void)
{
    plim_spec s = {
        .family = PLIM_FAMILY_QWEN3_5,
        .multimodal = true,
        .layers = 2,
        .hidden = 4,
        .mlp = 6,
        .vocab = 8,
        .heads = 2,
        .kv_heads = 1,
        .head_dim = 4,
        .key_heads = 1,
        .value_heads = 2,
        .key_dim = 2,
        .value_dim = 3,
        .conv_taps = 4,
        .attention_gate = true,
        .qk_norm = true,
        .layer_type = {PLIM_LAYER_DELTA, PLIM_LAYER_ATTENTION},
    };
    return s;
}

static inline item *add_item(model *m, const char *name, plim_dtype dtype, int shard)
{
    item *i = &m->items[m->count++];
    *i = (item){.dtype = dtype, .dims = 1, .shape = {3}, .shard = shard, .index_shard = shard};
    snprintf(i->name, sizeof i->name, "%s", name);
    return i;
}

static inline bool add_declared(void *user, const plim_tensor_decl *d)
{
    model *m = user;
    if (d->optional) return true;
    item *i = add_item(m, d->name, PLIM_BF16, 0);
    i->dims = d->dims;
    memcpy(i->shape, d->shape, sizeof i->shape);
    return true;
}

static inline item *find_item(model *m, const char *end)
{
    for (size_t i = 0; i < m->count; i++) {
        size_t n = strlen(m->items[i].name), k = strlen(end);
        if (n >= k && !strcmp(m->items[i].name + n - k, end)) return &m->items[i];
    }
    fail_msg("no item %s", end);
    return NULL;
}

static inline void make_model(model *m, int shards)
{
    memset(m, 0, sizeof *m);
    m->spec = tiny_spec();
    m->shards = shards;
    plim_spec_tensors(&m->spec, PLIM_GROUP_TEXT, add_declared, m);
    find_item(m, ".A_log")->dtype = find_item(m, ".linear_attn.norm.weight")->dtype = PLIM_F32;
    for (size_t i = 0; i < m->count && shards; i++)
        m->items[i].shard = m->items[i].index_shard = (int)(i * (size_t)shards / m->count);
}

static inline void remove_item(model *m, const char *end)
{
    item *gone = find_item(m, end);
    *gone = m->items[--m->count];
}

static inline const char *file_name(const model *m, int shard, char buf[64])
{
    if (m->shards == 0) snprintf(buf, 64, "model.safetensors");
    else snprintf(buf, 64, "model-%05d-of-%05d.safetensors", shard + 1, m->shards);
    return buf;
}

static inline size_t item_bytes(const item *i)
{
    size_t bytes = plim_dtype_bytes(i->dtype);
    for (int32_t d = 0; d < i->dims; d++) bytes *= (size_t)i->shape[d];
    return bytes;
}

static inline void write_file(plim_ctx *c, const char *folder, const model *m, int shard)
{
    char name[64];
    plim_safetensors_writer *w = NULL;
    CHECK_OK(c, plim_safetensors_writer_open(c, test_path(folder, file_name(m, shard, name)), &w));
    for (size_t i = 0; i < m->count; i++)
        if (m->items[i].shard == shard)
            plim_safetensors_writer_tensor(w, m->items[i].name, m->items[i].dtype, m->items[i].dims,
                                           m->items[i].shape);
    for (size_t i = 0; i < m->count; i++) {
        char byte = (char)i; /* a tensor's bytes are its number in the list */
        for (size_t n = m->items[i].shard == shard ? item_bytes(&m->items[i]) : 0; n > 0; n--)
            plim_safetensors_writer_data(w, &byte, 1);
    }
    CHECK_OK(c, plim_safetensors_writer_commit(w));
}

static inline const char *write_model(plim_ctx *c, const char *folder_name, const model *m)
{
    const char *folder = test_folder(folder_name);
    if (m->shards == 0) write_file(c, folder, m, 0);
    if (m->shards == 0) return folder;
    char *text = malloc(256 + m->count * 300), name[64];
    size_t at = 0;
    int64_t total = m->total_size_error;
    for (int s = 0; s < m->shards; s++) write_file(c, folder, m, s);
    for (size_t i = 0; i < m->count; i++) {
        if (m->items[i].shard == NOWHERE || m->items[i].index_shard == NOWHERE) continue;
        total += (int64_t)item_bytes(&m->items[i]);
    }
    at += (size_t)sprintf(text, "{\"metadata\":{\"total_size\":%lld},\"weight_map\":{", (long long)total);
    const char *comma = "";
    for (size_t i = 0; i < m->count; i++) {
        if (m->items[i].index_shard == NOWHERE) continue;
        at += (size_t)sprintf(text + at, "%s\"%s\":\"%s\"", comma, m->items[i].name,
                              file_name(m, m->items[i].index_shard, name));
        comma = ",";
    }
    at += (size_t)sprintf(text + at, "}}");
    test_write(test_path(folder, PLIM_MODEL_INDEX_NAME), text, at);
    free(text);
    return folder;
}

/* A file's bytes changed after it was written: cut bytes off its end, or append some. */
static inline void bend_file(const char *folder, const char *name, size_t cut, const char *append)
{
    size_t bytes;
    const char *path = test_path(folder, name);
    char *data = test_read(path, &bytes);
    data = realloc(data, bytes + strlen(append) + 1);
    memcpy(data + bytes - cut, append, strlen(append));
    test_write(path, data, bytes - cut + strlen(append));
    free(data);
}

#endif
