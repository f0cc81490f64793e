/* The memory test: planned is measured, ascending until the budget, every failure unwound and in the file,
 * cures that cure, sequences that depend on nothing but the seed. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "train/memtest.h"

#define TINY PLIM_TEST_DATA "/models/qwen3_5-tiny/config.json"
#define MIB  ((int64_t)1 << 20)

static plim_spec spec;
static plim_card card;
static plim_memtest_result result, back;

/* A clock that goes on by a second a look. */
static double tick(void *user)
{
    double *now = user;
    return *now += 1;
}

static double now;

static const int64_t three[] = {32, 256, 320};

static plim_memtest_config config_of(const char *folder)
{
    plim_memtest_config g = {.model = TINY,
                             .spec = &spec,
                             .card = &card,
                             .shared_memory = true,
                             .limits = plim_limits_defaults(),
                             .options = plim_options_defaults(),
                             .seq_tokens = three,
                             .seq_count = 3,
                             .steps = 2,
                             .seed = 7,
                             .usd_per_h = PLIM_MEMTEST_UNKNOWN,
                             .max_usd = PLIM_MEMTEST_UNKNOWN,
                             .available_bytes = PLIM_MEMTEST_UNKNOWN,
                             .libraries = "none",
                             .path = folder ? test_path(folder, "result.json") : NULL,
                             .proc_root = "",
                             .clock = {tick, &now}};
    g.options.act = PLIM_F32;
    g.options.attention = PLIM_ATTENTION_CPU;
    g.options.host_checkpoints = 0;
    g.options.context_bytes = g.options.gemm_workspace_bytes = g.options.staging_bytes = 0;
    card = (plim_card){.id = "cpu",
                       .name = "a test machine",
                       .cards = 1,
                       .attention = PLIM_ATTENTION_CPU,
                       .memory_bytes = 256 * MIB,
                       .gemm_bf16_tflop_per_s = 0.01,
                       .attention_forward_tflop_per_s = 0.005,
                       .attention_backward_tflop_per_s = 0.005,
                       .memory_gb_per_s = 5,
                       .host_link_gb_per_s = 5,
                       .both_ways_gb_per_s = 5};
    return g;
}

typedef struct fixture {
    plim_ctx *c;
    plim_machine m;
    plim_memtest_config g;
    int64_t planned, live;
} fixture;

static fixture open_fixture(const char *folder)
{
    fixture x = {.live = test_live_allocations()};
    x.c = test_ctx_open();
    CHECK_OK(x.c, plim_spec_load(x.c, TINY, &spec));
    CHECK_OK(x.c, plim_machine_cpu(x.c, 1, &x.m));
    x.g = config_of(folder ? test_folder(folder) : NULL);
    x.g.libraries = x.m.libraries;
    return x;
}

static void close_fixture(fixture *x)
{
    plim_machine_close(&x->m);
    test_ctx_close(x->c);
    assert_int_equal(test_live_allocations(), x->live);
}

static plim_status plan_and_run(fixture *x)
{
    plim_status st = plim_memtest_plan(x->c, &x->g, &result, &x->planned);
    return st ? st : plim_memtest_run(x->c, &x->m, &x->g, &result, x->planned);
}

/* What a length takes at the options the search falls back to. */
static int64_t planned_at(fixture *x, int64_t i)
{
    CHECK_OK(x->c, plim_memtest_plan(x->c, &x->g, &result, &x->planned));
    assert_true(x->planned > i);
    return result.length[i].planned_peak_bytes + result.length[i].host_peak_bytes;
}

/* ---- a sweep ------------------------------------------------------------------------------------------- */

