/* random_folder.c - decides which tensor goes into which shard, and in which order files appear. */
#include "train/random_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"
#include "base/floats.h"
#include "formats/model_files.h"
#include "formats/safetensors_writer.h"
#include "model/random_weights.h"

#define CONFIG_NAME    "config.json"
#define BLOCK_ELEMENTS ((int64_t)1 << 20)

typedef struct folder {
    plim_ctx *c;
    const plim_random_folder *r;
    const plim_spec *spec;
    plim_status st;
    int64_t shard, shards; /* being walked, from 0; in all */
    uint64_t in_shard_bytes, shard_tensors;
    uint64_t total_bytes, done_bytes;
    int64_t wanted;  /* the shard whose tensors are declared or written */
    int64_t written; /* shards that stand */
    plim_safetensors_writer *out;
    plim_writer *index;
    bool first_in_index, made_folder;
    float *fresh;
    void *block;
} folder;

static int64_t elements_of(const plim_tensor_decl *d)
{
    int64_t n = 1;
    for (int32_t i = 0; i < d->dims; i++) n *= d->shape[i];
    return n;
}

/* Moves to the shard this tensor goes into: the present one while it has room. */
static void assign(folder *f, const plim_tensor_decl *d)
{
    uint64_t bytes = (uint64_t)elements_of(d) * plim_dtype_bytes(f->r->dtype);
    if (f->shard_tensors && f->in_shard_bytes + bytes > f->r->shard_bytes) {
        f->shard++;
        f->shard_tensors = f->in_shard_bytes = 0;
    }
    f->shard_tensors++;
    f->in_shard_bytes += bytes;
}

/* Every pass over the tensors assigns them anew, so all passes agree. */
static plim_status walk(folder *f, plim_tensor_visit visit)
{
    f->shard = 0;
    f->shard_tensors = f->in_shard_bytes = 0;
    f->st = PLIM_OK;
    plim_spec_tensors(f->spec, PLIM_GROUP_TEXT, visit, f);
    return f->st;
}

static bool count(void *user, const plim_tensor_decl *d)
{
    folder *f = user;
    if (d->optional) return true; /* a tied head is the embedding */
    assign(f, d);
    f->shards = f->shard + 1;
    f->total_bytes += (uint64_t)elements_of(d) * plim_dtype_bytes(f->r->dtype);
    return true;
}

static void shard_name(const folder *f, int64_t shard, char name[64])
{
    if (f->shards == 1) snprintf(name, 64, PLIM_MODEL_SINGLE_NAME);
    else snprintf(name, 64, "model-%05d-of-%05d.safetensors", (int)shard + 1, (int)f->shards);
}

/* ---- one shard ----------------------------------------------------------------------------------------- */

static bool declare(void *user, const plim_tensor_decl *d)
{
    folder *f = user;
    if (d->optional) return true;
    assign(f, d);
    if (f->shard == f->wanted)
        f->st = plim_safetensors_writer_tensor(f->out, d->name, f->r->dtype, d->dims, d->shape);
    return !f->st && f->shard <= f->wanted;
}

static plim_status write_tensor(folder *f, const plim_tensor_decl *d)
{
    int64_t n = elements_of(d);
    for (int64_t at = 0; at < n; at += BLOCK_ELEMENTS) {
        int64_t elements = n - at < BLOCK_ELEMENTS ? n - at : BLOCK_ELEMENTS;
        size_t bytes = (size_t)elements * plim_dtype_bytes(f->r->dtype);
        plim_random_tensor(f->spec, f->r->seed, d, (uint64_t)at, (size_t)elements, f->fresh);
        plim_floats_convert(PLIM_F32, f->fresh, elements, f->r->dtype, f->block); /* at most 634 */
        TRY(plim_safetensors_writer_data(f->out, f->block, bytes));
        f->done_bytes += bytes;
        if (f->r->progress) f->r->progress(f->r->progress_user, f->done_bytes, f->total_bytes);
    }
    return PLIM_OK;
}

static bool write_declared(void *user, const plim_tensor_decl *d)
{
    folder *f = user;
    if (d->optional) return true;
    assign(f, d);
    if (f->shard == f->wanted) f->st = write_tensor(f, d);
    return !f->st && f->shard <= f->wanted;
}

static plim_status path_of(folder *f, const char *name, char path[PLIM_PATH_BYTES])
{
    return plim_path_join(f->c, path, PLIM_PATH_BYTES, f->r->out, name);
}

static plim_status write_shard(folder *f)
{
    char name[64], path[PLIM_PATH_BYTES];
    shard_name(f, f->wanted, name);
    TRY(path_of(f, name, path));
    TRY(plim_safetensors_writer_open(f->c, path, &f->out));
    plim_status st = plim_safetensors_writer_metadata(f->out, "format", "pt");
    if (!st) st = walk(f, declare);
    if (!st) st = walk(f, write_declared);
    if (!st) return plim_safetensors_writer_commit(f->out);
    plim_safetensors_writer_abort(f->out);
    return st;
}

