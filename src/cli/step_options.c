/* step_options.c - decides how the options of a training step are read, for every command that has them. */
#include "cli/step_options.h"

#include <string.h>

#include "base/units.h"

plim_step_ask plim_step_ask_defaults(void)
{
    return (plim_step_ask){.options = plim_options_defaults()};
}

plim_status plim_cli_misread(plim_ctx *c, const char *option, const char *value, const char *would_work)
{
    return plim_fail(c, PLIM_E_USAGE, "--%s %s is not understood; %s would work", option, value, would_work);
}

plim_status plim_cli_read_word(plim_ctx *c, const char *option, const char *value, const char *yes,
                               const char *no, bool *out)
{
    if (!strcmp(value, yes)) {
        *out = true;
        return PLIM_OK;
    }
    if (!strcmp(value, no)) {
        *out = false;
        return PLIM_OK;
    }
    char both[64];
    snprintf(both, sizeof both, "%s or %s", yes, no);
    return plim_cli_misread(c, option, value, both);
}

plim_status plim_cli_read_count(plim_ctx *c, const char *option, const char *value, int64_t *out)
{
    int64_t n;
    TRY(plim_parse_count(c, option, value, &n));
    if (n < 1 || n > PLIM_MAX_SEQ_TOKENS)
        return plim_fail(c, PLIM_E_USAGE, "%s %s is out of range; 1 to %lld would work", option, value,
                         (long long)PLIM_MAX_SEQ_TOKENS);
    *out = n;
    return PLIM_OK;
}

static plim_status read_checkpoints(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_CHECKPOINTS;
    if (!strcmp(value, "host")) {
        a->options.host_checkpoints = PLIM_ALL_LAYERS;
        return PLIM_OK;
    }
    if (!strcmp(value, "device")) {
        a->options.host_checkpoints = 0;
        return PLIM_OK;
    }
    if (value[0] < '0' || value[0] > '9')
        return plim_cli_misread(c, "checkpoints", value, "host, device or a number of layers");
    return plim_parse_int(c, "--checkpoints", value, 0, PLIM_MAX_LAYERS, &a->options.host_checkpoints);
}

static plim_status read_keep_layers(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_KEPT_LAYERS;
    return plim_parse_int(c, "--keep-layers", value, 0, PLIM_MAX_LAYERS, &a->options.kept_layers);
}

static plim_status read_keep_attention(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_ATTENTION_OUTPUT;
    return plim_cli_read_word(c, "keep-attention", value, "yes", "no", &a->options.keep_attention_output);
}

static plim_status read_tile(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_TILE;
    return plim_cli_read_count(c, "--tile", value, &a->options.tile_tokens);
}

static plim_status read_loss(plim_ctx *c, const char *value, plim_step_ask *a)
{
    return plim_cli_read_word(c, "loss", value, "full", "chunked", &a->full_logits);
}

static plim_status read_loss_rows(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_LOSS_ROWS;
    a->loss_rows = true;
    return plim_cli_read_count(c, "--loss-rows", value, &a->options.loss_rows);
}

static plim_status read_embedding(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->pinned |= PLIM_PIN_EMBEDDING;
    return plim_cli_read_word(c, "embedding", value, "host", "device", &a->options.embedding_on_host);
}

static plim_status read_attention(plim_ctx *c, const char *value, plim_step_ask *a)
{
    bool own;
    a->pinned |= PLIM_PIN_ATTENTION_KERNEL;
    TRY(plim_cli_read_word(c, "attention", value, "own", "cudnn", &own));
    a->options.attention = own ? PLIM_ATTENTION_OWN : PLIM_ATTENTION_CUDNN;
    return PLIM_OK;
}

static plim_status read_labelled(plim_ctx *c, const char *value, plim_step_ask *a)
{
    return plim_parse_double(c, "--labelled-share", value, 0, 1, &a->options.labelled_share);
}

static plim_status read_documents(plim_ctx *c, const char *value, plim_step_ask *a)
{
    return plim_cli_read_count(c, "--documents", value, &a->options.documents);
}

static plim_status read_rank(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->rank = true;
    return plim_parse_int(c, "--rank", value, 1, PLIM_MAX_RANK, &a->options.lora_rank);
}

static plim_status read_targets(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->targets = true;
    return plim_targets_parse(c, value, &a->options.lora_targets);
}

static plim_status read_dropout(plim_ctx *c, const char *value, plim_step_ask *a)
{
    a->dropout = true;
    return plim_parse_double(c, "--lora-dropout", value, 0, 0.999999, &a->options.lora_dropout);
}

static plim_status read_adam(plim_ctx *c, const char *value, plim_step_ask *a)
{
    int64_t bits;
    TRY(plim_parse_int(c, "--adam", value, 8, 32, &bits));
    if (bits != 8 && bits != 32) return plim_cli_misread(c, "adam", value, "8 or 32");
    a->options.adam_bits = (int)bits;
    return PLIM_OK;
}

plim_status plim_step_option_read(plim_ctx *c, const char *name, const char *value, plim_step_ask *a,
                                  bool *taken)
{
    static const struct {
        const char *name;
        plim_status (*read)(plim_ctx *c, const char *value, plim_step_ask *a);
    } readers[] = {
        {"checkpoints", read_checkpoints},
        {"keep-layers", read_keep_layers},
        {"keep-attention", read_keep_attention},
        {"tile", read_tile},
        {"loss", read_loss},
        {"loss-rows", read_loss_rows},
        {"embedding", read_embedding},
        {"attention", read_attention},
        {"labelled-share", read_labelled},
        {"documents", read_documents},
        {"rank", read_rank},
        {"targets", read_targets},
        {"lora-dropout", read_dropout},
        {"adam", read_adam},
    };
    *taken = true;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (!strcmp(readers[i].name, name)) return readers[i].read(c, value, a);
    *taken = false;
    return PLIM_OK;
}

plim_status plim_step_ask_settle(plim_ctx *c, plim_step_ask *a)
{
    if (!a->full_logits) return PLIM_OK;
    if (a->loss_rows) return plim_fail(c, PLIM_E_USAGE, "--loss full and --loss-rows contradict each other");
    a->options.loss_rows = PLIM_FULL_LOGITS;
    a->pinned |= PLIM_PIN_LOSS_ROWS;
    return PLIM_OK;
}

static plim_status check_layers(plim_ctx *c, const char *option, int64_t given, const plim_spec *spec)
{
    if (given == PLIM_ALL_LAYERS || given <= spec->layers) return PLIM_OK;
    return plim_fail(c, PLIM_E_USAGE, "%s %lld: the model has %lld layers; 0 to %lld would work", option,
                     (long long)given, (long long)spec->layers, (long long)spec->layers);
}

plim_status plim_step_check(plim_ctx *c, const plim_options *o, uint32_t pinned, const plim_spec *spec)
{
    if (pinned & PLIM_PIN_CHECKPOINTS) TRY(check_layers(c, "--checkpoints", o->host_checkpoints, spec));
    if (pinned & PLIM_PIN_KEPT_LAYERS) TRY(check_layers(c, "--keep-layers", o->kept_layers, spec));
    return PLIM_OK;
}

void plim_step_on_cpu(plim_step_ask *a, plim_dtype act)
{
    plim_options *o = &a->options;
    o->act = act;
    o->attention = PLIM_ATTENTION_CPU;
    o->context_bytes = o->gemm_workspace_bytes = o->staging_bytes = 0;
    if (!(a->pinned & PLIM_PIN_CHECKPOINTS)) o->host_checkpoints = 0;
}
