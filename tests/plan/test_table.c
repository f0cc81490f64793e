/* The table: its rows and verdicts against single judgements, runs against the speed model, the next step for
 * each kind of answer, and every allocation failing in turn. */
#include "plan/search_support.h"

#include <math.h>

#include "plan/table.h"

#define GIB 1073741824.0

/* A small hybrid and cards between too small and roomy; two of them several cards. */
typedef struct fixture {
    plim_ctx *c;
    plim_spec spec;
    plim_card card[4];
    const plim_card *cards[4];
    plim_cards fallback;
    int64_t lengths[3];
    plim_table_request request;
} fixture;

enum { SMALL, MIDDLE, LARGE, PAIR };

static const plim_spec small_spec = {
    .layers = 4,
    .hidden = 64,
    .mlp = 192,
    .vocab = 1000,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 32,
    .key_heads = 2,
    .value_heads = 4,
    .key_dim = 16,
    .value_dim = 16,
    .conv_taps = 4,
    .rope = {.rotary_dim = 16},
    .layer_type = {PLIM_LAYER_DELTA, PLIM_LAYER_DELTA, PLIM_LAYER_DELTA, PLIM_LAYER_ATTENTION}};

static int64_t least_bytes(plim_ctx *c, const plim_spec *s, const plim_options *base, int64_t tokens)
{
    plim_footprint f;
    plim_options o = *base;
    o.seq_tokens = tokens;
    o.tile_tokens = 512;
    o.loss_rows = 256;
    o.kv_heads_per_call = 1;
    o.embedding_on_host = true;
    CHECK_OK(c, plim_footprint_of(c, s, &o, 1, &f, NULL, NULL));
    return (int64_t)f.device_peak.total_bytes;
}

static fixture *open_fixture(void)
{
    static fixture f;
    static const char *const ids[] = {"small-1", "middle-1", "large-1", "large-1-x2"};
    f = (fixture){.c = test_ctx_open(), .spec = small_spec, .lengths = {1000, 4000, 16000}};
    plim_options base = plim_options_defaults();
    base.gemm_workspace_bytes = base.staging_bytes = 0;
    plim_options bare = base;
    bare.context_bytes = 0;
    /* small carries 1,000 tokens, middle 4,000, large all of them */
    const int64_t tokens[] = {1000, 4000, 16000, 16000};
    for (int i = 0; i < 4; i++) {
        f.card[i] = search_card(0, 1000);
        snprintf(f.card[i].id, sizeof f.card[i].id, "%s", ids[i]);
        f.card[i].memory_bytes = (int64_t)((double)least_bytes(f.c, &f.spec, &bare, tokens[i]) * 1.05 / 0.92);
        f.card[i].usd_per_h = 1 + i;
        f.cards[i] = &f.card[i];
    }
    f.card[PAIR].cards = 2;
    f.fallback = (plim_cards){f.card, 4};
    f.request = (plim_table_request){.model = "model/config.json",
                                     .spec = &f.spec,
                                     .cards = f.cards,
                                     .card_count = 3,
                                     .seq_tokens = f.lengths,
                                     .seq_count = 3,
                                     .base = base,
                                     .limits = plim_limits_defaults(),
                                     .load_line = true};
    return &f;
}

static plim_table make(fixture *f)
{
    plim_table t;
    CHECK_OK(f->c, plim_table_make(f->c, &f->request, &f->fallback, &t));
    return t;
}

static void close_fixture(fixture *f, plim_table *t)
{
    plim_table_free(f->c, t);
    assert_null(t->rows);
    test_ctx_close(f->c);
}

