/* adapter_save.c - decides what is refused before an adapter is written, and how the folder appears at
 * once. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"
#include "base/floats.h"
#include "formats/safetensors_writer.h"
#include "model/tensor_map.h"
#include "train/adapter.h"

#define BLOCK_ELEMENTS  ((int64_t)1 << 16) /* or one row, where that is longer */
#define TEMPORARY_TRIES 10000

typedef struct saving {
    plim_ctx *c;
    const plim_adapter_save_args *a;
    plim_adapter_key *keys;
    size_t count;
    void *block; /* rows as they lie in the file */
    char folder[PLIM_PATH_BYTES], temporary[PLIM_PATH_BYTES];
} saving;

/* ---- checks -------------------------------------------------------------------------------------------- */

static const char *element_at(const saving *s, const plim_adapter_key *k, int64_t row, int64_t col)
{
    size_t at = (size_t)(k->tensor.offset + row * k->tensor.cols + col);
    return (const char *)s->a->master.data + at * plim_dtype_bytes(s->a->master.dtype);
}

/* Whether any of n elements is something else than zero. */
static bool any_set(plim_dtype d, const char *x, int64_t n)
{
    const float *f = (const void *)x;
    const double *w = (const void *)x;
    for (int64_t i = 0; i < n; i++)
        if (d == PLIM_F64 ? w[i] != 0 : f[i] != 0) return true;
    return false;
}

static plim_status check_padding(const saving *s, const plim_adapter_key *k)
{
    plim_dtype d = s->a->master.dtype;
    const plim_adapter_tensor *t = &k->tensor;
    bool set = any_set(d, element_at(s, k, k->rows, 0), (t->rows - k->rows) * t->cols);
    for (int64_t i = 0; i < k->rows && !set; i++)
        set = any_set(d, element_at(s, k, i, k->cols), t->cols - k->cols);
    if (!set) return PLIM_OK;
    return plim_fail(s->c, PLIM_E_RANGE,
                     "%s: the rank's padding is not zero, so the file would not hold what was trained",
                     k->name);
}

static plim_status check_trained(const saving *s)
{
    size_t zero = 0, first = 0, all = 0;
    for (size_t i = 0; i < s->count; i++) {
        const plim_adapter_key *k = &s->keys[i];
        if (!k->tensor.is_b) continue;
        all++;
        if (any_set(s->a->master.dtype, element_at(s, k, 0, 0), k->tensor.rows * k->tensor.cols)) continue;
        if (!zero++) first = i;
    }
    if (!zero || !s->a->trained) return PLIM_OK;
    return plim_fail(
        s->c, PLIM_E_RANGE,
        "%s is still all zero after training, as are %zu of the %zu lora_B in all; the adapter would "
        "change nothing there",
        s->keys[first].name, zero, all);
}

static void collect(void *user, const plim_adapter_tensor *t)
{
    saving *s = user;
    plim_adapter_key_of(s->a->shape->spec, s->a->shape->o.lora_rank, t, &s->keys[s->count++]);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const plim_adapter_key *)x)->name, ((const plim_adapter_key *)y)->name);
}

static plim_status gather(saving *s)
{
    const plim_shape *sh = s->a->shape;
    if (sh->adapters.tensors == 0)
        return plim_fail(s->c, PLIM_E_MISMATCH,
                         "the adapter has no tensors: the model has none of the chosen projections");
    TRY(plim_alloc(s->c, (size_t)sh->adapters.tensors, sizeof *s->keys, "adapter keys", &s->keys));
    plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, 0, sh->spec->layers,
                       collect, s);
    TRY(plim_adapter_keys_check(s->c, sh->spec, s->keys, s->count));
    for (size_t i = 0; i < s->count; i++) TRY(check_padding(s, &s->keys[i]));
    TRY(check_trained(s));
    qsort(s->keys, s->count, sizeof *s->keys, by_name);
    return PLIM_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static plim_status write_tensor(saving *s, plim_safetensors_writer *w, const plim_adapter_key *k)
{
    size_t size = plim_dtype_bytes(s->a->dtype);
    int64_t step = k->cols < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / k->cols : 1;
    for (int64_t row = 0; row < k->rows; row += step) {
        int64_t rows = k->rows - row < step ? k->rows - row : step;
        for (int64_t i = 0; i < rows; i++) {
            char *to = (char *)s->block + (size_t)(i * k->cols) * size;
            int64_t bad = plim_floats_convert(s->a->master.dtype, element_at(s, k, row + i, 0), k->cols,
                                              s->a->dtype, to);
            if (bad >= 0)
                return plim_fail(s->c, PLIM_E_NUMERIC, "%s: element [%lld, %lld] is not finite as %s",
                                 k->name, (long long)(row + i), (long long)bad, plim_dtype_name(s->a->dtype));
        }
        TRY(plim_safetensors_writer_data(w, s->block, (size_t)(rows * k->cols) * size));
    }
    return PLIM_OK;
}

