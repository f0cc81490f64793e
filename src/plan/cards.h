/* cards.h - what reading and mixing card files share. */
#ifndef PLIM_PLAN_CARDS_H
#define PLIM_PLAN_CARDS_H

#include "base/context.h"
#include "plimsoll_cards.h"

/* Bits of plim_card.given: the figures by number, then these. */
#define PLIM_CARD_GAVE_FIGURE(f)  (1u << (f))
#define PLIM_CARD_GAVE_NAME       (1u << PLIM_FIGURE_COUNT)
#define PLIM_CARD_GAVE_ALIASES    (1u << (PLIM_FIGURE_COUNT + 1))
#define PLIM_CARD_GAVE_CARDS      (1u << (PLIM_FIGURE_COUNT + 2))
#define PLIM_CARD_GAVE_CAPABILITY (1u << (PLIM_FIGURE_COUNT + 3))
#define PLIM_CARD_GAVE_ATTENTION  (1u << (PLIM_FIGURE_COUNT + 4))

/* Whether two names mean the same card. */
bool plim_card_same_name(const char *a, const char *b);

/* Refuses a card whose figures contradict each other; compares only those that are given.  where starts the
 * message.  Errors: PLIM_E_RANGE, PLIM_E_UNSUPPORTED. */
plim_status plim_card_check(plim_ctx *c, const char *where, const plim_card *card);

/* PLIM_E_FORMAT naming every key the card still lacks. */
plim_status plim_card_check_whole(plim_ctx *c, const char *where, const plim_card *card);

/* PLIM_E_FORMAT when an id or alias stands twice in the set. */
plim_status plim_cards_check_names(plim_ctx *c, const char *where, const plim_cards *cards);

#endif
