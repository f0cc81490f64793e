/* kernels.c - decides which cards this version can run a step on. */
#include "plimsoll_search.h"

bool plim_card_runnable(const plim_card *card, const char **missing)
{
    *missing = card->cards > 1 ? "not runnable yet: a step over several cards" : "";
    return card->cards == 1;
}