TEST(rows_are_single_judgements)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    f->request.base.kept_layers = 2; /* what a row leaves out */
    f->request.base.keep_attention_output = true;
    plim_table t = make(f);
    plim_planner *p;
    int verdicts[3] = {0};
    CHECK_OK(f->c, plim_planner_open(f->c, &f->spec, &p));
    for (int64_t s = 0; s < 3; s++)
        for (int kind = 0; kind < PLIM_ROWS_A_LENGTH; kind++) {
            const plim_table_row *row = &t.rows[s * PLIM_ROWS_A_LENGTH + kind];
            double highest = 0, parts = 0;
            assert_int_equal(row->seq_tokens, f->lengths[s]);
            assert_int_equal(row->host_checkpoints, !strcmp(plim_row_checkpoints(kind), "host"));
            assert_int_equal(row->full_logits, !strcmp(plim_row_loss(kind), "full"));
            for (int64_t k = 0; k < 3; k++) {
                plim_options o = f->request.base;
                plim_choice c;
                o.seq_tokens = f->lengths[s];
                o.kept_layers = 0;
                o.keep_attention_output = false;
                o.host_checkpoints = kind < 2 ? PLIM_ALL_LAYERS : 0;
                o.loss_rows = kind % 2 ? PLIM_FULL_LOGITS : 2048;
                CHECK_OK(f->c, plim_judge(p, f->cards[k], &o, &f->request.limits, &c));
                int64_t at = (s * PLIM_ROWS_A_LENGTH + kind) * 3 + k;
                double gib = (double)c.footprint.device_peak.total_bytes / GIB;
                assert_int_equal(t.verdicts[at], c.verdict);
                assert_true(t.peaks_gib[at] == gib);
                if (gib > highest) highest = gib;
                verdicts[c.verdict]++;
            }
            assert_true(row->peak_gib == highest);
            for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) parts += row->component_gib[m];
            assert_true(fabs(parts - row->peak_gib) < 1e-12);
        }
    assert_true(verdicts[PLIM_FITS] > 0 && verdicts[PLIM_NO] > 0);
    assert_int_equal(t.lora_parameters, plim_lora_parameters(&f->spec, 16, PLIM_TARGETS_DEFAULT));
    plim_planner_close(p);
    close_fixture(f, &t);
}

TEST(best_options_and_load_lines_are_the_searchs)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    plim_table t = make(f);
    plim_planner *p;
    CHECK_OK(f->c, plim_planner_open(f->c, &f->spec, &p));
    for (int64_t k = 0; k < 3; k++) {
        int64_t longest;
        for (int64_t s = 0; s < 3; s++) {
            plim_options o = f->request.base;
            plim_choice c;
            o.seq_tokens = f->lengths[s];
            CHECK_OK(f->c, plim_choose(p, f->cards[k], &o, &f->request.limits, &c));
            const plim_choice *b = &t.best[s * 3 + k];
            assert_int_equal(b->verdict, c.verdict);
            assert_true(b->time.step_s == c.time.step_s);
            assert_ptr_equal(b->card, f->cards[k]);
        }
        CHECK_OK(f->c,
                 plim_longest(p, f->cards[k], &f->request.base, &f->request.limits, 1000, 1048000, &longest));
        assert_int_equal(t.lines[k].best_tokens, longest);
        assert_true(longest >= f->lengths[k]);
        /* A fixed row never carries more than the best options do. */
        for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++) assert_true(t.lines[k].row_tokens[row] <= longest);
    }
    assert_true(t.all_carried); /* the large card carries 16,000 */
    plim_planner_close(p);
    close_fixture(f, &t);
}

/* ---- runs ---- */

TEST(runs_of_a_number_of_tokens)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    f->request.workload = (plim_workload){.tokens = 3.3e6, .labelled_share = -1};
    plim_table t = make(f);
    int64_t n = 0;
    for (int64_t s = 0; s < 3; s++)
        for (int64_t k = 0; k < 3; k++) {
            const plim_choice *b = &t.best[s * 3 + k];
            if (b->verdict == PLIM_NO) continue; /* no run on a card that cannot */
            const plim_run *run = &t.runs[n++];
            double hours = 3.3e6 / b->time.tokens_per_s / 3600;
            assert_ptr_equal(run->card, b->card);
            assert_int_equal(run->seq_tokens, f->lengths[s]);
            assert_true(fabs(run->hours - hours) < 1e-12 * hours);
            assert_true(fabs(run->hours_slow - hours / 0.75) < 1e-12 * hours);
            assert_true(fabs(run->usd - hours * b->card->usd_per_h) < 1e-12 * run->usd);
            assert_true(fabs(run->usd_slow - run->usd / 0.75) < 1e-12 * run->usd);
        }
    assert_int_equal(t.run_count, n);
    assert_true(n >= 5 && n < 9);
    close_fixture(f, &t);
}

