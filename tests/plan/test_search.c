/* The search: what it chooses fits, nothing it could have chosen is faster, pins and budgets hold; the load
 * line against a linear scan. */
#include "plan/search_support.h"

#include <math.h>

#define CASES 400

/* A model, options and a card whose memory lies between what the leanest and the fastest options need. */
typedef struct search_case {
    plim_spec spec;
    plim_options base;
    plim_card card;
    plim_limits limits;
    plim_planner *planner;
} search_case;

static plim_footprint footprint(plim_ctx *c, const search_case *k, const plim_options *o)
{
    plim_footprint f;
    CHECK_OK(c, plim_footprint_of(c, &k->spec, o, k->card.cards, &f, NULL, NULL));
    return f;
}

static search_case *open_case(plim_ctx *c, uint64_t seed)
{
    static const double links[] = {0.05, 0.5, 2, 5, 10, 20, 50, 200};
    static search_case k;
    layout_random r = {seed};
    k = (search_case){.spec = layout_random_spec(&r),
                      .base = plim_options_defaults(),
                      .limits = plim_limits_defaults(),
                      .card = search_card(1, links[layout_pick(&r, 0, 7)])};
    k.base.seq_tokens = layout_pick(&r, 300, 20000);
    k.base.lora_rank = 4;
    k.base.gemm_workspace_bytes = k.base.staging_bytes = k.base.context_bytes = 0;
    plim_options lean = k.base, fast = k.base;
    lean.embedding_on_host = !k.spec.tied;
    fast.host_checkpoints = 0;
    fast.kept_layers = k.spec.layers;
    plim_footprint low = footprint(c, &k, &lean), high = footprint(c, &k, &fast);
    int64_t a = (int64_t)low.device_peak.total_bytes, b = (int64_t)high.device_peak.total_bytes;
    k.card.memory_bytes = (int64_t)((double)layout_pick(&r, (a < b ? a : b) / 10 * 8, a < b ? b : a) / 0.92);
    if (layout_coin(&r))
        k.limits.host_bytes = layout_pick(&r, 1000, 2 * (int64_t)low.host_peak.total_bytes + 2000);
    CHECK_OK(c, plim_planner_open(c, &k.spec, &k.planner));
    return &k;
}

static plim_choice choose(plim_ctx *c, search_case *k)
{
    plim_choice out;
    CHECK_OK(c, plim_choose(k->planner, &k->card, &k->base, &k->limits, &out));
    return out;
}

static size_t host_bytes(const search_case *k)
{
    return (size_t)((double)(k->limits.host_bytes ? k->limits.host_bytes : k->card.host_ram_bytes) * 0.80);
}

/* What a choice says of itself is what a walk of its options says, within the budgets of its verdict. */
TEST(choices_fit_when_walked_again)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int64_t fits = 0, tight = 0, no = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        search_case *k = open_case(c, seed);
        plim_choice b = choose(c, k);
        plim_footprint f = footprint(c, k, &b.options);
        assert_memory_equal(&f.device_peak, &b.footprint.device_peak, sizeof f.device_peak);
        assert_memory_equal(&f.host_peak, &b.footprint.host_peak, sizeof f.host_peak);
        assert_int_equal(b.budget_bytes, (size_t)((double)k->card.memory_bytes * 0.92));
        assert_int_equal(b.host_budget_bytes, host_bytes(k));
        if (b.verdict == PLIM_FITS) assert_true(f.device_peak.total_bytes <= b.budget_bytes);
        if (b.verdict == PLIM_TIGHT) {
            assert_true(f.device_peak.total_bytes > b.budget_bytes);
            assert_true(f.device_peak.total_bytes <= (size_t)k->card.memory_bytes);
        }
        if (b.verdict != PLIM_NO) {
            plim_step_time t;
            assert_true(f.host_peak.total_bytes <= b.host_budget_bytes);
            assert_true(f.load_host_bytes <= b.host_budget_bytes);
            assert_int_equal(b.shortage, PLIM_SHORT_OF_NOTHING);
            plim_step_time_of(&k->spec, &b.options, &k->card, &t);
            assert_true(t.step_s == b.time.step_s);
            double usd = k->card.usd_per_h / 3600 * b.time.step_s / (double)k->base.seq_tokens * 1e6;
            assert_true(fabs(usd - b.usd_per_million_tokens) <= 1e-12 * usd);
            assert_false(k->spec.tied && b.options.embedding_on_host);
        } else {
            assert_int_not_equal(b.shortage, PLIM_SHORT_OF_NOTHING);
        }
        fits += b.verdict == PLIM_FITS, tight += b.verdict == PLIM_TIGHT, no += b.verdict == PLIM_NO;
        plim_planner_close(k->planner);
    }
    assert_true(fits > 100 && tight > 3 && no > 3); /* every verdict was looked at */
    test_ctx_close(c);
}

