/* formula_support.h - the model and the cards that the formula tests reckon with. */
#ifndef PLIM_TESTS_FORMULA_SUPPORT_H
#define PLIM_TESTS_FORMULA_SUPPORT_H

#include "support/test.h"

typedef struct formula_fixture {
    plim_ctx *c;
    plim_spec spec;
    plim_cards cards;
} formula_fixture;

static inline formula_fixture formula_open(void)
{
    formula_fixture f = {.c = test_ctx_open()};
    CHECK_OK(f.c, plim_spec_load(f.c, PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json", &f.spec));
    CHECK_OK(f.c, plim_cards_load(f.c, PLIM_SHARE_SOURCE "/cards.json", &f.cards));
    return f;
}

static inline void formula_close(formula_fixture *f)
{
    plim_cards_close(f->c, &f->cards);
    test_ctx_close(f->c);
}

static inline const plim_card *formula_card(formula_fixture *f, const char *name)
{
    const plim_card *card = NULL;
    CHECK_OK(f->c, plim_cards_find(f->c, &f->cards, name, &card));
    return card;
}

#endif