TEST(runs_of_a_data_set_go_bucket_by_bucket)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    f->request.workload = (plim_workload){.tokens = 340000,
                                          .labelled_share = 0.4,
                                          .longest_tokens = 3600,
                                          .lengths = 3,
                                          .bucket_tokens = {400, 3600, 9000},
                                          .bucket_rows = {400, 50, 0}};
    plim_table t = make(f);
    /* The shortest asked length that holds the longest sample is 4,000: the middle card and the large one. */
    assert_int_equal(t.run_count, 2);
    for (int64_t i = 0; i < 2; i++) {
        const plim_choice *b = &t.best[1 * 3 + 1 + i];
        double seconds = 0;
        const double lengths[][2] = {{400, 400}, {3600, 50}};
        for (int j = 0; j < 2; j++) {
            plim_step_time time;
            plim_options o = b->options;
            o.seq_tokens = (int64_t)lengths[j][0];
            plim_step_time_of(&f->spec, &o, b->card, &time);
            seconds += lengths[j][1] * time.step_s;
        }
        assert_ptr_equal(t.runs[i].card, b->card);
        assert_int_equal(t.runs[i].seq_tokens, 0);
        assert_true(fabs(t.runs[i].hours * 3600 - seconds) < 1e-12 * seconds);
    }
    plim_table_free(f->c, &t);
    f->request.workload.longest_tokens = 16001;
    CHECK_FAILS(f->c, PLIM_E_RANGE, plim_table_make(f->c, &f->request, &f->fallback, &t), "16001", "16000",
                "--seq");
    close_fixture(f, &t);
}

/* ---- the next step ---- */

static void check_words(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(text, *words)) fail_msg("no '%s' in: %s", *words, text);
}

#define CHECK_WORDS(text, ...) check_words((text), (const char *const[]){__VA_ARGS__, NULL})

TEST(next_is_a_memory_test_on_the_cheapest_card_that_carries_it)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    plim_table t = make(f);
    assert_int_equal(t.next.kind, PLIM_NEXT_MEMTEST);
    assert_ptr_equal(t.next.choice->card, &f->card[LARGE]); /* alone carries the longest */
    assert_int_equal(t.next.choice->options.seq_tokens, 16000);
    CHECK_WORDS(t.next.text, "large-1", "16k");
    assert_string_equal(t.next.command,
                        "plimsoll memtest model/config.json --card large-1 --sweep 1k,4k,16k");
    assert_int_equal(t.timeline_count, 2 * 4 + 5);
    size_t highest = 0;
    for (size_t i = 0; i < t.timeline_count; i++)
        if (t.timeline[i].device.total_bytes > highest) highest = t.timeline[i].device.total_bytes;
    assert_int_equal(highest, t.focus.footprint.device_peak.total_bytes);
    plim_table_free(f->c, &t);

    /* At 1,000 tokens every card carries it: the one with the lowest price a token. */
    f->request.seq_count = 1;
    f->request.model = "my model's/config.json";
    t = make(f);
    for (int64_t k = 0; k < 3; k++)
        assert_true(t.next.choice->usd_per_million_tokens <= t.best[k].usd_per_million_tokens);
    CHECK_WORDS(t.next.command, "memtest 'my model'\\''s/config.json' --card", "--sweep 1k");
    close_fixture(f, &t);
}

TEST(next_is_one_card_before_several)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    const plim_card *only[] = {&f->card[PAIR]};
    /* What the pair carries and one of its cards does not. */
    plim_planner *p;
    int64_t one, two;
    CHECK_OK(f->c, plim_planner_open(f->c, &f->spec, &p));
    CHECK_OK(f->c,
             plim_longest(p, &f->card[LARGE], &f->request.base, &f->request.limits, 1000, 1048000, &one));
    CHECK_OK(f->c,
             plim_longest(p, &f->card[PAIR], &f->request.base, &f->request.limits, 1000, 1048000, &two));
    plim_planner_close(p);
    assert_true(two > one);
    f->request.cards = only;
    f->request.card_count = 1;
    f->request.seq_tokens = &two;
    f->request.seq_count = 1;
    plim_table t = make(f);
    char sweep[64];
    assert_int_equal(t.next.kind, PLIM_NEXT_ONE_CARD);
    assert_ptr_equal(t.next.choice->card, &f->card[PAIR]);
    CHECK_WORDS(t.next.text, "Only large-1-x2 carries", "not runnable yet", "Test one card first: large-1");
    snprintf(sweep, sizeof sweep, "--card large-1 --sweep %lldk", (long long)one / 1000);
    CHECK_WORDS(t.next.command, sweep);
    close_fixture(f, &t);
}

