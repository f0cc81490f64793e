/* cards.c - a set of cards: one found by name, two sets laid over each other. */
#include "plan/cards.h"

#include <stdio.h>
#include <string.h>

void plim_cards_close(plim_ctx *c, plim_cards *cards)
{
    plim_release(c, cards->card);
    memset(cards, 0, sizeof *cards);
}

/* ---- laying one set over another ----------------------------------------------------------------------- */

static void lay_over(plim_card *card, const plim_card *over)
{
    if (over->given & PLIM_CARD_GAVE_NAME) memcpy(card->name, over->name, sizeof card->name);
    if (over->given & PLIM_CARD_GAVE_CARDS) card->cards = over->cards;
    if (over->given & PLIM_CARD_GAVE_ATTENTION) card->attention = over->attention;
    if (over->given & PLIM_CARD_GAVE_CAPABILITY) {
        card->capability_major = over->capability_major;
        card->capability_minor = over->capability_minor;
    }
    if (over->given & PLIM_CARD_GAVE_ALIASES) {
        memcpy(card->alias, over->alias, sizeof card->alias);
        card->aliases = over->aliases;
    }
#define LAY(name, field, type, min, max, optional)                                                           \
    if (over->given & PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_##name)) {                                           \
        card->field = over->field;                                                                           \
        card->source[PLIM_FIGURE_##name] = over->source[PLIM_FIGURE_##name];                                 \
    }
    PLIM_FIGURE_MAP(LAY)
#undef LAY
    card->given |= over->given;
}

static plim_card *by_id(plim_cards *cards, const char *id)
{
    for (int64_t i = 0; i < cards->count; i++)
        if (plim_card_same_name(cards->card[i].id, id)) return &cards->card[i];
    return NULL;
}

static plim_status merge_into(plim_ctx *c, plim_cards *cards, const plim_cards *over)
{
    static const char where[] = "card file";
    for (int64_t i = 0; i < over->count; i++) {
        plim_card *card = by_id(cards, over->card[i].id);
        if (card) lay_over(card, &over->card[i]);
        else {
            card = &cards->card[cards->count++];
            *card = over->card[i];
        }
        TRY(plim_card_check_whole(c, where, card));
        TRY(plim_card_check(c, where, card));
    }
    return plim_cards_check_names(c, where, cards);
}

plim_status plim_cards_merge(plim_ctx *c, const plim_cards *base, const plim_cards *over, plim_cards *out)
{
    plim_cards cards = {0};
    TRY(plim_alloc(c, (size_t)(base->count + over->count), sizeof *cards.card, "cards", &cards.card));
    if (base->count) memcpy(cards.card, base->card, (size_t)base->count * sizeof *base->card);
    cards.count = base->count;
    plim_status st = merge_into(c, &cards, over);
    if (st) plim_cards_close(c, &cards);
    else *out = cards;
    return st;
}

/* ---- finding one --------------------------------------------------------------------------------------- */

static int least(int a, int b, int d)
{
    int m = a < b ? a : b;
    return m < d ? m : d;
}

/* Letters to insert, drop or change to turn a into b; what differs only in case or '-' costs nothing. */
static int distance(const char *a, const char *b)
{
    int row[PLIM_CARD_NAME_BYTES];
    size_t n = strlen(b);
    for (size_t k = 0; k <= n; k++) row[k] = (int)k;
    for (size_t i = 0; a[i]; i++) {
        int corner = row[0]++;
        for (size_t k = 0; k < n; k++) {
            const char x[2] = {a[i], 0}, y[2] = {b[k], 0};
            int cost = corner + !plim_card_same_name(x, y);
            corner = row[k + 1];
            row[k + 1] = least(cost, corner + 1, row[k] + 1);
        }
    }
    return row[n];
}

static void nearest(const plim_card *card, const char *name, int *best, const char **out)
{
    for (int32_t i = -1; i < card->aliases; i++) {
        const char *other = i < 0 ? card->id : card->alias[i];
        int d = distance(name, other);
        if (d >= *best) continue;
        *best = d;
        *out = other;
    }
}

static plim_status fail_unknown(plim_ctx *c, const plim_cards *cards, const char *name)
{
    char ids[600] = "";
    size_t used = 0;
    int best = (int)PLIM_CARD_NAME_BYTES;
    const char *near = NULL;
    char cut[PLIM_CARD_NAME_BYTES];
    snprintf(cut, sizeof cut, "%s", name);
    for (int64_t i = 0; i < cards->count; i++) {
        int n = snprintf(ids + used, sizeof ids - used, "%s%s", i ? ", " : "", cards->card[i].id);
        if (n > 0 && (size_t)n < sizeof ids - used) used += (size_t)n;
        else ids[used] = 0;
        nearest(&cards->card[i], cut, &best, &near);
    }
    return plim_fail(c, PLIM_E_USAGE, "no card is named \"%s\"%s%s%s; known are %s", cut,
                     near ? "; the nearest name is \"" : "", near ? near : "", near ? "\"" : "", ids);
}

static bool answers_to(const plim_card *card, const char *name)
{
    bool found = plim_card_same_name(card->id, name);
    for (int32_t i = 0; i < card->aliases && !found; i++) found = plim_card_same_name(card->alias[i], name);
    return found;
}

plim_status plim_cards_find(plim_ctx *c, const plim_cards *cards, const char *name, const plim_card **out)
{
    for (int64_t i = 0; i < cards->count; i++) {
        if (!answers_to(&cards->card[i], name)) continue;
        TRY(plim_card_check_whole(c, "cards", &cards->card[i]));
        *out = &cards->card[i];
        return PLIM_OK;
    }
    return fail_unknown(c, cards, name);
}
