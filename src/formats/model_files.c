/* model_files.c - decides whether a model folder's weights are those the spec promises, from their headers
 * alone. Order: declared tensors, which files to read, every file once, what is missing.  A defect is listed
 * once: what follows from it (the tensors of a missing shard, say) is not. */
#include "formats/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/file.h"
#include "formats/index.h"

#define VISION_PREFIX "model.visual."
#define MTP_PREFIX    "mtp."

/* One declared tensor and what became of it. */
typedef struct slot {
    plim_tensor_decl decl;
    plim_model_tensor tensor;
    bool met;    /* in some file, whatever its state */
    bool placed; /* tensor is filled */
} slot;

/* A tensor found in another shard than the index says. */
typedef struct elsewhere {
    size_t tensor, file;
} elsewhere;

typedef struct check {
    plim_ctx *c;
    const plim_spec *spec;
    const char *folder;
    plim_model_files *f;
    plim_index *index; /* NULL: one file */
    slot *slots;
    size_t slot_count, slot_cap;
    slot **by_name;
    bool *present;   /* by index tensor: in the shard the index says */
    size_t *seen_in; /* by index tensor: 1 + the other file that holds it, 0 for none */
    bool *readable;  /* by file: its header could be read */
    elsewhere *moved;
    size_t moved_count, moved_cap;
    const char *file_name; /* being read */
    uint64_t stored_bytes; /* tensors that lie where the index says */
    plim_status collect_st;
} check;

static plim_status path_of(const check *k, const char *name, char path[PLIM_PATH_BYTES])
{
    return plim_path_join(k->c, path, PLIM_PATH_BYTES, k->folder, name);
}

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static bool ends(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && !strcmp(text + n - m, suffix);
}

/* ---- declared tensors ---------------------------------------------------------------------------------- */

static bool collect(void *user, const plim_tensor_decl *decl)
{
    check *k = user;
    k->collect_st =
        plim_grow(k->c, &k->slots, &k->slot_cap, k->slot_count + 1, sizeof *k->slots, "declared tensors");
    if (k->collect_st) return false;
    k->slots[k->slot_count++] = (slot){.decl = *decl};
    return true;
}

static int slot_by_name(const void *x, const void *y)
{
    const slot *const *a = x, *const *b = y;
    return strcmp((*a)->decl.name, (*b)->decl.name);
}

static plim_status collect_declared(check *k)
{
    plim_spec_tensors(k->spec, PLIM_GROUP_TEXT, collect, k);
    TRY(k->collect_st);
    TRY(plim_alloc(k->c, k->slot_count, sizeof *k->by_name, "declared tensors", &k->by_name));
    for (size_t i = 0; i < k->slot_count; i++) k->by_name[i] = &k->slots[i];
    qsort(k->by_name, k->slot_count, sizeof *k->by_name, slot_by_name);
    return PLIM_OK;
}