TEST(next_is_the_nearest_change)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    int64_t tokens = 16000, far = 4000000;
    /* Another card, and what this one carries. */
    f->request.card_count = 1;
    f->request.seq_tokens = &tokens;
    f->request.seq_count = 1;
    plim_table t = make(f);
    assert_false(t.all_carried);
    assert_int_equal(t.next.kind, PLIM_NEXT_CHANGE);
    CHECK_WORDS(t.next.text, "No card asked for carries 16k", "Another card does: large-1",
                "The longest that fits is", "on small-1");
    CHECK_WORDS(t.next.command, "--card large-1", "--sweep 16k");
    plim_table_free(f->c, &t);

    /* A pin in the way: full logits of 16,000 rows. */
    f->request.card_count = 3;
    f->request.base.loss_rows = PLIM_FULL_LOGITS;
    f->request.limits.pinned = PLIM_PIN_LOSS_ROWS;
    t = make(f);
    assert_int_equal(t.next.kind, PLIM_NEXT_CHANGE);
    CHECK_WORDS(t.next.text, "large-1 carries it with the loss in chunks (--loss chunked)");
    CHECK_WORDS(t.next.command, "--card large-1");
    assert_null(strstr(t.next.command, "--loss full"));
    plim_table_free(f->c, &t);

    /* Nothing anywhere: a shorter length; more documents than it has tokens are no obstacle. */
    f->request.base.loss_rows = 2048;
    f->request.limits.pinned = 0;
    f->request.seq_tokens = &far;
    t = make(f);
    assert_int_equal(t.next.kind, PLIM_NEXT_CHANGE);
    CHECK_WORDS(t.next.text, "No card asked for carries 4M", "The longest that fits is");
    assert_null(strstr(t.next.text, "Another card"));
    plim_table_free(f->c, &t);
    for (int i = 0; i < 4; i++) f->card[i].memory_bytes = 1 << 20;
    f->request.base.documents = 5000000;
    t = make(f);
    CHECK_WORDS(t.next.text, "No length of this model fits");
    assert_string_equal(t.next.command, "");
    close_fixture(f, &t);
}

TEST(formulas_have_rows_and_a_next_step)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    for (int trainer = PLIM_TRAINER_NOTE; trainer <= PLIM_TRAINER_HF; trainer++) {
        f->request.trainer = (plim_trainer)trainer;
        for (int i = 0; i < 4; i++) {
            f->card[i].memory_bytes = INT64_C(80) << 30;
            f->card[i].nominal_gb = 80;
        }
        plim_table t = make(f);
        assert_null(t.best);
        assert_null(t.timeline);
        for (int64_t i = 0; i < 3 * PLIM_ROWS_A_LENGTH; i++) {
            plim_formula_row row;
            (trainer == PLIM_TRAINER_NOTE ? plim_note_row : plim_hf_row)(
                &f->spec, 16, t.rows[i].seq_tokens, t.rows[i].host_checkpoints, t.rows[i].full_logits, &row);
            assert_true(t.rows[i].peak_gib == row.peak_gib);
            for (int64_t k = 0; k < 3; k++)
                assert_int_equal(
                    t.verdicts[i * 3 + k],
                    (trainer == PLIM_TRAINER_NOTE ? plim_note_verdict : plim_hf_verdict)(&row, f->cards[k]));
        }
        assert_int_equal(t.next.kind, PLIM_NEXT_MEMTEST);
        CHECK_WORDS(t.next.text, "By this formula small-1 is the cheapest card", "--trainer plimsoll");
        assert_true(t.all_carried);
        plim_table_free(f->c, &t);
        for (int i = 0; i < 4; i++) {
            f->card[i].memory_bytes = 1 << 20;
            f->card[i].nominal_gb = 0.001;
        }
        t = make(f);
        assert_int_equal(t.next.kind, PLIM_NEXT_CHANGE);
        assert_false(t.all_carried);
        plim_table_free(f->c, &t);
    }
    test_ctx_close(f->c);
}

static plim_status make_and_free(plim_ctx *c, void *user)
{
    fixture *f = user;
    plim_table t = {0};
    plim_status st = plim_table_make(c, &f->request, &f->fallback, &t);
    if (!st) plim_table_free(c, &t);
    return st;
}

TEST(every_failed_allocation_is_reported)
{
    UNUSED_STATE;
    fixture *f = open_fixture();
    f->request.workload = (plim_workload){.tokens = 1e6, .labelled_share = -1};
    assert_true(test_every_allocation(f->c, make_and_free, f) >= 8);
    f->request.card_count = 0;
    CHECK_FAILS(f->c, PLIM_E_USAGE, make_and_free(f->c, f), "at least one card");
    test_ctx_close(f->c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(rows_are_single_judgements),
        cmocka_unit_test(best_options_and_load_lines_are_the_searchs),
        cmocka_unit_test(runs_of_a_number_of_tokens),
        cmocka_unit_test(runs_of_a_data_set_go_bucket_by_bucket),
        cmocka_unit_test(next_is_a_memory_test_on_the_cheapest_card_that_carries_it),
        cmocka_unit_test(next_is_one_card_before_several),
        cmocka_unit_test(next_is_the_nearest_change),
        cmocka_unit_test(formulas_have_rows_and_a_next_step),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return RUN_TESTS(table);
}
