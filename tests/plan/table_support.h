/* table_support.h - whole tables of the shipped model over shipped cards, for tests of what is made from
 * them. */
#ifndef PLIM_TESTS_TABLE_SUPPORT_H
#define PLIM_TESTS_TABLE_SUPPORT_H

#include "plan/formula_support.h"

typedef struct table_fixture {
    formula_fixture f;
    const plim_card *cards[16];
    plim_table_request request;
    plim_table table;
} table_fixture;

/* names: card ids, ended by NULL; NULL: every shipped card.  seq_tokens must outlive the fixture. */
static inline table_fixture *table_open(plim_trainer trainer, const char *const *names,
                                        const int64_t *seq_tokens, int64_t seq_count)
{
    static table_fixture fixture; /* a request points into its own fixture, so it must not move */
    table_fixture *x = &fixture;
    *x = (table_fixture){.f = formula_open()};
    plim_table_request *r = &x->request;
    *r = (plim_table_request){.model = "models/qwen3.8-27b", .spec = &x->f.spec, .trainer = trainer};
    for (; names && *names; names++) x->cards[r->card_count++] = formula_card(&x->f, *names);
    for (int64_t i = 0; !names && i < x->f.cards.count; i++) x->cards[r->card_count++] = &x->f.cards.card[i];
    r->cards = x->cards;
    r->seq_tokens = seq_tokens;
    r->seq_count = seq_count;
    r->base = plim_options_defaults();
    r->limits = plim_limits_defaults();
    r->workload.labelled_share = -1;
    return x;
}

static inline void table_make(table_fixture *x)
{
    CHECK_OK(x->f.c, plim_table_make(x->f.c, &x->request, &x->f.cards, &x->table));
}

static inline void table_close(table_fixture *x)
{
    plim_table_free(x->f.c, &x->table);
    assert_int_equal(x->table.run_count, 0);
    formula_close(&x->f);
}

#endif