static slot *find_slot(const check *k, const char *name)
{
    size_t low = 0, high = k->slot_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, k->by_name[middle]->decl.name);
        if (order == 0) return k->by_name[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

/* ---- one tensor ---------------------------------------------------------------------------------------- */

static void spell_shape(char *buf, size_t cap, const int64_t *shape, int32_t dims)
{
    int at = snprintf(buf, cap, "[");
    for (int32_t i = 0; i < dims; i++)
        at += snprintf(buf + at, cap - (size_t)at, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(buf + at, cap - (size_t)at, "]");
}

static void count(plim_model_totals *totals, const plim_safetensors_tensor *t)
{
    totals->tensors++;
    totals->parameters += t->elements;
    totals->bytes += t->size_bytes;
}

static bool is_quantised(plim_dtype d)
{
    return d == PLIM_F8_E4M3 || d == PLIM_F8_E5M2 || d == PLIM_I8 || d == PLIM_U8;
}

static plim_status check_declared(check *k, slot *s, size_t file, const plim_safetensors_tensor *t)
{
    plim_findings *problems = &k->f->problems;
    const plim_tensor_decl *d = &s->decl;
    uint64_t before = problems->total;
    if (is_quantised(t->dtype))
        return plim_findings_add(k->c, problems, PLIM_FINDING_QUANTISED, t->name, k->file_name,
                                 "%s: a quantised weight; plimsoll trains on F32, F16 or BF16, so take the "
                                 "unquantised release of this model",
                                 plim_dtype_name(t->dtype));
    if (t->dtype != PLIM_F32 && t->dtype != PLIM_F16 && t->dtype != PLIM_BF16)
        TRY(plim_findings_add(k->c, problems, PLIM_FINDING_DTYPE, t->name, k->file_name,
                              "found %s, wanted F32, F16 or BF16", plim_dtype_name(t->dtype)));
    if (t->dims != d->dims || memcmp(t->shape, d->shape, (size_t)d->dims * sizeof *d->shape)) {
        char found[256], wanted[256];
        spell_shape(found, sizeof found, t->shape, t->dims);
        spell_shape(wanted, sizeof wanted, d->shape, d->dims);
        TRY(plim_findings_add(k->c, problems, PLIM_FINDING_SHAPE, t->name, k->file_name,
                              "found %s, wanted %s", found, wanted));
    }
    if (problems->total != before) return PLIM_OK;

    plim_model_tensor *m = &s->tensor;
    memcpy(m->name, d->name, sizeof m->name);
    memcpy(m->shape, d->shape, sizeof m->shape);
    m->dims = d->dims;
    m->layer = d->layer;
    m->dtype = t->dtype;
    m->file = (int32_t)file;
    m->offset_bytes = t->offset_bytes;
    m->size_bytes = t->size_bytes;
    s->placed = true;
    count(&k->f->totals[PLIM_GROUP_TEXT], t);
    return PLIM_OK;
}

/* Tensors that only a quantised checkpoint has. */
static bool is_quantisation_part(const char *name)
{
    static const char *const suffix[] = {"_scale_inv", "_scale",     "_zero_point", ".qweight",
                                         ".qzeros",    ".scales",    ".g_idx",      ".weight_packed",
                                         ".absmax",    ".quant_map", ".SCB"};
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
        if (ends(name, suffix[i])) return true;
    return strstr(name, ".quant_state.") != NULL;
}

static plim_status check_unknown(check *k, const char *name)
{
    plim_findings *problems = &k->f->problems;
    if (ends(name, "rotary_emb.inv_freq"))
        return plim_findings_add(k->c, &k->f->notes, PLIM_FINDING_ROTARY_BUFFER, name, k->file_name,
                                 "a rotary buffer, not read: plimsoll computes it from the config");
    if (is_quantisation_part(name))
        return plim_findings_add(
            k->c, problems, PLIM_FINDING_QUANTISED, name, k->file_name,
            "part of a quantised weight; plimsoll trains on F32, F16 or BF16, so take the "
            "unquantised release of this model");
    /* The two ways of naming the text model are easily mixed up. */
    static const char *const prefix[] = {"model.language_model.", "model."};
    for (size_t i = 0; i < 2; i++) {
        char other[512];
        if (!starts(name, prefix[i])) continue;
        snprintf(other, sizeof other, "%s%s", prefix[1 - i], name + strlen(prefix[i]));
        if (find_slot(k, other))
            return plim_findings_add(k->c, problems, PLIM_FINDING_TENSOR_UNKNOWN, name, k->file_name,
                                     "the config does not describe it, but describes %s", other);
    }
    return plim_findings_add(k->c, problems, PLIM_FINDING_TENSOR_UNKNOWN, name, k->file_name,
                             "the config does not describe it");
}

static plim_status check_tensor(check *k, size_t file, const plim_safetensors_tensor *t)
{
    slot *s = find_slot(k, t->name);
    if (s) {
        s->met = true;
        return t->faulty ? PLIM_OK : check_declared(k, s, file, t);
    }
    if (starts(t->name, VISION_PREFIX) || starts(t->name, MTP_PREFIX)) {
        plim_tensor_group group = starts(t->name, MTP_PREFIX) ? PLIM_GROUP_MTP : PLIM_GROUP_VISION;
        if (!t->faulty) count(&k->f->totals[group], t);
        return PLIM_OK;
    }
    return check_unknown(k, t->name);
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* The index decides: a tensor it puts elsewhere, or nowhere, is not taken from this file. */
static plim_status check_in_shard(check *k, size_t file, const plim_safetensors_tensor *t)
{
    int64_t at = plim_index_find(k->index, t->name);
    if (at >= 0 && plim_index_tensor_shard(k->index, (size_t)at) == file) {
        k->present[at] = true;
        k->stored_bytes += t->size_bytes;
        return check_tensor(k, file, t);
    }
    if (at >= 0) {
        TRY(plim_grow(k->c, &k->moved, &k->moved_cap, k->moved_count + 1, sizeof *k->moved,
                      "misplaced tensors"));
        k->moved[k->moved_count++] = (elsewhere){(size_t)at, file};
        k->seen_in[at] = file + 1;
        return PLIM_OK;
    }
    slot *s = find_slot(k, t->name);
    if (s) s->met = true;
    if (!s && ends(t->name, "rotary_emb.inv_freq")) return check_unknown(k, t->name);
    return plim_findings_add(k->c, &k->f->problems, PLIM_FINDING_NOT_IN_INDEX, t->name, k->file_name,
                             "in this shard, but not in the index, so it would not be loaded");
}

static plim_status report_fault(void *user, plim_safetensors_fault fault, const char *tensor,
                                const char *text)
{
    check *k = user;
    /* finding kinds start with the faults of a file, in the same order */
    return plim_findings_add(k->c, &k->f->problems, (plim_finding_kind)fault, tensor, k->file_name, "%s",
                             text);
}

static plim_status read_file(check *k, size_t file, const char *name)
{
    char path[PLIM_PATH_BYTES];
    plim_safetensors *s = NULL;
    k->file_name = name;
    TRY(path_of(k, name, path));
    TRY(plim_safetensors_survey(k->c, path, report_fault, k, &s));
    if (!s) return PLIM_OK;
    k->readable[file] = true;
    k->f->files[file].bytes = plim_safetensors_file_bytes(s);
    plim_status st = PLIM_OK;
    for (size_t i = 0; i < plim_safetensors_count(s) && !st; i++) {
        const plim_safetensors_tensor *t = plim_safetensors_at(s, i);
        st = k->index ? check_in_shard(k, file, t) : check_tensor(k, file, t);
    }
    plim_safetensors_close(s);
    return st;
}

static plim_status make_files(check *k, size_t files)
{
    TRY(plim_alloc(k->c, files, sizeof *k->f->files, "model files", &k->f->files));
    TRY(plim_alloc(k->c, files, sizeof *k->readable, "model files", &k->readable));
    k->f->file_count = files;
    return PLIM_OK;
}

static plim_status check_shard(check *k, size_t shard, size_t assigned)
{
    const char *name = plim_index_shard(k->index, shard);
    char path[PLIM_PATH_BYTES];
    TRY(path_of(k, name, path));
    snprintf(k->f->files[shard].name, sizeof k->f->files[shard].name, "%s", name);
    if (plim_path_is_file(path)) return read_file(k, shard, name);
    return plim_findings_add(k->c, &k->f->problems, PLIM_FINDING_SHARD_MISSING, "", name,
                             "this shard is missing; the index puts %zu tensors into it; fetch it into %s",
                             assigned, k->folder);
}

static plim_status read_shards(check *k)
{
    size_t shards = plim_index_shard_count(k->index), tensors = plim_index_tensor_count(k->index);
    size_t *assigned = NULL;
    TRY(make_files(k, shards));
    TRY(plim_alloc(k->c, tensors, sizeof *k->present, "index tensors", &k->present));
    TRY(plim_alloc(k->c, tensors, sizeof *k->seen_in, "index tensors", &k->seen_in));
    TRY(plim_alloc(k->c, shards, sizeof *assigned, "index shards", &assigned));
    for (size_t i = 0; i < tensors; i++) assigned[plim_index_tensor_shard(k->index, i)]++;
    plim_status st = PLIM_OK;
    for (size_t i = 0; i < shards && !st; i++) st = check_shard(k, i, assigned[i]);
    plim_release(k->c, assigned);
    return st;
}

/* What only shows once all shards are read: copies, tensors in the wrong shard, the index's own sum. */
static plim_status check_index(check *k)
{
    plim_findings *problems = &k->f->problems;
    for (size_t i = 0; i < k->moved_count; i++) {
        size_t at = k->moved[i].tensor;
        const char *tensor = plim_index_tensor(k->index, at), *here = k->f->files[k->moved[i].file].name;
        const char *there = plim_index_shard(k->index, plim_index_tensor_shard(k->index, at));
        if (k->present[at])
            TRY(plim_findings_add(k->c, problems, PLIM_FINDING_TENSOR_TWICE, tensor, here,
                                  "also in %.255s, where the index puts it; one copy must go", there));
    }
    for (size_t at = 0; at < plim_index_tensor_count(k->index); at++) {
        size_t shard = plim_index_tensor_shard(k->index, at);
        if (k->present[at] || !k->readable[shard]) continue;
        const char *tensor = plim_index_tensor(k->index, at);
        const char *here = k->seen_in[at] ? k->f->files[k->seen_in[at] - 1].name : NULL;
        TRY(plim_findings_add(k->c, problems, PLIM_FINDING_NOT_IN_SHARD, tensor, k->f->files[shard].name,
                              here ? "the index puts it into this shard, but it is in %.255s"
                                   : "the index puts it into this shard, which lacks it%s",
                              here ? here : ""));
    }
    int64_t total_bytes = plim_index_total_bytes(k->index);
    bool sums_tell = true; /* a sum over files that are incomplete proves nothing */
    for (int kind = 0; kind < PLIM_SAFETENSORS_FAULT_COUNT; kind++) sums_tell &= problems->count[kind] == 0;
    sums_tell &= problems->count[PLIM_FINDING_SHARD_MISSING] + problems->count[PLIM_FINDING_TENSOR_TWICE] +
                     problems->count[PLIM_FINDING_NOT_IN_SHARD] +
                     problems->count[PLIM_FINDING_NOT_IN_INDEX] ==
                 0;
    if (sums_tell && total_bytes >= 0 && (uint64_t)total_bytes != k->stored_bytes)
        return plim_findings_add(k->c, problems, PLIM_FINDING_TOTAL_SIZE, "", PLIM_MODEL_INDEX_NAME,
                                 "total_size is %" PRId64 ", but the shards hold %" PRIu64
                                 " bytes of tensors",
                                 total_bytes, k->stored_bytes);
    return PLIM_OK;
}

static int by_text(const void *x, const void *y)
{
    return strcmp(x, y);
}

static bool is_read(const check *k, const char *name)
{
    for (size_t i = 0; i < k->f->file_count; i++)
        if (!strcmp(k->f->files[i].name, name)) return true;
    return false;
}

/* Safetensors files that are not read, by name: notes, or a hint when there is nothing to read. */
static plim_status note_strays(check *k)
{
    char(*names)[256] = NULL;
    size_t found = 0, cap = 0;
    plim_status st = PLIM_OK;
    DIR *dir = opendir(k->folder);
    if (!dir) return plim_fail(k->c, PLIM_E_IO, "%s: cannot list the folder: %s", k->folder, strerror(errno));
    for (struct dirent *e; !st && (e = readdir(dir));) {
        if (!ends(e->d_name, ".safetensors") || is_read(k, e->d_name)) continue;
        st = plim_grow(k->c, &names, &cap, found + 1, sizeof *names, "file names");
        if (!st) snprintf(names[found++], sizeof *names, "%.255s", e->d_name);
    }
    closedir(dir);
    if (found) qsort(names, found, sizeof *names, by_text);
    for (size_t i = 0; i < found && !st; i++)
        st = plim_findings_add(k->c, &k->f->notes, PLIM_FINDING_STRAY_FILE, "", names[i],
                               k->index ? "not read: the index does not name it"
                                        : "not read: without an index only " PLIM_MODEL_SINGLE_NAME " is");
    plim_release(k->c, names);
    return st;
}

static plim_status read_weights(check *k)
{
    char index_path[PLIM_PATH_BYTES], single_path[PLIM_PATH_BYTES];
    TRY(path_of(k, PLIM_MODEL_INDEX_NAME, index_path));
    TRY(path_of(k, PLIM_MODEL_SINGLE_NAME, single_path));
    if (!plim_path_is_folder(k->folder))
        return plim_fail(k->c, PLIM_E_IO,
                         "%s: no such folder; give the one that holds config.json and the weights",
                         k->folder);
    struct stat any;
    if (lstat(index_path, &any) == 0) { /* even a dangling link: falling back would read the wrong files */
        TRY(plim_index_load(k->c, index_path, &k->index));
        TRY(read_shards(k));
        TRY(check_index(k));
        return note_strays(k);
    }
    if (!plim_path_is_file(single_path)) {
        TRY(note_strays(k));
        const plim_findings *notes = &k->f->notes;
        return plim_findings_add(
            k->c, &k->f->problems, PLIM_FINDING_NO_WEIGHTS, "", "",
            "neither " PLIM_MODEL_INDEX_NAME " nor " PLIM_MODEL_SINGLE_NAME " is in %s%s%s", k->folder,
            notes->kept ? "; there is " : "", notes->kept ? notes->items[0].file : "");
    }
    TRY(make_files(k, 1));
    snprintf(k->f->files[0].name, sizeof k->f->files[0].name, "%s", PLIM_MODEL_SINGLE_NAME);
    TRY(read_file(k, 0, PLIM_MODEL_SINGLE_NAME));
    return note_strays(k);
}

/* ---- the result ---------------------------------------------------------------------------------------- */

static plim_status check_missing(check *k)
{
    if (k->f->file_count == 0 || (!k->index && !k->readable[0])) return PLIM_OK; /* said already */
    for (size_t i = 0; i < k->slot_count; i++) {
        const slot *s = &k->slots[i];
        if (s->met || s->decl.optional || (k->index && plim_index_find(k->index, s->decl.name) >= 0))
            continue;
        if (!strcmp(s->decl.name, "lm_head.weight"))
            TRY(plim_findings_add(
                k->c, &k->f->problems, PLIM_FINDING_HEAD_MISSING, s->decl.name, "",
                "missing, although tie_word_embeddings is false; the files or the config are "
                "those of another model"));
        else
            TRY(plim_findings_add(k->c, &k->f->problems, PLIM_FINDING_TENSOR_MISSING, s->decl.name, "",
                                  "missing: the config describes it, and no file holds it"));
    }
    return PLIM_OK;
}

/* F32 beside BF16 is usual for A_log and the delta-net's norm. */
static bool may_be_wide(const plim_model_tensor *t)
{
    return t->dtype == PLIM_F32 && (ends(t->name, ".A_log") || ends(t->name, ".linear_attn.norm.weight"));
}

static plim_status note_mixed(check *k)
{
    int64_t seen[PLIM_DTYPE_COUNT] = {0};
    int usual = 0;
    for (size_t i = 0; i < k->f->tensor_count; i++)
        if (++seen[k->f->tensors[i].dtype] > seen[usual]) usual = k->f->tensors[i].dtype;
    for (size_t i = 0; i < k->f->tensor_count; i++) {
        const plim_model_tensor *t = &k->f->tensors[i];
        if (t->dtype == (plim_dtype)usual || may_be_wide(t)) continue;
        TRY(plim_findings_add(k->c, &k->f->notes, PLIM_FINDING_MIXED_DTYPE, t->name,
                              k->f->files[t->file].name, "%s, while most tensors are %s",
                              plim_dtype_name(t->dtype), plim_dtype_name((plim_dtype)usual)));
    }
    return PLIM_OK;
}

static int tensor_by_name(const void *x, const void *y)
{
    const plim_model_tensor *const *a = x, *const *b = y;
    return strcmp((*a)->name, (*b)->name);
}

static plim_status gather(check *k)
{
    plim_model_files *f = k->f;
    TRY(plim_alloc(k->c, k->slot_count, sizeof *f->tensors, "model tensors", &f->tensors));
    TRY(plim_alloc(k->c, k->slot_count, sizeof *f->by_name, "model tensors", &f->by_name));
    for (size_t i = 0; i < k->slot_count; i++)
        if (k->slots[i].placed) f->tensors[f->tensor_count++] = k->slots[i].tensor;
    for (size_t i = 0; i < f->tensor_count; i++) f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, f->tensor_count, sizeof *f->by_name, tensor_by_name);
    return note_mixed(k);
}

static plim_status run(check *k)
{
    TRY(collect_declared(k));
    TRY(read_weights(k));
    TRY(check_missing(k));
    return gather(k);
}

plim_status plim_model_files_check(plim_ctx *c, const char *folder, const plim_spec *s,
                                   plim_model_files **out)
{
    check k = {.c = c, .spec = s, .folder = folder};
    TRY(plim_alloc(c, 1, sizeof *k.f, "model files", &k.f));
    k.f->ctx = c;
    plim_status st = run(&k);
    plim_index_close(k.index);
    plim_release(c, k.slots);
    plim_release(c, k.by_name);
    plim_release(c, k.present);
    plim_release(c, k.seen_in);
    plim_release(c, k.readable);
    plim_release(c, k.moved);
    if (st) {
        plim_model_files_close(k.f);
        return st;
    }
    *out = k.f;
    const plim_findings *p = &k.f->problems;
    if (p->total == 0) return PLIM_OK;
    return plim_fail(c, PLIM_E_MISMATCH,
                     "%s: %" PRIu64 " problem%s with the files of this model; the first: %s", folder,
                     p->total, p->total == 1 ? "" : "s", p->items[0].text);
}

void plim_model_files_close(plim_model_files *f)
{
    if (!f) return;
    plim_findings_release(f->ctx, &f->problems);
    plim_findings_release(f->ctx, &f->notes);
    plim_release(f->ctx, f->files);
    plim_release(f->ctx, f->tensors);
    plim_release(f->ctx, f->by_name);
    plim_release(f->ctx, f);
}

const plim_model_tensor *plim_model_files_find(const plim_model_files *f, const char *name)
{
    size_t low = 0, high = f->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, f->by_name[middle]->name);
        if (order == 0) return f->by_name[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}
