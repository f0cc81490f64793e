/* search_support.h - cards made up for the tests of the search, and every option of a small model tried in
 * turn. */
#ifndef PLIM_TESTS_SEARCH_SUPPORT_H
#define PLIM_TESTS_SEARCH_SUPPORT_H

#include "model/layout_case.h"

/* A card with round rates; link_gb_per_s decides whether copies are hidden by work. */
static inline plim_card search_card(int64_t memory_bytes, double link_gb_per_s)
{
    plim_card c = {.id = "test-card",
                   .name = "a card for tests",
                   .cards = 1,
                   .capability_major = 9,
                   .attention = PLIM_ATTENTION_CUDNN,
                   .memory_bytes = memory_bytes,
                   .gemm_bf16_tflop_per_s = 100,
                   .attention_forward_tflop_per_s = 80,
                   .attention_backward_tflop_per_s = 50,
                   .memory_gb_per_s = 1000,
                   .host_link_gb_per_s = link_gb_per_s,
                   .both_ways_gb_per_s = link_gb_per_s,
                   .host_ram_bytes = INT64_C(1) << 40,
                   .usd_per_h = 2};
    c.nominal_gb = (double)memory_bytes / 1e9;
    return c;
}

/* The fastest options of a full grid over what the search decides, at base's tile and loss rows.  true: some
 * fit. */
static inline bool search_brute(plim_ctx *c, const plim_spec *s, const plim_card *card,
                                const plim_options *base, const plim_limits *limits, size_t device_bytes,
                                size_t host_bytes, double *best_s, plim_options *best)
{
    bool found = false;
    plim_options o = *base;
    o.attention = card->attention;
    o.context_bytes = (size_t)card->context_bytes;
    for (int embedding = 0; embedding <= (s->tied ? 0 : 1); embedding++)
        for (int keep = 0; keep < 2; keep++)
            for (int64_t host = 0; host <= s->layers; host++)
                for (int64_t kept = 0; kept <= s->layers; kept++) {
                    plim_footprint f;
                    plim_step_time t;
                    uint32_t pins = limits->pinned;
                    o.embedding_on_host = pins & PLIM_PIN_EMBEDDING ? base->embedding_on_host : embedding;
                    o.keep_attention_output =
                        pins & PLIM_PIN_ATTENTION_OUTPUT ? base->keep_attention_output : keep;
                    o.host_checkpoints = pins & PLIM_PIN_CHECKPOINTS ? base->host_checkpoints : host;
                    o.kept_layers = pins & PLIM_PIN_KEPT_LAYERS ? base->kept_layers : kept;
                    CHECK_OK(c, plim_footprint_of(c, s, &o, card->cards, &f, NULL, NULL));
                    if (f.device_peak.total_bytes > device_bytes || f.host_peak.total_bytes > host_bytes)
                        continue;
                    plim_step_time_of(s, &o, card, &t);
                    if (found && t.step_s >= *best_s) continue;
                    found = true;
                    *best_s = t.step_s;
                    *best = o;
                }
    return found;
}

#endif
