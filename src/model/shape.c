/* shape.c - decides the sizes an option leaves open, and refuses options no step can run with. */
#include "model/shape.h"

#include "base/context.h"
#include "ops/chunk_table.h"

plim_options plim_options_defaults(void)
{
    return (plim_options){
        .seq_tokens = 16384,
        .documents = 1,
        .act = PLIM_BF16,
        .host_checkpoints = PLIM_ALL_LAYERS,
        .tile_tokens = 4096,
        .loss_rows = 2048,
        .labelled_share = 0.32,
        .lora_rank = 16,
        .lora_targets = PLIM_TARGETS_DEFAULT,
        .adam_bits = 8,
        .attention = PLIM_ATTENTION_CUDNN,
        .gemm_workspace_bytes = (size_t)64 << 20,
        .staging_bytes = (size_t)512 << 20,
        .context_bytes = (size_t)600 << 20,
    };
}

static plim_status check(plim_ctx *c, const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high) return PLIM_OK;
    return plim_fail(c, PLIM_E_RANGE, "%s is %lld; it can be %lld to %lld", name, (long long)value,
                     (long long)low, (long long)high);
}

static plim_status check_options(plim_ctx *c, const plim_spec *s, const plim_options *o)
{
    TRY(check(c, "seq_tokens", o->seq_tokens, 1, PLIM_MAX_SEQ_TOKENS));
    TRY(check(c, "documents", o->documents, 1, o->seq_tokens));
    TRY(check(c, "host_checkpoints", o->host_checkpoints, 0, PLIM_ALL_LAYERS));
    TRY(check(c, "kept_layers", o->kept_layers, 0, PLIM_ALL_LAYERS));
    TRY(check(c, "tile_tokens", o->tile_tokens, 1, PLIM_MAX_SEQ_TOKENS));
    TRY(check(c, "loss_rows", o->loss_rows, 0, PLIM_MAX_SEQ_TOKENS));
    TRY(check(c, "lora_rank", o->lora_rank, 1, PLIM_MAX_RANK));
    TRY(check(c, "kv_heads_per_call", o->kv_heads_per_call, 0, s->kv_heads));
    if (!(o->labelled_share >= 0 && o->labelled_share <= 1))
        return plim_fail(c, PLIM_E_RANGE, "labelled_share is %g; it can be 0 to 1", o->labelled_share);
    if (!(o->lora_dropout >= 0 && o->lora_dropout < 1))
        return plim_fail(c, PLIM_E_RANGE, "lora_dropout is %g; it can be 0 to below 1", o->lora_dropout);
    if (o->adam_bits != 8 && o->adam_bits != 32)
        return plim_fail(c, PLIM_E_RANGE, "adam_bits is %d; it can be 8 or 32", o->adam_bits);
    if (o->act != PLIM_BF16 && o->act != PLIM_F32 && o->act != PLIM_F64)
        return plim_fail(c, PLIM_E_UNSUPPORTED, "activations in %s; BF16 or F32 would work",
                         plim_dtype_name(o->act));
    if (o->kv_heads_per_call && s->kv_heads % o->kv_heads_per_call)
        return plim_fail(c, PLIM_E_SHAPE,
                         "kv_heads_per_call %lld does not divide the model's %lld key/value heads",
                         (long long)o->kv_heads_per_call, (long long)s->kv_heads);
    if (o->embedding_on_host && s->tied)
        return plim_fail(c, PLIM_E_UNSUPPORTED,
                         "the embedding cannot live on the host: it is this model's output head as well");
    return PLIM_OK;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

plim_status plim_shape_init(plim_ctx *c, const plim_spec *s, const plim_options *o, plim_shape *out)
{
    TRY(check_options(c, s, o));
    plim_shape sh = {.spec = s, .o = *o, .act = o->act, .T = o->seq_tokens, .D = s->hidden};
    sh.stat = o->act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
    sh.o.host_checkpoints = min64(o->host_checkpoints, s->layers);
    sh.o.kept_layers = min64(o->kept_layers, s->layers);
    sh.tile = min64(ceil_div(o->tile_tokens, PLIM_CHUNK_TOKENS) * PLIM_CHUNK_TOKENS, sh.T);
    sh.tiles = ceil_div(sh.T, sh.tile);
    sh.chunks = plim_chunk_bound(sh.tile, o->documents);
    sh.all_chunks = sh.tiles * ceil_div(sh.tile, PLIM_CHUNK_TOKENS) + o->documents;
    sh.loss_rows = o->loss_rows == PLIM_FULL_LOGITS ? sh.T : min64(o->loss_rows, sh.T);
    sh.group_kv_heads = o->kv_heads_per_call;
    if (!sh.group_kv_heads) sh.group_kv_heads = sh.T > PLIM_ALL_HEADS_UP_TO ? 1 : s->kv_heads;
    sh.group_heads = sh.group_kv_heads * (s->heads / s->kv_heads);
    sh.o.kv_heads_per_call = sh.group_kv_heads;
    for (int type = 0; type < 2; type++)
        sh.linears[type] = plim_layer_linears_of(s, (plim_layer_type)type, o->lora_rank, o->lora_targets);
    plim_shape_restrict(&sh, 0, s->layers);
    *out = sh;
    return PLIM_OK;
}

void plim_shape_restrict(plim_shape *sh, int64_t first, int64_t last)
{
    sh->first_layer = first;
    sh->last_layer = last;
    sh->has_embedding = first == 0;
    sh->has_head = last == sh->spec->layers;
    sh->adapters = plim_adapters_walk(sh->spec, sh->o.lora_rank, sh->o.lora_targets, sh->o.adam_bits, first,
                                      last, NULL, NULL);
}