/* Against every placement, number of kept layers and kept output of a small model.  One per cent: kept layers
 * of a given placement are the most that fit, and for two placements of equal time the one with fewer copies
 * is taken, which can only lose where two step times differ by rounding.  The embedding is left where the
 * choice has it: it goes to the host only where nothing fits otherwise. */
TEST(nothing_in_a_full_grid_is_faster)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int64_t compared = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        search_case *k = open_case(c, seed);
        plim_choice b = choose(c, k);
        plim_limits limits = k->limits;
        plim_options base = k->base, best;
        double best_s;
        base.embedding_on_host = b.options.embedding_on_host;
        limits.pinned |= PLIM_PIN_EMBEDDING;
        bool found = search_brute(c, &k->spec, &k->card, &base, &limits, b.budget_bytes, b.host_budget_bytes,
                                  &best_s, &best);
        if (found && b.verdict != PLIM_FITS)
            fail_msg("seed %llu: %lld on the host with %lld kept fits, but the verdict is %s",
                     (unsigned long long)seed, (long long)best.host_checkpoints, (long long)best.kept_layers,
                     plim_verdict_name(b.verdict));
        if (found && b.time.step_s > 1.01 * best_s)
            fail_msg("seed %llu: %lld on the host with %lld kept takes %g s; %lld with %lld takes %g s",
                     (unsigned long long)seed, (long long)b.options.host_checkpoints,
                     (long long)b.options.kept_layers, b.time.step_s, (long long)best.host_checkpoints,
                     (long long)best.kept_layers, best_s);
        compared += found;
        plim_planner_close(k->planner);
    }
    assert_true(compared > 100);
    test_ctx_close(c);
}

TEST(pins_are_honoured)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        search_case *k = open_case(c, 5000 + seed);
        layout_random r = {seed};
        uint32_t pins = (uint32_t)layout_pick(&r, 0, (1 << PLIM_PIN_COUNT) - 1);
        k->limits.pinned = pins;
        k->base.host_checkpoints = layout_pick(&r, 0, k->spec.layers);
        k->base.kept_layers = layout_pick(&r, 0, k->spec.layers);
        k->base.keep_attention_output = layout_coin(&r);
        k->base.tile_tokens = layout_pick(&r, 1, 5000);
        k->base.loss_rows = layout_coin(&r) ? PLIM_FULL_LOGITS : layout_pick(&r, 1, 5000);
        k->base.embedding_on_host = !k->spec.tied && layout_coin(&r);
        k->base.attention = (plim_attention_kernel)layout_pick(&r, 1, 2);
        plim_options o = choose(c, k).options;
        if (pins & PLIM_PIN_CHECKPOINTS) assert_int_equal(o.host_checkpoints, k->base.host_checkpoints);
        if (pins & PLIM_PIN_KEPT_LAYERS) assert_int_equal(o.kept_layers, k->base.kept_layers);
        if (pins & PLIM_PIN_ATTENTION_OUTPUT)
            assert_int_equal(o.keep_attention_output, k->base.keep_attention_output);
        if (pins & PLIM_PIN_TILE) assert_int_equal(o.tile_tokens, k->base.tile_tokens);
        if (pins & PLIM_PIN_LOSS_ROWS) assert_int_equal(o.loss_rows, k->base.loss_rows);
        if (pins & PLIM_PIN_EMBEDDING) assert_int_equal(o.embedding_on_host, k->base.embedding_on_host);
        assert_int_equal(o.attention,
                         pins & PLIM_PIN_ATTENTION_KERNEL ? k->base.attention : k->card.attention);
        plim_planner_close(k->planner);
    }
    test_ctx_close(c);
}

