/* index.h - model.safetensors.index.json: which shard holds which tensor. */
#ifndef PLIM_FORMATS_INDEX_H
#define PLIM_FORMATS_INDEX_H

#include "plimsoll.h"

typedef struct plim_index plim_index;

/* Reads {"metadata": {"total_size": N}, "weight_map": {TENSOR: SHARD, ...}}; metadata and total_size may be
 * absent, other members are not looked at.  A shard is a file name without a folder.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT (not JSON, a duplicate tensor, a value that is no string, a shard outside
 * the folder, an empty map, a git-lfs pointer); PLIM_E_RANGE (total_size negative); PLIM_E_OOM_HOST. */
plim_status plim_index_load(plim_ctx *c, const char *path, plim_index **out);

/* The same from memory; name is used in messages.  text may go once this returns. */
plim_status plim_index_parse(plim_ctx *c, const char *name, const char *text, size_t bytes, plim_index **out);
void plim_index_close(plim_index *x);

/* metadata.total_size, bytes of all tensors together; -1 when absent. */
int64_t plim_index_total_bytes(const plim_index *x);

/* Shards by name, each once; i < count. */
size_t plim_index_shard_count(const plim_index *x);
const char *plim_index_shard(const plim_index *x, size_t i);

/* Tensors by name; i < count.  find gives the tensor's number, or -1. */
size_t plim_index_tensor_count(const plim_index *x);
const char *plim_index_tensor(const plim_index *x, size_t i);
size_t plim_index_tensor_shard(const plim_index *x, size_t i);
int64_t plim_index_find(const plim_index *x, const char *tensor);

#endif