static plim_status fill_file(saving *s, plim_safetensors_writer *w)
{
    TRY(plim_safetensors_writer_metadata(w, "format", "pt"));
    for (size_t i = 0; i < s->count; i++)
        TRY(plim_safetensors_writer_tensor(w, s->keys[i].name, s->a->dtype, 2,
                                           (const int64_t[]){s->keys[i].rows, s->keys[i].cols}));
    for (size_t i = 0; i < s->count; i++) TRY(write_tensor(s, w, &s->keys[i]));
    return PLIM_OK;
}

static plim_status write_tensors(saving *s, const char *path)
{
    plim_safetensors_writer *w = NULL;
    int64_t widest = BLOCK_ELEMENTS;
    for (size_t i = 0; i < s->count; i++)
        if (s->keys[i].cols > widest) widest = s->keys[i].cols;
    TRY(plim_alloc(s->c, (size_t)widest, sizeof(float), "a block of an adapter", &s->block));
    TRY(plim_safetensors_writer_open(s->c, path, &w));
    plim_status st = fill_file(s, w);
    if (!st) return plim_safetensors_writer_commit(w);
    plim_safetensors_writer_abort(w);
    return st;
}

/* ---- folder -------------------------------------------------------------------------------------------- */

static plim_status check_target(saving *s)
{
    DIR *dir = opendir(s->folder);
    if (!dir && errno == ENOENT) return PLIM_OK;
    if (!dir)
        return plim_fail(s->c, PLIM_E_IO, "%s: cannot become an adapter: %s", s->folder, strerror(errno));
    plim_status st = PLIM_OK;
    for (struct dirent *e; !st && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = plim_fail(s->c, PLIM_E_IO, "%s already holds %s; name a new folder for the adapter",
                           s->folder, e->d_name);
    closedir(dir);
    return st;
}

static plim_status make_temporary(saving *s)
{
    for (int n = 0; n < TEMPORARY_TRIES; n++) {
        int length = snprintf(s->temporary, sizeof s->temporary, "%s.plimsoll-%ld-%d.tmp", s->folder,
                              (long)getpid(), n);
        if (length < 0 || (size_t)length >= sizeof s->temporary) {
            s->temporary[0] = 0;
            return plim_fail(s->c, PLIM_E_RANGE, "%.80s...: this path is too long for an adapter folder",
                             s->folder);
        }
        if (mkdir(s->temporary, 0777) == 0) return PLIM_OK;
        if (errno != EEXIST) break;
    }
    plim_status st =
        plim_fail(s->c, PLIM_E_IO, "%s: a folder beside it cannot be made: %s", s->folder, strerror(errno));
    s->temporary[0] = 0;
    return st;
}

/* A file system that cannot sync a folder has nothing better than the rename. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static plim_status write_files(saving *s)
{
    const plim_shape *sh = s->a->shape;
    plim_adapter_config config = s->a->config;
    char path[PLIM_PATH_BYTES];
    config.rank = sh->o.lora_rank;
    config.targets = plim_model_targets(sh->spec, sh->o.lora_targets);
    TRY(plim_path_join(s->c, path, sizeof path, s->temporary, PLIM_ADAPTER_TENSORS_NAME));
    TRY(write_tensors(s, path));
    TRY(plim_path_join(s->c, path, sizeof path, s->temporary, PLIM_ADAPTER_CONFIG_NAME));
    TRY(plim_adapter_config_write(s->c, path, &config));
    if (rename(s->temporary, s->folder))
        return plim_fail(s->c, PLIM_E_IO, "%s: the finished adapter cannot be moved there: %s", s->folder,
                         strerror(errno));
    s->temporary[0] = 0;
    TRY(plim_path_folder(s->c, path, sizeof path, s->folder));
    sync_folder(path);
    return PLIM_OK;
}

static void remove_temporary(saving *s)
{
    static const char *const names[] = {PLIM_ADAPTER_TENSORS_NAME, PLIM_ADAPTER_CONFIG_NAME};
    char path[PLIM_PATH_BYTES];
    if (!s->temporary[0]) return;
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", s->temporary, names[i]);
        if (length > 0 && (size_t)length < sizeof path) unlink(path);
    }
    rmdir(s->temporary);
}

static plim_status save(saving *s)
{
    TRY(check_target(s));
    TRY(gather(s));
    TRY(make_temporary(s));
    return write_files(s);
}

plim_status plim_adapter_save(plim_ctx *c, const plim_adapter_save_args *a)
{
    size_t n = strlen(a->folder);
    assert(a->dtype == PLIM_F32 || a->dtype == PLIM_F16 || a->dtype == PLIM_BF16);
    assert(a->master.dtype == a->shape->stat && a->master.cols == a->shape->adapters.elements);
    assert(a->shape->first_layer == 0 && a->shape->last_layer == a->shape->spec->layers);
    if (n == 0 || n >= PLIM_PATH_BYTES)
        return plim_fail(c, PLIM_E_RANGE, "a path of %zu bytes names no adapter folder", n);
    saving *s = NULL;
    TRY(plim_alloc(c, 1, sizeof *s, "an adapter being saved", &s));
    s->c = c;
    s->a = a;
    memcpy(s->folder, a->folder, n);
    while (n > 1 && s->folder[n - 1] == '/') s->folder[--n] = 0;
    plim_status st = save(s);
    remove_temporary(s);
    plim_release(c, s->keys);
    plim_release(c, s->block);
    plim_release(c, s);
    return st;
}