/* A verdict of fixed options, at the very byte where it turns. */
TEST(verdicts_turn_at_their_byte)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < 50; seed++) {
        search_case *k = open_case(c, seed);
        plim_choice b;
        size_t peak = footprint(c, k, &k->base).device_peak.total_bytes;
        k->limits.host_bytes = 0;
        for (int more = -1; more <= 1; more++) {
            k->card.memory_bytes = (int64_t)peak + more;
            CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
            assert_int_equal(b.verdict, more < 0 ? PLIM_NO : PLIM_TIGHT);
            assert_int_equal(b.shortage, more < 0 ? PLIM_SHORT_OF_DEVICE : PLIM_SHORT_OF_NOTHING);
            k->card.memory_bytes += 1000;
            k->card.reserved_bytes = 1000; /* what the driver keeps is no memory of ours */
            CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
            assert_int_equal(b.verdict, more < 0 ? PLIM_NO : PLIM_TIGHT);
            /* A share of all of it does not give out the driver's part. */
            k->limits.usable_share = 1;
            CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
            assert_int_equal(b.verdict, more < 0 ? PLIM_NO : PLIM_FITS);
            k->limits.usable_share = 0.92;
            k->card.reserved_bytes = 0;
        }
        k->card.memory_bytes = (int64_t)ceil((double)peak / 0.92) + 1;
        CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
        assert_int_equal(b.verdict, PLIM_FITS);
        size_t host = b.footprint.host_peak.total_bytes;
        if (b.footprint.load_host_bytes > host) host = b.footprint.load_host_bytes;
        k->limits.host_bytes = (int64_t)ceil((double)host / 0.80) + 1;
        CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
        assert_int_equal(b.verdict, PLIM_FITS);
        k->limits.host_bytes = (int64_t)((double)host / 0.80) - 1;
        CHECK_OK(c, plim_judge(k->planner, &k->card, &k->base, &k->limits, &b));
        assert_int_equal(b.verdict, PLIM_NO);
        assert_int_equal(b.shortage, PLIM_SHORT_OF_HOST);
        plim_planner_close(k->planner);
    }
    test_ctx_close(c);
}

/* Smallest sizes are found where the usual ones do not fit, the head groups among them. */
TEST(smaller_sizes_where_nothing_fits_otherwise)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    search_case k = {.spec = {.layers = 4,
                              .hidden = 16,
                              .mlp = 64,
                              .vocab = 20000,
                              .heads = 8,
                              .kv_heads = 4,
                              .head_dim = 64,
                              .tied = true,
                              .rope = {.rotary_dim = 32}},
                     .base = plim_options_defaults(),
                     .limits = plim_limits_defaults(),
                     .card = search_card(1, 1000)};
    k.base.seq_tokens = 16384;
    k.base.gemm_workspace_bytes = k.base.staging_bytes = k.base.context_bytes = 0;
    plim_options least = k.base;
    least.tile_tokens = 512;
    least.loss_rows = 256;
    size_t all_heads = footprint(c, &k, &least).device_peak.total_bytes;
    least.kv_heads_per_call = 1;
    size_t one_head = footprint(c, &k, &least).device_peak.total_bytes;
    assert_true(one_head < all_heads);
    CHECK_OK(c, plim_planner_open(c, &k.spec, &k.planner));
    k.card.memory_bytes = (int64_t)((double)(one_head + (all_heads - one_head) / 2) / 0.92);
    plim_choice b = choose(c, &k);
    assert_int_equal(b.verdict, PLIM_FITS);
    assert_int_equal(b.options.kv_heads_per_call, 1);
    k.card.memory_bytes = (int64_t)((double)all_heads * 1.0001 / 0.92) + 2;
    b = choose(c, &k);
    assert_int_equal(b.verdict, PLIM_FITS);
    k.card.memory_bytes = INT64_C(1) << 36;
    b = choose(c, &k);
    assert_int_equal(b.options.kv_heads_per_call, 0); /* as given: nothing asked for less */
    assert_int_equal(b.options.tile_tokens, k.base.tile_tokens);
    assert_int_equal(b.options.loss_rows, k.base.loss_rows);
    plim_planner_close(k.planner);
    test_ctx_close(c);
}

/* ---- load line ---- */

/* Whether a search finds options that fit this length. */
static bool carries(plim_ctx *c, search_case *k, int64_t tokens, const plim_limits *limits)
{
    plim_choice b;
    plim_options o = k->base;
    o.seq_tokens = tokens;
    CHECK_OK(c, plim_choose(k->planner, &k->card, &o, limits, &b));
    return b.verdict == PLIM_FITS;
}

TEST(the_load_line_is_that_of_a_linear_scan)
{
    UNUSED_STATE;
    enum { STEP = 512, MOST = 40960 };
    plim_ctx *c = test_ctx_open();
    int64_t inside = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        search_case *k = open_case(c, 7000 + seed);
        plim_limits all = k->limits;
        all.pinned = (1u << PLIM_PIN_COUNT) - 1;
        k->base.attention = k->card.attention;
        for (int pinned = 0; pinned < 2; pinned++) {
            const plim_limits *limits = pinned ? &all : &k->limits;
            int64_t longest = 0, scanned = 0;
            CHECK_OK(c, plim_longest(k->planner, &k->card, &k->base, limits, STEP, MOST, &longest));
            for (int64_t t = STEP; t <= MOST; t += STEP)
                if (carries(c, k, t, limits)) scanned = t;
            if (longest != scanned)
                fail_msg("seed %llu, %s: the load line is %lld, a scan finds %lld", (unsigned long long)seed,
                         pinned ? "pinned" : "searched", (long long)longest, (long long)scanned);
            inside += longest > 0 && longest < MOST;
        }
        plim_planner_close(k->planner);
    }
    assert_true(inside > 30);
    test_ctx_close(c);
}