TEST(what_is_planned_is_measured)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-all");
    CHECK_OK(x.c, plan_and_run(&x));
    CHECK_OK(x.c, plim_memtest_result_read(x.c, x.g.path, &back));
    assert_int_equal(back.length_count, 3);
    assert_int_equal(back.limit_tokens, 320);
    assert_int_equal(back.first_failing_tokens, 0);
    assert_int_equal(back.running_tokens, 0);
    assert_false(back.failure.present);
    assert_int_equal(back.stopped, PLIM_MEMTEST_STOPPED_NOT);
    assert_int_equal(back.parameters, plim_spec_counts(&spec).parameters);
    for (int64_t i = 0; i < 3; i++) {
        const plim_memtest_length *l = &back.length[i];
        assert_int_equal(l->seq_tokens, three[i]);
        assert_int_equal(l->verdict, PLIM_FITS);
        assert_int_equal(l->measured_peak_bytes, l->planned_peak_bytes);
        assert_int_equal(l->steps, 2);
        /* random tokens: no better than a guess among all of them, nor much worse */
        if (!(fabs(l->loss - log((double)spec.vocab)) < 3)) fail_msg("a loss of %g", l->loss);
        assert_true(fabs(l->evaluation_loss - log((double)spec.vocab)) < 3);
        assert_true(l->step_s[0] == 1 && l->step_s[1] == 1); /* one look before, one after */
        assert_true(l->tokens_per_s == (double)three[i]);
        assert_true(l->process_before_bytes > 0 && l->process_peak_bytes >= l->process_before_bytes);
    }
    close_fixture(&x);
}

/* AddressSanitizer keeps what is freed and shadows what is not: its process says nothing about ours. */
#if defined(__SANITIZE_ADDRESS__)
#define OWN_MEMORY false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OWN_MEMORY false
#endif
#endif
#ifndef OWN_MEMORY
#define OWN_MEMORY true
#endif

/* What the process takes beyond what it held is what was planned, and a constant: the buffers that weights
 * are made in, and what OpenBLAS keeps for itself. */
TEST(the_process_takes_what_was_planned)
{
    UNUSED_STATE;
    static const int64_t lengths[] = {64, 2048};
    fixture x = open_fixture("memtest-process");
    card.memory_bytes = 1024 * MIB;
    x.g.seq_tokens = lengths;
    x.g.seq_count = 2;
    x.g.steps = 1;
    x.g.options.loss_rows = PLIM_FULL_LOGITS;
    x.g.limits.pinned |= PLIM_PIN_LOSS_ROWS;
    CHECK_OK(x.c, plan_and_run(&x));
    const plim_memtest_length *l = &result.length[1];
    int64_t planned = l->planned_peak_bytes + l->host_peak_bytes,
            taken = l->process_peak_bytes - l->process_before_bytes;
    if (OWN_MEMORY && l->process_peak_reset && taken > planned + 32 * MIB)
        fail_msg("planned %lld bytes, the process took %lld", (long long)planned, (long long)taken);
    assert_true(planned > 40 * MIB);
    close_fixture(&x);
}

TEST(the_sweep_stops_at_the_budget)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-budget");
    x.g.limits.pinned |=
        PLIM_PIN_KEPT_LAYERS | PLIM_PIN_ATTENTION_OUTPUT | PLIM_PIN_TILE | PLIM_PIN_LOSS_ROWS;
    int64_t small = planned_at(&x, 0), middle = planned_at(&x, 1);
    if (!((double)small < (double)middle * 0.9)) fail_msg("%lld, %lld", (long long)small, (long long)middle);
    card.memory_bytes = middle - 1;
    CHECK_OK(x.c, plan_and_run(&x));
    CHECK_OK(x.c, plim_memtest_result_read(x.c, x.g.path, &back));
    assert_int_equal(back.length_count, 2); /* the third is not even planned */
    assert_int_equal(back.limit_tokens, 32);
    assert_int_equal(back.first_failing_tokens, 256);
    assert_int_equal(back.stopped, PLIM_MEMTEST_STOPPED_MEMORY);
    assert_int_equal(back.length[1].steps, 0);
    assert_int_equal(back.length[1].measured_peak_bytes, PLIM_MEMTEST_UNKNOWN);
    assert_true(back.failure.present && back.failure.cure[0] && back.failure.bytes > 0);
    assert_int_equal(back.failure.status, PLIM_E_NOFIT);
    card.memory_bytes = small - 1;
    CHECK_FAILS(x.c, PLIM_E_NOFIT, plan_and_run(&x), "32 tokens", "MiB", "would help");
    CHECK_OK(x.c, plim_memtest_result_read(x.c, x.g.path, &back));
    assert_int_equal(back.length_count, 1);
    assert_int_equal(back.limit_tokens, 0);
    close_fixture(&x);
}

