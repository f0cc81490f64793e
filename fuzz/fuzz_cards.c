/* Card files over any bytes: a set that is accepted has sane figures, finds each of its whole cards by name,
 * and laid over a known card either is refused or leaves a whole card. */
#include <stdlib.h>
#include <string.h>

#include "plimsoll.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char known[] =
    "{\"format\": 1, \"cards\": [{\"id\": \"a\", \"name\": \"A\", \"cards\": 1, \"compute_capability\": "
    "\"9.0\","
    "\"attention_kernel\": \"cudnn\", \"nominal_gb\": 80, \"memory_bytes\": 85899345920, \"reserved_bytes\": "
    "1,"
    "\"context_bytes\": 1, \"gemm_bf16_tflop_per_s\": 1, \"attention_forward_tflop_per_s\": 1,"
    "\"attention_backward_tflop_per_s\": 1, \"memory_gb_per_s\": 10, \"host_link_gb_per_s\": 1,"
    "\"both_ways_gb_per_s\": 1, \"host_ram_bytes\": 1073741824, \"usd_per_h\": 1}]}";

static void check(bool good)
{
    if (!good) abort();
}

static void check_figures(const plim_card *card)
{
    check(card->id[0] && memchr(card->id, 0, sizeof card->id));
    check(card->aliases >= 0 && card->aliases <= PLIM_CARD_MAX_ALIASES);
    check(card->memory_bytes >= 0 && card->nominal_gb >= 0 && card->usd_per_h >= 0 && card->cards >= 0);
    for (int f = 0; f < PLIM_FIGURE_COUNT; f++) {
        check((unsigned)card->source[f].basis < PLIM_BASIS_COUNT);
        check(memchr(card->source[f].source, 0, sizeof card->source[f].source));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plim_ctx *c = NULL;
    plim_cards cards = {0}, base = {0}, both = {0};
    char *text =
        malloc(size ? size : 1); /* of exactly this size, so that the sanitizer sees every step too far */
    if (!text || plim_ctx_open(NULL, &c)) abort();
    if (size) memcpy(text, data, size);
    if (plim_cards_parse(c, "fuzz", text, size, &cards) == PLIM_OK) {
        check(cards.count > 0);
        for (int64_t i = 0; i < cards.count; i++) {
            const plim_card *found = NULL;
            check_figures(&cards.card[i]);
            plim_status st = plim_cards_find(c, &cards, cards.card[i].id, &found);
            check(st == PLIM_E_FORMAT || (st == PLIM_OK && found == &cards.card[i]));
            plim_ctx_clear(c);
        }
        check(plim_cards_parse(c, "known", known, sizeof known - 1, &base) == PLIM_OK);
        if (plim_cards_merge(c, &base, &cards, &both) == PLIM_OK) {
            const plim_card *found = NULL;
            check(both.count >= cards.count);
            check(plim_cards_find(c, &both, "a", &found) == PLIM_OK && found->memory_bytes > 0);
        }
    }
    plim_cards_close(c, &both);
    plim_cards_close(c, &base);
    plim_cards_close(c, &cards);
    plim_ctx_close(c);
    free(text);
    return 0;
}