/* Just below and above the length where heads begin to run in groups and the peak drops. */
TEST(the_load_line_looks_past_the_drop_at_head_groups)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    search_case k = {.spec = {.layers = 4,
                              .hidden = 16,
                              .mlp = 64,
                              .vocab = 100,
                              .heads = 8,
                              .kv_heads = 4,
                              .head_dim = 64,
                              .tied = true,
                              .rope = {.rotary_dim = 32}},
                     .base = plim_options_defaults(),
                     .limits = plim_limits_defaults(),
                     .card = search_card(1, 1000)};
    k.base.gemm_workspace_bytes = k.base.staging_bytes = k.base.context_bytes = 0;
    k.limits.pinned = (1u << PLIM_PIN_COUNT) - 1;
    k.base.seq_tokens = 16896;
    size_t above = footprint(c, &k, &k.base).device_peak.total_bytes;
    k.base.seq_tokens = 16384;
    size_t at = footprint(c, &k, &k.base).device_peak.total_bytes;
    assert_true(above < at);
    k.card.memory_bytes = (int64_t)((double)(above + (at - above) / 2) / 0.92);
    CHECK_OK(c, plim_planner_open(c, &k.spec, &k.planner));
    int64_t longest = 0;
    CHECK_OK(c, plim_longest(k.planner, &k.card, &k.base, &k.limits, 512, 100000, &longest));
    assert_true(longest >= 16896);
    CHECK_FAILS(c, PLIM_E_RANGE, plim_longest(k.planner, &k.card, &k.base, &k.limits, 0, 1000, &longest),
                "step");
    plim_planner_close(k.planner);
    test_ctx_close(c);
}

/* More memory never carries less, nor more slowly. */
TEST(more_card_memory_never_hurts)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < 40; seed++) {
        search_case *k = open_case(c, 8000 + seed);
        double last_s = INFINITY;
        int64_t last_tokens = 0, bytes = k->card.memory_bytes;
        plim_verdict last = PLIM_NO;
        plim_options last_o = {0};
        for (int i = 0; i < 12; i++) {
            int64_t tokens;
            k->card.memory_bytes = bytes / 2 + bytes / 8 * i;
            plim_choice b = choose(c, k);
            CHECK_OK(c, plim_longest(k->planner, &k->card, &k->base, &k->limits, 256, 60000, &tokens));
            assert_true(b.verdict <= last);
            assert_true(tokens >= last_tokens);
            /* Smaller tiles come where nothing else fits; what they cost is not in the prediction. */
            bool alike = b.options.tile_tokens == last_o.tile_tokens &&
                         b.options.loss_rows == last_o.loss_rows &&
                         b.options.embedding_on_host == last_o.embedding_on_host &&
                         b.options.kv_heads_per_call == last_o.kv_heads_per_call;
            if (b.verdict == PLIM_FITS && last == PLIM_FITS && alike)
                assert_true(b.time.step_s <= last_s * 1.01);
            last_s = b.time.step_s;
            last_o = b.options;
            last_tokens = tokens;
            last = b.verdict;
        }
        plim_planner_close(k->planner);
    }
    test_ctx_close(c);
}

static plim_status open_planner(plim_ctx *c, void *user)
{
    plim_planner *p = NULL;
    plim_status st = plim_planner_open(c, user, &p);
    plim_planner_close(p);
    return st;
}

TEST(a_planner_survives_every_failed_allocation)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = {.layers = 2, .hidden = 8, .mlp = 8, .vocab = 8, .heads = 1, .kv_heads = 1, .head_dim = 8};
    assert_int_equal(test_every_allocation(c, open_planner, &s), 3);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(choices_fit_when_walked_again),
        cmocka_unit_test(nothing_in_a_full_grid_is_faster),
        cmocka_unit_test(pins_are_honoured),
        cmocka_unit_test(verdicts_turn_at_their_byte),
        cmocka_unit_test(smaller_sizes_where_nothing_fits_otherwise),
        cmocka_unit_test(the_load_line_is_that_of_a_linear_scan),
        cmocka_unit_test(the_load_line_looks_past_the_drop_at_head_groups),
        cmocka_unit_test(more_card_memory_never_hurts),
        cmocka_unit_test(a_planner_survives_every_failed_allocation),
    };
    return RUN_TESTS(table);
}
