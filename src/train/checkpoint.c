/* checkpoint.c - decides what a checkpoint holds, and that it is whole or absent. */
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "formats/safetensors_writer.h"

#define FOLDER_NAME  "checkpoint-"
#define BUFFER_BYTES ((size_t)1 << 20)

static const char *const file_names[] = {PLIM_ADAPTER_CONFIG_NAME, PLIM_ADAPTER_TENSORS_NAME,
                                         PLIM_CHECKPOINT_OPTIMIZER_NAME, PLIM_CHECKPOINT_STATE_NAME};

/* ---- optimizer.safetensors ------------------------------------------------------------------------- */

typedef struct block {
    const char *name;
    plim_tensor tensor;
} block;

enum { BLOCKS = 7 };

static void list_blocks(const plim_adapters *a, block out[BLOCKS])
{
    const block all[BLOCKS] = {{"master", a->master},  {"m", a->m},         {"v", a->v},
                               {"m_max", a->m_max},    {"v_max", a->v_max}, {"small_m", a->small_m},
                               {"small_v", a->small_v}};
    memcpy(out, all, sizeof all);
}

/* Device memory is read in pieces, so that a checkpoint takes no second copy of the states. */
static plim_status write_block(plim_engine *e, plim_safetensors_writer *w, plim_tensor t, void *buffer)
{
    size_t bytes = (size_t)t.cols * plim_dtype_bytes(t.dtype);
    for (size_t at = 0; at < bytes; at += BUFFER_BYTES) {
        size_t n = bytes - at < BUFFER_BYTES ? bytes - at : BUFFER_BYTES;
        TRY(e->ops->read(e->device, (const char *)t.data + at, buffer, n));
        TRY(plim_safetensors_writer_data(w, buffer, n));
    }
    return PLIM_OK;
}

static plim_status write_blocks(plim_session *s, plim_safetensors_writer *w, void *buffer)
{
    plim_engine *e = s->training.engine;
    block blocks[BLOCKS];
    list_blocks(&e->step->adapters, blocks);
    /* Wide dtypes first keep every block aligned; U8 is the narrowest. */
    for (int narrow = 0; narrow < 2; narrow++)
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[i].tensor.cols && (blocks[i].tensor.dtype == PLIM_U8) == narrow)
                TRY(plim_safetensors_writer_tensor(w, blocks[i].name, blocks[i].tensor.dtype, 1,
                                                   &blocks[i].tensor.cols));
    for (int narrow = 0; narrow < 2; narrow++)
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[i].tensor.cols && (blocks[i].tensor.dtype == PLIM_U8) == narrow)
                TRY(write_block(e, w, blocks[i].tensor, buffer));
    return PLIM_OK;
}

static plim_status write_optimizer(plim_session *s, const char *path)
{
    plim_safetensors_writer *w = NULL;
    void *buffer;
    TRY(plim_alloc(s->ctx, 1, BUFFER_BYTES, "a piece of a checkpoint", &buffer));
    plim_status st = plim_safetensors_writer_open(s->ctx, path, &w);
    if (!st) {
        st = plim_safetensors_writer_metadata(w, "format", PLIM_CHECKPOINT_FORMAT);
        if (!st) st = write_blocks(s, w, buffer);
        if (!st) st = plim_safetensors_writer_commit(w);
        else plim_safetensors_writer_abort(w);
    }
    plim_release(s->ctx, buffer);
    return st;
}

/* ---- state.json ------------------------------------------------------------------------------------ */

static json_t *describe_hyper(const plim_hyper *h)
{
    static const char *const schedules[] = {"constant", "linear", "cosine"};
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:I, s:I, s:f}", "learning_rate", h->learning_rate,
                     "beta1", h->beta1, "beta2", h->beta2, "eps", h->eps, "weight_decay", h->weight_decay,
                     "clip_norm", h->clip_norm, "schedule", schedules[h->schedule], "warmup_steps",
                     (json_int_t)h->warmup_steps, "total_steps", (json_int_t)h->total_steps, "final_share",
                     h->final_share);
}

static json_t *describe_options(const plim_session *s)
{
    const plim_options *o = &s->training.engine->sh->o;
    return json_pack("{s:s, s:s?, s:s, s:I, s:I, s:f, s:b, s:f, s:i, s:I, s:I, s:I, s:b, s:I}", "machine",
                     s->machine->name, "libraries", s->machine->libraries, "act", plim_dtype_name(o->act),
                     "rank", (json_int_t)o->lora_rank, "targets", (json_int_t)o->lora_targets, "alpha",
                     s->adapter.alpha, "rslora", s->adapter.rslora, "lora_dropout", o->lora_dropout,
                     "adam_bits", o->adam_bits, "tile_tokens", (json_int_t)o->tile_tokens, "loss_rows",
                     (json_int_t)o->loss_rows, "kept_layers", (json_int_t)o->kept_layers,
                     "keep_attention_output", o->keep_attention_output, "kv_heads_per_call",
                     (json_int_t)o->kv_heads_per_call);
}

static json_t *describe_data(const plim_checkpoint_place *at)
{
    const plim_order_config *g = at->order;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "documents_in_file",
                     (json_int_t)g->samples->documents, "tokens_in_file",
                     (json_int_t)g->samples->tokens_count, "seq_tokens", (json_int_t)g->seq_tokens,
                     "documents", (json_int_t)g->documents, "accumulate", (json_int_t)g->accumulate, "epoch",
                     (json_int_t)at->epoch, "sequences", (json_int_t)at->sequences);
}