TEST(tight_is_no_limit)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-tight");
    x.g.limits.pinned |=
        PLIM_PIN_KEPT_LAYERS | PLIM_PIN_ATTENTION_OUTPUT | PLIM_PIN_TILE | PLIM_PIN_LOSS_ROWS;
    int64_t large = planned_at(&x, 2);
    static const struct {
        double budget; /* in what the length takes */
        plim_verdict verdict;
    } cases[] = {
        {1 / 0.92 + 0.001, PLIM_FITS}, {1 / 0.92 - 0.001, PLIM_TIGHT}, {1, PLIM_TIGHT}, {0.999, PLIM_NO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        card.memory_bytes = (int64_t)((double)large * cases[i].budget);
        CHECK_OK(x.c, plim_memtest_plan(x.c, &x.g, &result, &x.planned));
        assert_int_equal(x.planned, 3);
        if (result.length[2].verdict != cases[i].verdict)
            fail_msg("case %zu: %d", i, result.length[2].verdict);
    }
    card.memory_bytes = large;
    CHECK_OK(x.c, plan_and_run(&x));
    assert_int_equal(result.length[2].verdict, PLIM_TIGHT);
    assert_int_equal(result.length[2].steps, 2); /* run all the same */
    assert_int_equal(result.limit_tokens, 256);
    close_fixture(&x);
}

/* What is not pinned is chosen for the budget: less memory, fewer kept layers, never an overdraft. */
TEST(options_are_chosen_for_the_budget)
{
    UNUSED_STATE;
    fixture x = open_fixture(NULL);
    int64_t ample = planned_at(&x, 2), tried = 0, fewest = spec.layers;
    assert_int_equal(result.length[2].options.kept_layers, spec.layers);
    for (int64_t budget = ample; budget > ample / 4; budget -= ample / 16, tried++) {
        card.memory_bytes = budget;
        CHECK_OK(x.c, plim_memtest_plan(x.c, &x.g, &result, &x.planned));
        if (x.planned < 3 || result.length[2].verdict == PLIM_NO) break;
        const plim_memtest_length *l = &result.length[2];
        assert_int_equal(l->options.host_checkpoints, 0);
        assert_true(l->planned_peak_bytes + l->host_peak_bytes <= budget);
        if (l->options.kept_layers < fewest) fewest = l->options.kept_layers;
    }
    assert_true(tried > 2 && fewest < spec.layers);
    close_fixture(&x);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

/* Each allocation of the whole test fails once: then either it went on without, or the file says what failed,
 * with everything measured before, and nothing is left behind. */
TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    static const int64_t lengths[] = {8, 16};
    fixture x = open_fixture("memtest-alloc");
    plim_card measured;
    x.g.seq_tokens = lengths;
    x.g.seq_count = 2;
    x.g.steps = 1;
    x.g.options.lora_rank = 2;
    int64_t before = test_live_allocations(), half = 0, nth = 0;
    bool prepared = false; /* every allocation of that has failed; the rates need no more measuring */
    for (plim_status st = PLIM_E_OOM_HOST; st; nth++) {
        remove(x.g.path);
        x.g.card = &card;
        test_fail_allocation(nth);
        st = plim_memtest_prepare(x.c, prepared ? NULL : &x.m, &x.g, &measured, &result, &x.planned);
        if (!st && !prepared) {
            prepared = true;
            nth = -1;
            test_fail_allocation(-1);
            st = PLIM_E_OOM_HOST;
            continue;
        }
        if (!st) st = plim_memtest_run(x.c, &x.m, &x.g, &result, x.planned);
        test_fail_allocation(-1);
        assert_int_equal(test_live_allocations(), before);
        if (st && st != PLIM_E_OOM_HOST) fail_msg("%lld: %s", (long long)nth, plim_ctx_message(x.c));
        plim_ctx_clear(x.c);
        CHECK_OK(x.c, plim_memtest_result_read(x.c, x.g.path, &back));
        assert_int_equal(back.failure.present, st != PLIM_OK);
        assert_int_equal(back.running_tokens, 0);
        if (!st) break;
        assert_int_equal(back.failure.status, PLIM_E_OOM_HOST);
        assert_true(back.failure.error[0] && back.failure.cure[0]);
        assert_int_equal(back.stopped, PLIM_MEMTEST_STOPPED_FAILURE);
        if (back.limit_tokens == 8) half++;
    }
    assert_int_equal(back.length_count, 2);
    assert_true(nth > 50 && half > 20);
    close_fixture(&x);
}

