/* index.c - decides what a safetensors index says and that it stays inside its folder. */
#include "formats/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define LFS_START "version https://git-lfs"

typedef struct entry {
    const char *tensor, *shard;
    size_t shard_at;
} entry;

struct plim_index {
    plim_ctx *c;
    char *text; /* tensor and shard names, each zero-terminated */
    entry *entries;
    const char **shards;
    size_t count, shard_count;
    int64_t total_bytes;
};

static int by_tensor(const void *x, const void *y)
{
    return strcmp(((const entry *)x)->tensor, ((const entry *)y)->tensor);
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static size_t shard_at(const plim_index *x, const char *shard)
{
    const char **hit = bsearch(&shard, x->shards, x->shard_count, sizeof *x->shards, by_text);
    return (size_t)(hit - x->shards);
}

static plim_status read_total(const plim_json *j, int64_t *total_bytes)
{
    const json_t *metadata = NULL;
    TRY(plim_json_object_opt(j, j->root, "", "metadata", &metadata));
    *total_bytes = -1;
    if (!metadata) return PLIM_OK;
    const json_t *total = json_object_get(metadata, "total_size");
    if (json_is_real(total)) { /* some writers divide on the way: 5e9 stands for 5000000000 */
        double bytes = json_real_value(total);
        if (bytes >= 0 && bytes < 0x1p53 && bytes == (double)(int64_t)bytes) {
            *total_bytes = (int64_t)bytes;
            return PLIM_OK;
        }
    }
    return plim_json_i64_opt(j, metadata, "metadata", "total_size", 0, INT64_MAX, total_bytes);
}

static plim_status read_entry(plim_index *x, const plim_json *j, const char *tensor, const json_t *value,
                              char **text)
{
    const char *shard = json_string_value(value);
    char path[256];
    snprintf(path, sizeof path, "weight_map.%s", tensor);
    if (!shard) return plim_json_fail(j, path, PLIM_E_FORMAT, "the name of a file was expected");
    if (!plim_path_is_name(shard) || strchr(shard, '\\'))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "'%.200s' is not a file in the index's own folder",
                              shard);
    entry *e = &x->entries[x->count++];
    e->tensor = strcpy(*text, tensor);
    *text += strlen(tensor) + 1;
    e->shard = strcpy(*text, shard);
    *text += strlen(shard) + 1;
    return PLIM_OK;
}

static plim_status read_map(plim_index *x, const plim_json *j)
{
    const json_t *map = NULL;
    const char *key;
    json_t *value;
    size_t text_bytes = 0;
    TRY(plim_json_object(j, j->root, "", "weight_map", &map));
    if (json_object_size(map) == 0) return plim_json_fail(j, "weight_map", PLIM_E_FORMAT, "no tensor in it");
    json_object_foreach((json_t *)(uintptr_t)map, key, value) text_bytes +=
        strlen(key) + 1 + json_string_length(value) + 1;
    TRY(plim_alloc(x->c, text_bytes, 1, "index names", &x->text));
    TRY(plim_alloc(x->c, json_object_size(map), sizeof *x->entries, "index entries", &x->entries));
    TRY(plim_alloc(x->c, json_object_size(map), sizeof *x->shards, "index shards", &x->shards));
    char *text = x->text;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) TRY(read_entry(x, j, key, value, &text));

    for (size_t i = 0; i < x->count; i++) x->shards[i] = x->entries[i].shard;
    qsort(x->shards, x->count, sizeof *x->shards, by_text);
    for (size_t i = 0; i < x->count; i++)
        if (i == 0 || strcmp(x->shards[i], x->shards[x->shard_count - 1]))
            x->shards[x->shard_count++] = x->shards[i];
    for (size_t i = 0; i < x->count; i++) x->entries[i].shard_at = shard_at(x, x->entries[i].shard);
    qsort(x->entries, x->count, sizeof *x->entries, by_tensor);
    return PLIM_OK;
}

static plim_status fill(plim_index *x, const char *name, const char *text, size_t bytes)
{
    plim_json j = {0};
    if (bytes >= sizeof LFS_START && !memcmp(text, LFS_START, sizeof LFS_START - 1))
        return plim_fail(
            x->c, PLIM_E_FORMAT,
            "%s: this is a git-lfs pointer, not the index itself; `git lfs pull` in this folder fetches "
            "it",
            name);
    TRY(plim_json_parse(x->c, name, text, bytes, PLIM_JSON_CAP_BYTES, &j));
    plim_status st = read_total(&j, &x->total_bytes);
    if (!st) st = read_map(x, &j);
    plim_json_close(&j);
    return st;
}

plim_status plim_index_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_index **out)
{
    plim_index *x = NULL;
    TRY(plim_alloc(c, 1, sizeof *x, "an index", &x));
    x->c = c;
    plim_status st = fill(x, name, text, bytes);
    if (st) plim_index_close(x);
    else *out = x;
    return st;
}

plim_status plim_index_load(plim_ctx *c, const char *path, plim_index **out)
{
    plim_file file = {0};
    TRY(plim_file_map(c, path, &file));
    plim_status st = plim_index_parse(c, path, file.data, file.bytes, out);
    plim_file_unmap(&file);
    return st;
}

void plim_index_close(plim_index *x)
{
    if (!x) return;
    plim_release(x->c, x->text);
    plim_release(x->c, x->entries);
    plim_release(x->c, x->shards);
    plim_release(x->c, x);
}

int64_t plim_index_total_bytes(const plim_index *x)
{
    return x->total_bytes;
}

size_t plim_index_shard_count(const plim_index *x)
{
    return x->shard_count;
}

const char *plim_index_shard(const plim_index *x, size_t i)
{
    return x->shards[i];
}

size_t plim_index_tensor_count(const plim_index *x)
{
    return x->count;
}

const char *plim_index_tensor(const plim_index *x, size_t i)
{
    return x->entries[i].tensor;
}

size_t plim_index_tensor_shard(const plim_index *x, size_t i)
{
    return x->entries[i].shard_at;
}

int64_t plim_index_find(const plim_index *x, const char *tensor)
{
    entry key = {.tensor = tensor};
    const entry *hit = bsearch(&key, x->entries, x->count, sizeof key, by_tensor);
    return hit ? hit - x->entries : -1;
}
