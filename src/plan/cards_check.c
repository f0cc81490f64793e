/* cards_check.c - refuses a set of cards that contradicts itself: a wrong unit, a name twice, a key
 * missing. */
#include "plan/cards.h"

#include <stdio.h>

static char folded(char b)
{
    if (b >= 'A' && b <= 'Z') return (char)(b - 'A' + 'a');
    return b == '_' || b == ' ' ? '-' : b;
}

bool plim_card_same_name(const char *a, const char *b)
{
    for (; *a && folded(*a) == folded(*b); a++) b++;
    return *a == 0 && *b == 0;
}

static bool gave(const plim_card *card, uint32_t bits)
{
    return (card->given & bits) == bits;
}

/* A driver reports 1.07 x (binary units, less what ECC takes) of what a card is sold as. */
static plim_status check_memory(plim_ctx *c, const char *where, const plim_card *card)
{
    double ratio = (double)card->memory_bytes * card->cards / (card->nominal_gb * 1e9);
    if (ratio >= 0.9 && ratio <= 1.2) return PLIM_OK;
    return plim_fail(
        c, PLIM_E_RANGE,
        "%s: card \"%s\": %d x memory_bytes is %.1f GB, nominal_gb is %g; the two should agree to some 10 "
        "%%: memory_bytes is one card's, nominal_gb that of all",
        where, card->id, (int)card->cards, (double)card->memory_bytes * card->cards / 1e9, card->nominal_gb);
}

plim_status plim_card_check(plim_ctx *c, const char *where, const plim_card *card)
{
    const uint32_t memory = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_MEMORY_BYTES),
                   nominal = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_NOMINAL_GB),
                   reserved = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_RESERVED_BYTES),
                   context = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_CONTEXT_BYTES),
                   link = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_HOST_LINK),
                   both = PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_BOTH_WAYS);
    if (gave(card, memory | nominal | PLIM_CARD_GAVE_CARDS)) TRY(check_memory(c, where, card));
    if (gave(card, memory | reserved | context) &&
        card->reserved_bytes + card->context_bytes >= card->memory_bytes / 2)
        return plim_fail(
            c, PLIM_E_RANGE,
            "%s: card \"%s\": reserved_bytes + context_bytes is %lld, half of memory_bytes or more; a "
            "driver and its context take about 1.2e9",
            where, card->id, (long long)(card->reserved_bytes + card->context_bytes));
    if (gave(card, link | both) && (card->both_ways_gb_per_s < card->host_link_gb_per_s ||
                                    card->both_ways_gb_per_s > 2 * card->host_link_gb_per_s))
        return plim_fail(c, PLIM_E_RANGE,
                         "%s: card \"%s\": both_ways_gb_per_s is %g, the sum of two copies at once; with "
                         "host_link_gb_per_s %g it lies from %g to %g",
                         where, card->id, card->both_ways_gb_per_s, card->host_link_gb_per_s,
                         card->host_link_gb_per_s, 2 * card->host_link_gb_per_s);
    if (gave(card, PLIM_CARD_GAVE_CAPABILITY | PLIM_CARD_GAVE_ATTENTION) &&
        card->attention == PLIM_ATTENTION_CUDNN &&
        (card->capability_major != 9 || card->capability_minor != 0))
        return plim_fail(
            c, PLIM_E_UNSUPPORTED,
            "%s: card \"%s\": attention_kernel \"cudnn\" with compute_capability %d.%d; plimsoll uses "
            "cuDNN on 9.0 alone, elsewhere \"own\"",
            where, card->id, (int)card->capability_major, (int)card->capability_minor);
    return PLIM_OK;
}

plim_status plim_card_check_whole(plim_ctx *c, const char *where, const plim_card *card)
{
    static const struct {
        uint32_t bit;
        const char *key;
    } needed[] = {{PLIM_CARD_GAVE_NAME, "name"},
                  {PLIM_CARD_GAVE_CARDS, "cards"},
                  {PLIM_CARD_GAVE_CAPABILITY, "compute_capability"},
                  {PLIM_CARD_GAVE_ATTENTION, "attention_kernel"},
#define NEEDED(name, field, type, min, max, optional)                                                        \
    {(optional) ? 0 : PLIM_CARD_GAVE_FIGURE(PLIM_FIGURE_##name), #field},
                  PLIM_FIGURE_MAP(NEEDED)
#undef NEEDED
    };
    char keys[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (gave(card, needed[i].bit)) continue;
        int n = snprintf(keys + used, sizeof keys - used, "%s%s", used ? ", " : "", needed[i].key);
        if (n > 0 && (size_t)n < sizeof keys - used) used += (size_t)n;
    }
    if (!used) return PLIM_OK;
    return plim_fail(
        c, PLIM_E_FORMAT,
        "%s: card \"%s\" lacks %s; give them, or use the id of a known card to change just some keys", where,
        card->id, keys);
}

/* Name i of a card: the id, then the aliases. */
static const char *name_of(const plim_card *card, int32_t i)
{
    return i == 0 ? card->id : card->alias[i - 1];
}

static plim_status check_pair(plim_ctx *c, const char *where, const plim_card *a, const plim_card *b)
{
    for (int32_t i = 0; i <= a->aliases; i++)
        for (int32_t k = a == b ? i + 1 : 0; k <= b->aliases; k++)
            if (plim_card_same_name(name_of(a, i), name_of(b, k)))
                return plim_fail(
                    c, PLIM_E_FORMAT,
                    "%s: \"%s\" names card \"%s\" and, as \"%s\", card \"%s\"; a name means one card", where,
                    name_of(a, i), a->id, name_of(b, k), b->id);
    return PLIM_OK;
}

plim_status plim_cards_check_names(plim_ctx *c, const char *where, const plim_cards *cards)
{
    for (int64_t i = 0; i < cards->count; i++)
        for (int64_t k = i; k < cards->count; k++)
            TRY(check_pair(c, where, &cards->card[i], &cards->card[k]));
    return PLIM_OK;
}