/* The file is whole before, between and after the lengths, as a crash at any moment would leave it. */
typedef struct watcher {
    plim_ctx *c;
    const char *path;
    int64_t steps, lengths, wrong;
} watcher;

static void see_step(void *user, const plim_memtest_length *l)
{
    watcher *w = user;
    static plim_memtest_result seen;
    CHECK_OK(w->c, plim_memtest_result_read(w->c, w->path, &seen));
    w->steps++;
    w->wrong += seen.running_tokens != l->seq_tokens || seen.length_count != w->lengths;
}

static void see_length(void *user, const plim_memtest_length *l, double left_s)
{
    watcher *w = user;
    static plim_memtest_result seen;
    CHECK_OK(w->c, plim_memtest_result_read(w->c, w->path, &seen));
    w->lengths++;
    w->wrong += seen.running_tokens != 0 || seen.length_count != w->lengths || !(left_s >= 0);
    w->wrong += seen.length[w->lengths - 1].seq_tokens != l->seq_tokens;
}

TEST(a_crash_keeps_what_was_measured)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-crash");
    watcher w = {x.c, x.g.path, 0, 0, 0};
    x.g.see_step = see_step;
    x.g.see_length = see_length;
    x.g.user = &w;
    CHECK_OK(x.c, plan_and_run(&x));
    assert_true(w.steps == 6 && w.lengths == 3 && w.wrong == 0);
    close_fixture(&x);
}

TEST(a_file_that_cannot_be_written)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-nowhere");
    x.g.path = "test-tmp/memtest-nowhere/no-such-folder/result.json";
    CHECK_FAILS(x.c, PLIM_E_IO, plan_and_run(&x), "no-such-folder");
    assert_int_equal(result.length_count, 0); /* refused before the first length, not after hours */
    close_fixture(&x);
}

TEST(money_runs_out_between_lengths)
{
    UNUSED_STATE;
    fixture x = open_fixture("memtest-usd");
    x.g.usd_per_h = 3600; /* a dollar a tick */
    x.g.max_usd = 1e9;
    CHECK_OK(x.c, plan_and_run(&x));
    double all = result.usd;
    assert_true(all > 10 && all == result.seconds);
    x.g.max_usd = all / 2;
    CHECK_FAILS(x.c, PLIM_E_NOFIT, plan_and_run(&x), "--max-usd", "USD are spent");
    CHECK_OK(x.c, plim_memtest_result_read(x.c, x.g.path, &back));
    assert_int_equal(back.stopped, PLIM_MEMTEST_STOPPED_USD);
    assert_true(back.length_count > 0 && back.length_count < 3 && back.usd <= all / 2);
    assert_false(back.failure.present);
    close_fixture(&x);
}

TEST(what_makes_no_sense_is_refused)
{
    UNUSED_STATE;
    static const int64_t short_one[] = {1, 64}, twice[] = {64, 64};
    fixture x = open_fixture("memtest-usage");
    const plim_memtest_config good = x.g;
    x.g.seq_tokens = short_one;
    x.g.seq_count = 2;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "two tokens");
    x.g.seq_tokens = twice;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "ascend");
    x.g = good;
    x.g.options.documents = 17;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "17 documents");
    x.g = good;
    x.g.options.labelled_share = 0;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "nothing to train on");
    x.g = good;
    x.g.steps = 65;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "65 steps");
    x.g = good;
    x.g.seq_count = 0;
    CHECK_FAILS(x.c, PLIM_E_USAGE, plan_and_run(&x), "1 to 64");
    assert_false(plim_path_is_file(x.g.path));
    close_fixture(&x);
}

/* ---- cures --------------------------------------------------------------------------------------------- */