/* ---- index --------------------------------------------------------------------------------------------- */

static bool list_in_index(void *user, const plim_tensor_decl *d)
{
    folder *f = user;
    char name[64];
    if (d->optional) return true;
    assign(f, d);
    shard_name(f, f->shard, name);
    f->st =
        plim_writer_printf(f->index, "%s\n    \"%s\": \"%s\"", f->first_in_index ? "" : ",", d->name, name);
    f->first_in_index = false;
    return !f->st;
}

static plim_status write_index(folder *f)
{
    char path[PLIM_PATH_BYTES];
    TRY(path_of(f, PLIM_MODEL_INDEX_NAME, path));
    TRY(plim_writer_open(f->c, path, &f->index));
    f->first_in_index = true;
    plim_writer_printf(f->index,
                       "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                       f->total_bytes);
    walk(f, list_in_index);
    plim_writer_printf(f->index, "\n  }\n}\n");
    return plim_writer_commit(f->index);
}

/* ---- folder -------------------------------------------------------------------------------------------- */

static bool is_model_file(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t n = strlen(name), m = sizeof suffix - 1;
    return !strcmp(name, CONFIG_NAME) || !strcmp(name, PLIM_MODEL_INDEX_NAME) ||
           (n >= m && !strcmp(name + n - m, suffix));
}

static plim_status check_empty(folder *f)
{
    DIR *dir = opendir(f->r->out);
    if (!dir) return plim_fail(f->c, PLIM_E_IO, "%s: cannot be listed: %s", f->r->out, strerror(errno));
    plim_status st = PLIM_OK;
    for (struct dirent *e; !st && (e = readdir(dir));)
        if (is_model_file(e->d_name))
            st = plim_fail(f->c, PLIM_E_IO,
                           "%s already holds %s; name a new folder, or remove the model that is there",
                           f->r->out, e->d_name);
    closedir(dir);
    return st;
}

static plim_status open_folder(folder *f)
{
    if (mkdir(f->r->out, 0777) == 0) {
        f->made_folder = true;
        return PLIM_OK;
    }
    if (errno == EEXIST && plim_path_is_folder(f->r->out)) return check_empty(f);
    return plim_fail(f->c, PLIM_E_IO, "%s: this folder cannot be made: %s", f->r->out, strerror(errno));
}

static void remove_written(folder *f)
{
    char name[64], path[PLIM_PATH_BYTES];
    for (int64_t i = 0; i < f->written; i++) {
        shard_name(f, i, name);
        if (!path_of(f, name, path)) unlink(path);
    }
    if (!path_of(f, PLIM_MODEL_INDEX_NAME, path) && f->shards > 1 && f->written == f->shards) unlink(path);
    if (f->made_folder) rmdir(f->r->out);
}

static plim_status write_all(folder *f, const plim_file *config)
{
    char path[PLIM_PATH_BYTES];
    TRY(plim_alloc(f->c, (size_t)BLOCK_ELEMENTS, sizeof *f->fresh, "a block of weights", &f->fresh));
    TRY(plim_alloc(f->c, (size_t)BLOCK_ELEMENTS, sizeof(float), "a block of weights", &f->block));
    for (f->wanted = 0; f->wanted < f->shards; f->wanted++) {
        TRY(write_shard(f));
        f->written++;
    }
    if (f->shards > 1) TRY(write_index(f));
    TRY(path_of(f, CONFIG_NAME, path));
    return plim_file_write(f->c, path, config->data, config->bytes);
}

static plim_status write_folder(folder *f, const plim_file *config)
{
    if (f->r->shard_bytes == 0)
        return plim_fail(f->c, PLIM_E_RANGE, "shards of 0 bytes hold nothing; 2GB would work");
    TRY(walk(f, count));
    TRY(open_folder(f));
    plim_status st = write_all(f, config);
    if (st) remove_written(f);
    return st;
}

plim_status plim_random_folder_write(plim_ctx *c, const plim_random_folder *r)
{
    char inside[PLIM_PATH_BYTES];
    const char *path = r->config;
    plim_spec *spec = NULL;
    plim_file config = {0};
    if (plim_path_is_folder(path)) {
        TRY(plim_path_join(c, inside, sizeof inside, path, CONFIG_NAME));
        path = inside;
    }
    TRY(plim_alloc(c, 1, sizeof *spec, "a model's dimensions", &spec));
    folder f = {.c = c, .r = r, .spec = spec};
    plim_status st = plim_file_map(c, path, &config);
    if (!st) st = plim_spec_parse(c, path, config.data, config.bytes, spec);
    if (!st) st = write_folder(&f, &config);
    plim_file_unmap(&config);
    plim_release(c, f.fresh);
    plim_release(c, f.block);
    plim_release(c, spec);
    return st;
}
