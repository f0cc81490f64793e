/* fuzz_config.c - any bytes as a config.json; a spec that is accepted must keep its promises. */
#include <stdlib.h>
#include <string.h>

#include "plimsoll.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static bool check_tensor(void *user, const plim_tensor_decl *d)
{
    int64_t *parameters = user, n = 1;
    require(d->name[0] && strlen(d->name) < sizeof d->name - 1);
    require(d->dims >= 1 && d->dims <= 5);
    for (int32_t i = 0; i < d->dims; i++) {
        require(d->shape[i] > 0);
        require(!__builtin_mul_overflow(n, d->shape[i], &n));
    }
    if (!d->optional) require(!__builtin_add_overflow(*parameters, n, parameters));
    return true;
}

static void check_spec(const plim_spec *s)
{
    plim_counts n = plim_spec_counts(s);
    int64_t parameters[3] = {0, 0, 0};
    for (int g = 0; g < 3; g++) plim_spec_tensors(s, (plim_tensor_group)g, check_tensor, &parameters[g]);
    require(parameters[0] == n.parameters && parameters[1] == n.vision_parameters &&
            parameters[2] == n.mtp_parameters);
    require(s->layers >= 1 && s->layers <= PLIM_MAX_LAYERS);
    require(plim_spec_layers_of(s, PLIM_LAYER_DELTA) + plim_spec_layers_of(s, PLIM_LAYER_ATTENTION) ==
            s->layers);
    require(s->kv_heads >= 1 && s->heads % s->kv_heads == 0);
    require(s->rope.theta >= 1.0 && s->rope.rotary_dim >= 2 && s->rope.rotary_dim <= s->head_dim);
    require(s->rope.rotary_dim % 2 == 0);
    if (plim_spec_layers_of(s, PLIM_LAYER_DELTA))
        require(s->value_heads % s->key_heads == 0 && s->conv_taps >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_spec s;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_spec_parse(c, "config.json", (const char *)data, bytes, &s);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st != PLIM_E_OOM_HOST);
    if (st == PLIM_OK) check_spec(&s);
    plim_ctx_close(c);
    return 0;
}
