/* kernels.c - decides which cards this version can run a step of a model on. */
#include "plimsoll_search.h"

/* 8.6, 8.9 and 12.x give a block 99 KiB of shared memory; the delta rule's scans over heads wider than 64
 * need more. */
static bool small_shared_memory(const plim_card *card)
{
    return (card->capability_major == 8 && card->capability_minor >= 6) || card->capability_major == 12;
}

static bool wide_delta_heads(const plim_spec *s)
{
    return plim_spec_layers_of(s, PLIM_LAYER_DELTA) > 0 && (s->key_dim > 64 || s->value_dim > 64);
}

bool plim_card_runnable(const plim_spec *s, const plim_card *card, const char **missing)
{
    *missing = "";
    if (card->cards > 1) *missing = "not runnable yet: a step over several cards";
    else if (small_shared_memory(card) && wide_delta_heads(s))
        *missing = "not runnable yet: delta-net kernels for heads wider than 64 in 99 KiB of shared memory";
    return !**missing;
}