static int put_piece(const char *text, size_t bytes, void *writer)
{
    return plim_writer_write(writer, text, bytes) ? -1 : 0;
}

static plim_status write_state(plim_session *s, const plim_checkpoint_place *at, const char *path)
{
    plim_writer *w = NULL;
    TRY(plim_writer_open(s->ctx, path, &w));
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "format", PLIM_CHECKPOINT_FORMAT,
                             "plimsoll", PLIM_VERSION, "step", (json_int_t)s->training.step, "seed",
                             (json_int_t)s->training.seed, "data", describe_data(at), "hyper",
                             describe_hyper(&s->training.hyper), "options", describe_options(s));
    int failed = !root || json_dump_callback(root, put_piece, w, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!failed && !plim_writer_printf(w, "\n")) return plim_writer_commit(w);
    plim_writer_abort(w);
    return plim_ctx_status(s->ctx) ? plim_ctx_status(s->ctx)
                                   : plim_fail_alloc(s->ctx, sizeof *root, "the state of a run");
}

/* ---- folders --------------------------------------------------------------------------------------- */

static void remove_folder(const char *folder)
{
    char path[PLIM_PATH_BYTES + 32];
    for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, file_names[i]);
        if (n > 0 && (size_t)n < sizeof path) unlink(path);
    }
    rmdir(folder);
}

/* A file system that cannot sync a folder has nothing better than the rename. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static plim_status name_folder(plim_ctx *c, const char *out, int64_t step, const char *end,
                               char path[PLIM_PATH_BYTES])
{
    char name[80];
    snprintf(name, sizeof name, FOLDER_NAME "%lld%s", (long long)step, end);
    return plim_path_join(c, path, PLIM_PATH_BYTES, out, name);
}

static plim_status name_temporary(plim_ctx *c, const char *out, int64_t step, char path[PLIM_PATH_BYTES])
{
    char end[48];
    snprintf(end, sizeof end, ".plimsoll-%ld.tmp", (long)getpid());
    return name_folder(c, out, step, end, path);
}

static plim_status fill_folder(plim_session *s, const plim_checkpoint_place *at, const char *folder)
{
    char path[PLIM_PATH_BYTES];
    TRY(plim_session_save_adapter(s, folder, PLIM_F32));
    TRY(plim_path_join(s->ctx, path, sizeof path, folder, PLIM_CHECKPOINT_OPTIMIZER_NAME));
    TRY(write_optimizer(s, path));
    TRY(plim_path_join(s->ctx, path, sizeof path, folder, PLIM_CHECKPOINT_STATE_NAME));
    TRY(write_state(s, at, path));
    sync_folder(folder);
    return PLIM_OK;
}

plim_status plim_checkpoint_save(plim_session *s, const char *out, const plim_checkpoint_place *at)
{
    char folder[PLIM_PATH_BYTES], temporary[PLIM_PATH_BYTES];
    TRY(name_folder(s->ctx, out, s->training.step, "", folder));
    TRY(name_temporary(s->ctx, out, s->training.step, temporary));
    plim_status st = fill_folder(s, at, temporary);
    if (!st && rename(temporary, folder))
        st = plim_fail(s->ctx, PLIM_E_IO, "%s: the finished checkpoint cannot be moved there: %s", folder,
                       strerror(errno));
    if (st) {
        remove_folder(temporary);
        return st;
    }
    sync_folder(out);
    return PLIM_OK;
}

/* ---- pruning --------------------------------------------------------------------------------------- */

/* The step of "checkpoint-<step>", or -1. */
static int64_t step_of(const char *name)
{
    int64_t step = 0;
    size_t start = sizeof FOLDER_NAME - 1, digits;
    if (strncmp(name, FOLDER_NAME, start) != 0) return -1;
    digits = strspn(name + start, "0123456789");
    if (digits == 0 || digits > 18 || name[start + digits]) return -1;
    for (size_t i = 0; i < digits; i++) step = step * 10 + (name[start + i] - '0');
    return step;
}

/* How many checkpoints there are, and the first of them. */
static plim_status survey(plim_ctx *c, const char *out, int64_t *count, int64_t *oldest)
{
    DIR *dir = opendir(out);
    if (!dir) return plim_fail(c, PLIM_E_IO, "%s: cannot be read: %s", out, strerror(errno));
    *count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        int64_t step = step_of(e->d_name);
        if (step < 0) continue;
        if (*count == 0 || step < *oldest) *oldest = step;
        ++*count;
    }
    closedir(dir);
    return PLIM_OK;
}

plim_status plim_checkpoint_prune(plim_ctx *c, const char *out, int64_t keep)
{
    char folder[PLIM_PATH_BYTES], temporary[PLIM_PATH_BYTES];
    int64_t count, oldest = 0;
    for (;;) {
        TRY(survey(c, out, &count, &oldest));
        if (count <= keep) return PLIM_OK;
        TRY(name_folder(c, out, oldest, "", folder));
        TRY(name_temporary(c, out, oldest, temporary));
        /* Under another name first: what still bears its own is whole. */
        if (rename(folder, temporary))
            return plim_fail(c, PLIM_E_IO, "%s: the old checkpoint cannot be removed: %s", folder,
                             strerror(errno));
        remove_folder(temporary);
    }
}