/* With a budget that the named option alone just meets, it is found. */
TEST(a_cure_cures)
{
    UNUSED_STATE;
    static const struct {
        bool shared;
        int64_t vocab;
        plim_options before, after; /* what differs of them */
        plim_component component;
        const char *text;
    } cases[] = {
        {false, 50000, {.loss_rows = PLIM_FULL_LOGITS}, {.loss_rows = 2048}, PLIM_MEM_LOSS, "--loss chunked"},
        {true,
         512,
         {.loss_rows = 256, .kept_layers = 4},
         {.loss_rows = 256},
         PLIM_MEM_KEPT,
         "--keep-layers 0"},
        {false,
         512,
         {.loss_rows = 256},
         {.loss_rows = 256, .host_checkpoints = 4},
         PLIM_MEM_CHECKPOINTS,
         "--checkpoints host"},
    };
    fixture x = open_fixture(NULL);
    static plim_spec wide;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_options o = x.g.options, cured;
        plim_footprint f, then;
        plim_memtest_cure cure;
        wide = spec;
        wide.vocab = cases[i].vocab;
        x.g.spec = &wide;
        o.seq_tokens = 8192;
        o.tile_tokens = 512;
        o.act = PLIM_BF16;
        cured = o;
        o.loss_rows = cases[i].before.loss_rows;
        o.kept_layers = cases[i].before.kept_layers ? spec.layers : 0;
        cured.loss_rows = cases[i].after.loss_rows;
        cured.host_checkpoints = cases[i].after.host_checkpoints ? spec.layers : 0;
        x.g.shared_memory = cases[i].shared;
        CHECK_OK(x.c, plim_footprint_of(x.c, &wide, &o, 1, &f, NULL, NULL));
        CHECK_OK(x.c, plim_footprint_of(x.c, &wide, &cured, 1, &then, NULL, NULL));
        size_t need = then.device_peak.total_bytes + (cases[i].shared ? then.host_peak.total_bytes : 0);
        card.memory_bytes = (int64_t)((double)need / 0.92) + 2;
        CHECK_OK(x.c, plim_memtest_find_cure(x.c, &x.g, &o, &cure));
        if (cure.component != (int)cases[i].component || strcmp(cure.text, cases[i].text) != 0)
            fail_msg("case %zu: %s, %s", i, plim_component_key((plim_component)cure.component), cure.text);
        assert_true(cure.bytes >= (int64_t)f.device_peak.component_bytes[cure.component]);
    }
    x.g.spec = &spec;
    /* On a machine with one memory nothing is won by moving layer inputs about in it. */
    plim_options o = x.g.options;
    plim_memtest_cure cure;
    o.seq_tokens = 4096;
    o.loss_rows = 256;
    o.tile_tokens = 512;
    x.g.shared_memory = true;
    card.memory_bytes = 1 * MIB;
    CHECK_OK(x.c, plim_memtest_find_cure(x.c, &x.g, &o, &cure));
    assert_non_null(strstr(cure.text, "larger machine"));
    x.g.shared_memory = false;
    CHECK_OK(x.c, plim_memtest_find_cure(x.c, &x.g, &o, &cure));
    assert_non_null(strstr(cure.text, "larger card"));
    close_fixture(&x);
}

/* ---- sequences, names, rates --------------------------------------------------------------------------- */

TEST(sequences_come_from_the_seed_alone)
{
    UNUSED_STATE;
    enum { T = 5000, DOCUMENTS = 3 };
    static int32_t ids[T], again[T], other[T];
    static float weights[T], more[T];
    int64_t start[DOCUMENTS + 1];
    fixture x = open_fixture(NULL);
    plim_options o = x.g.options;
    o.seq_tokens = T;
    o.documents = DOCUMENTS;
    plim_memtest_sequence(&spec, &o, 1, 0, ids, weights, start);
    plim_memtest_sequence(&spec, &o, 1, 0, again, more, start);
    assert_memory_equal(ids, again, sizeof ids);
    assert_memory_equal(weights, more, sizeof weights);
    plim_memtest_sequence(&spec, &o, 1, 1, other, more, start);
    assert_true(memcmp(ids, other, sizeof ids) != 0);
    plim_memtest_sequence(&spec, &o, 2, 0, other, more, start);
    assert_true(memcmp(ids, other, sizeof ids) != 0);
    assert_true(start[0] == 0 && start[1] == 1667 && start[2] == 3334 && start[3] == T);
    int64_t labelled = 0, low = spec.vocab, high = 0;
    for (int i = 0; i < T; i++) {
        labelled += weights[i] > 0;
        if (ids[i] < low) low = ids[i];
        if (ids[i] > high) high = ids[i];
    }
    assert_true(low >= 0 && high < spec.vocab && high - low > spec.vocab / 2);
    assert_true(fabs((double)labelled / T - 0.32) < 0.04); /* six deviations of 0.0066 */
    o.seq_tokens = 2;
    o.documents = 1;
    o.labelled_share = 1e-12;
    plim_memtest_sequence(&spec, &o, 1, 0, ids, weights, start);
    assert_true(weights[1] == 1); /* something to train on, always */
    close_fixture(&x);
}

