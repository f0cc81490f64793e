/* model_files.h - whether the files of a model folder hold what its spec promises, and where each tensor
 * lies. */
#ifndef PLIM_FORMATS_MODEL_FILES_H
#define PLIM_FORMATS_MODEL_FILES_H

#include "formats/model_findings.h"

#define PLIM_MODEL_INDEX_NAME  "model.safetensors.index.json"
#define PLIM_MODEL_SINGLE_NAME "model.safetensors"

typedef struct plim_model_file {
    char name[256];
    uint64_t bytes; /* 0 when missing */
} plim_model_file;

/* One text tensor that is as declared; any of F32, F16, BF16. */
typedef struct plim_model_tensor {
    char name[160];
    int64_t shape[5];
    int32_t dims, layer; /* layer -1: not in a layer */
    plim_dtype dtype;
    int32_t file;          /* in files */
    uint64_t offset_bytes; /* from the start of the file; any alignment */
    uint64_t size_bytes;
} plim_model_tensor;

typedef struct plim_model_totals {
    int64_t tensors, parameters;
    uint64_t bytes;
} plim_model_totals;

typedef struct plim_model_files {
    plim_ctx *ctx;
    plim_model_file *files;
    size_t file_count;
    plim_model_tensor *tensors; /* in the spec's order; a tensor with a problem is not among them */
    size_t tensor_count;
    const plim_model_tensor **by_name;            /* the same, sorted */
    plim_model_totals totals[PLIM_GROUP_MTP + 1]; /* by plim_tensor_group, as found */
    plim_findings problems;
    plim_findings notes; /* stray files, rotary buffers, mixed dtypes */
} plim_model_files;

/* Reads the headers of a folder's weights and compares them with s; never the data.  With a
 * model.safetensors.index.json the index decides: its shards are read, and no other file.  Otherwise
 * model.safetensors is read.  model.visual.* and mtp.* are counted and not compared.
 *
 * Every problem is listed in one go.  *out is written on PLIM_OK and, as an exception to the rule, on
 * PLIM_E_MISMATCH, so that the list can be shown; in both cases the caller closes it.  On PLIM_E_MISMATCH the
 * message gives the first problem and their number.
 * Errors: PLIM_E_MISMATCH (there are problems); PLIM_E_IO (no folder, a file that cannot be read); those of
 * plim_index_load; PLIM_E_RANGE (a path too long); PLIM_E_OOM_HOST. */
plim_status plim_model_files_check(plim_ctx *c, const char *folder, const plim_spec *s,
                                   plim_model_files **out);
void plim_model_files_close(plim_model_files *f);

/* NULL when the tensor is absent (or has a problem). */
const plim_model_tensor *plim_model_files_find(const plim_model_files *f, const char *name);

#endif
