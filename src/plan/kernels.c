/* kernels.c - decides which cards this version can run a step on. */
#include "plimsoll_search.h"

/* Filled in as the CUDA column's slots come to exist. */
static const bool have_cuda_step = false, have_own_attention = false;

bool plim_card_runnable(const plim_card *card, const char **missing)
{
    *missing = "";
    if (card->cards > 1) {
        *missing = "not runnable yet: a step over several cards";
        return false;
    }
    if (card->attention == PLIM_ATTENTION_OWN && !have_own_attention) {
        *missing = "not runnable yet: plimsoll's CUDA kernels, its own attention among them";
        return false;
    }
    if (!have_cuda_step) *missing = "not runnable yet: plimsoll's CUDA kernels";
    return have_cuda_step;
}
