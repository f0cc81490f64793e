/* adapter_config.h - adapter_config.json, the half of a PEFT LoRA adapter that says what its tensors mean. */
#ifndef PLIM_FORMATS_ADAPTER_CONFIG_H
#define PLIM_FORMATS_ADAPTER_CONFIG_H

#include "plimsoll.h"

#define PLIM_ADAPTER_CONFIG_NAME  "adapter_config.json"
#define PLIM_ADAPTER_TENSORS_NAME "adapter_model.safetensors"

typedef struct plim_adapter_config {
    int64_t rank;         /* r */
    double alpha;         /* lora_alpha */
    double dropout;       /* lora_dropout: a probability below 1 */
    bool rslora;          /* the scale is alpha / sqrt(r), not alpha / r */
    uint32_t targets;     /* target_modules, as PLIM_TARGET_BITs; 0: a pattern, so the tensors decide */
    char base_model[512]; /* base_model_name_or_path, "" when null */
} plim_adapter_config;

/* What x A^T B^T is multiplied with: alpha / r, for rsLoRA alpha / sqrt(r).  Source: arXiv:2312.03732. */
double plim_adapter_scale(const plim_adapter_config *g);

/* Reads PEFT's file.  r, lora_alpha, target_modules and peft_type must be there.  What changes the result and
 * is not computed here is refused by name: another peft_type or task_type, a bias, DoRA, ranks or alphas that
 * differ by layer, saved modules, a choice of layers, an initialisation that altered the base weights; so is
 * any member plimsoll does not know, unless it is null, false or empty.
 * Errors: PLIM_E_FORMAT, PLIM_E_RANGE, PLIM_E_UNSUPPORTED, PLIM_E_OOM_HOST; load: PLIM_E_IO. */
plim_status plim_adapter_config_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                      plim_adapter_config *out);
plim_status plim_adapter_config_load(plim_ctx *c, const char *path, plim_adapter_config *out);

/* Writes it so that PEFT and parse read the same back.  targets is not 0.
 * Errors: PLIM_E_FORMAT (base_model is not UTF-8), PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_adapter_config_write(plim_ctx *c, const char *path, const plim_adapter_config *g);

#endif
