/* adapter.h - LoRA adapters between PEFT's files and the flat master block of adapters.h.
 *
 * A folder holds adapter_config.json and adapter_model.safetensors.  Its tensors are
 *     base_model.model.<prefix>layers.<n>.<module>.lora_A.weight [r, in]
 *     base_model.model.<prefix>layers.<n>.<module>.lora_B.weight [out, r]
 * with prefix model. or model.language_model. as the checkpoint of the base spells it.  In the master block
 * the rank is padded; rows of lora_A and columns of lora_B from r on are zero.
 *
 * master, everywhere: STAT [1, elements] of plim_adapters_layout for sh, in host memory. */
#ifndef PLIM_TRAIN_ADAPTER_H
#define PLIM_TRAIN_ADAPTER_H

#include "formats/adapter_config.h"
#include "model/shape.h"

#define PLIM_ADAPTER_KEY_BYTES 224

/* One tensor of an adapter file; rows and cols without padding. */
typedef struct plim_adapter_key {
    char name[PLIM_ADAPTER_KEY_BYTES];
    int64_t rows, cols;
    plim_adapter_tensor tensor;
} plim_adapter_key;

/* The key of t as it is written for s. */
void plim_adapter_key_of(const plim_spec *s, int64_t rank, const plim_adapter_tensor *t,
                         plim_adapter_key *out);

/* Whether keys, in the order of plim_adapters_walk, are those of projections the base has, in its shapes: an
 * adapter under other names would load elsewhere without one active module.
 * Errors: PLIM_E_MISMATCH naming the first key that is not. */
plim_status plim_adapter_keys_check(plim_ctx *c, const plim_spec *s, const plim_adapter_key *keys,
                                    size_t count);

/* Reads the config and the header of the tensors, and compares them with s: every projection of the adapter
 * in every layer that has it, nothing else; either prefix, F32, F16 or BF16.  out->targets are those s has.
 * Errors: PLIM_E_MISMATCH, PLIM_E_UNSUPPORTED (dtype); PLIM_E_IO, PLIM_E_OOM_HOST; those of
 * plim_adapter_config_load and plim_safetensors_open. */
plim_status plim_adapter_survey(plim_ctx *c, const char *folder, const plim_spec *s,
                                plim_adapter_config *out);

/* Fills master from the folder; sh has the rank and targets that the survey gave.  Layers of other cards are
 * not read.  Errors: those of the survey; PLIM_E_MISMATCH (rank or targets differ from sh); PLIM_E_NUMERIC
 * (an element is not finite). */
plim_status plim_adapter_load(plim_ctx *c, const char *folder, const plim_shape *sh, plim_tensor master);

/* A new adapter: lora_B 0, lora_A uniform in [-1, 1) / sqrt(in) (PEFT's Kaiming initialisation with a =
 * sqrt(5)).  Element i, row-major in [r, in], comes from Philox(seed, FNV-1a of its key) at index i: the
 * upper 24 bits u of the word give (u / 2^23 - 1) * (float)(1 / sqrt(in)). */
void plim_adapter_fresh(const plim_shape *sh, uint64_t seed, plim_tensor master);

typedef struct plim_adapter_save_args {
    const char *folder;      /* absent, or empty */
    const plim_shape *shape; /* of the whole model */
    plim_tensor master;
    plim_adapter_config config; /* alpha, rslora, dropout, base_model; rank and targets are the shape's */
    plim_dtype dtype;           /* F32, F16 or BF16 */
    bool trained;               /* at least one step was taken */
} plim_adapter_save_args;

/* Writes a folder beside and renames it, so that it is complete or absent.  Tensors are in the order of their
 * names.  Errors: PLIM_E_IO (also when the folder holds something); PLIM_E_MISMATCH (no tensors; a key the
 * base does not have); PLIM_E_NUMERIC (an element is not finite, or too large for dtype); PLIM_E_RANGE
 * (trained, and a lora_B is all zero; padding that is not zero; a path too long); PLIM_E_FORMAT (base_model
 * is not UTF-8); PLIM_E_OOM_HOST. */
plim_status plim_adapter_save(plim_ctx *c, const plim_adapter_save_args *a);

#endif