TEST(file_names)
{
    UNUSED_STATE;
    static const struct {
        const char *model, *name;
    } cases[] = {
        {"share/models/hybrid-8m/config.json", "hybrid-8m"},
        {"/models/My Model (27B)/", "My-Model--27B-"},
        {"config.json", "model"},
        {"./config.json", "model"},
        {"..", "model"},
        {"tiny.json", "tiny"},
        {"a/.hidden", "-hidden"},
        {"a/\xc3\xa9t\xc3\xa9", "--t--"},
        {"Qwen3.5-27B", "Qwen3.5-27B"},
    };
    plim_ctx *c = test_ctx_open();
    char buf[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_memtest_model_name(cases[i].model, buf, sizeof buf);
        if (strcmp(buf, cases[i].name) != 0) fail_msg("%s: %s", cases[i].model, buf);
    }
    CHECK_OK(c, plim_memtest_file_name(c, "x/hybrid-8m", "cpu", "2026-12-01T18:00:05Z", buf, sizeof buf));
    assert_string_equal(buf, "memtest_hybrid-8m_cpu_20261201T180005Z.json");
    CHECK_FAILS(c, PLIM_E_RANGE, plim_memtest_file_name(c, "x", "cpu", "2026-12-01T18:00:05Z", buf, 20),
                "20 bytes");
    test_ctx_close(c);
}

/* Rates are work over time: with a clock of a second a round they are known exactly. */
TEST(rates_of_a_machine)
{
    UNUSED_STATE;
    fixture x = open_fixture(NULL);
    double normals;
    CHECK_OK(x.c, plim_memtest_rates(x.c, &x.m, PLIM_F32, x.g.clock, &card, &normals));
    assert_true(fabs(card.gemm_bf16_tflop_per_s * 1e12 - 2.0 * 512 * 512 * 512) < 1);
    assert_true(fabs(card.memory_gb_per_s * 1e9 - 2.0 * 4096 * 1024 * 4) < 1);
    assert_true(normals == 1 << 18);
    CHECK_OK(x.c, plim_memtest_rates(x.c, &x.m, PLIM_BF16, plim_clock_monotonic(), &card, &normals));
    assert_true(card.gemm_bf16_tflop_per_s > 0 && card.memory_gb_per_s > 0 && normals > 0);
    close_fixture(&x);
}

/* expected = parameters / normals + steps and a third of one, summed over the lengths. */
TEST(the_forecast_is_stated_arithmetic)
{
    UNUSED_STATE;
    fixture x = open_fixture(NULL);
    x.g.normals_per_s = 1e6;
    CHECK_OK(x.c, plim_memtest_plan(x.c, &x.g, &result, &x.planned));
    double sum = 0;
    for (int64_t i = 0; i < 3; i++) {
        plim_step_time t;
        plim_step_time_of(&spec, &result.length[i].options, &card, &t);
        assert_true(result.length[i].expected_step_s == t.step_s);
        sum += (double)plim_spec_counts(&spec).parameters / 1e6 + t.step_s * (2 + 1.0 / 3);
    }
    assert_true(fabs(result.expected_s - sum) <= 1e-12 * sum);
    close_fixture(&x);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(what_is_planned_is_measured),
        cmocka_unit_test(the_process_takes_what_was_planned),
        cmocka_unit_test(the_sweep_stops_at_the_budget),
        cmocka_unit_test(tight_is_no_limit),
        cmocka_unit_test(options_are_chosen_for_the_budget),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_crash_keeps_what_was_measured),
        cmocka_unit_test(a_file_that_cannot_be_written),
        cmocka_unit_test(money_runs_out_between_lengths),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_cure_cures),
        cmocka_unit_test(sequences_come_from_the_seed_alone),
        cmocka_unit_test(file_names),
        cmocka_unit_test(rates_of_a_machine),
        cmocka_unit_test(the_forecast_is_stated_arithmetic),
    };
    return RUN_TESTS(table);
}
