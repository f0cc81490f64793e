/* golden.h - one golden folder: a model, an adapter, and what transformers and PEFT computed from them. */
#ifndef PLIM_TESTS_GOLDEN_GOLDEN_H
#define PLIM_TESTS_GOLDEN_GOLDEN_H

#include "formats/adapter_config.h"
#include "formats/model_files.h"
#include "train/training.h"

#define GOLDEN_DOCUMENTS 64

typedef struct golden {
    plim_ctx *ctx;
    char folder[2048];
    plim_spec spec;
    plim_model_files *files;
    plim_adapter_config config;
    plim_safetensors *adapter, *values;
    int64_t T;
    const int32_t *ids;
    float *weights; /* [T] */
    int64_t documents, start[GOLDEN_DOCUMENTS + 1];
    double step_floor; /* what the loss of a step may be off by in any case */
} golden;

plim_status golden_open(plim_ctx *c, const char *folder, golden *g);
void golden_close(golden *g);

/* A tensor of golden.safetensors as float32; PLIM_E_FORMAT when absent or of another size. */
plim_status golden_values(golden *g, const char *name, int64_t elements, const float **out);

/* An engine for g with these options (length, rank and targets are g's), weights and adapter loaded. */
plim_status golden_engine(golden *g, const plim_machine *m, plim_options o, plim_training *out);
void golden_engine_close(plim_training *t);

/* The sequence as one sample, of one document unless document_starts says more. */
plim_sample golden_sample(const golden *g);

/* "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
void golden_name(const plim_adapter_tensor *t, char *out, size_t bytes);

#endif
