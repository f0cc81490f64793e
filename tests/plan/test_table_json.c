/* The plan as JSON: read back with Jansson, every documented key, and the table's own numbers in it. */
#include "plan/table_support.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static const int64_t lengths[] = {16000, 64000};
static const char *const two_cards[] = {"h200-141", "a100-80", NULL};

static json_t *parse_back(const table_fixture *x, char **text)
{
    json_error_t e;
    CHECK_OK(x->f.c, plim_table_json(x->f.c, &x->table, text));
    json_t *root = json_loads(*text, JSON_REJECT_DUPLICATES, &e);
    if (!root) fail_msg("line %d: %s", e.line, e.text);
    return root;
}

/* Exactly these keys, in this order: "a b c". */
static void check_keys(const json_t *obj, const char *keys)
{
    const char *key;
    json_t *value;
    char found[1024] = "";
    assert_true(json_is_object(obj));
    json_object_foreach((json_t *)(uintptr_t)obj, key, value)
    {
        if (*found) strcat(found, " ");
        strcat(found, key);
    }
    assert_string_equal(found, keys);
}

static void check_integer(const json_t *obj, const char *key, int64_t want)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v) || json_integer_value(v) != want)
        fail_msg("%s: %lld, wanted %lld", key, (long long)json_integer_value(v), (long long)want);
}

/* 15 digits: half a unit of the fifteenth. */
static void check_real(const json_t *obj, const char *key, double want)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_real(v) || !(fabs(json_real_value(v) - want) <= 5e-15 * fabs(want)))
        fail_msg("%s: %.17g, wanted %.17g", key, json_number_value(v), want);
}

static void check_text(const json_t *obj, const char *key, const char *want)
{
    const char *found = json_string_value(json_object_get(obj, key));
    if (!found) fail_msg("%s is no string", key);
    assert_string_equal(found, want);
}

static void check_null(const json_t *obj, const char *key)
{
    if (!json_is_null(json_object_get(obj, key))) fail_msg("%s is not null", key);
}

static const char root_keys[] =
    "schema_version plimsoll trainer model workload limits cards rows best runs load_line "
    "timeline next all_carried";

static void check_usage(const json_t *obj, const plim_usage *u)
{
    size_t sum = 0;
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) {
        const char *key = plim_component_key((plim_component)m);
        if (u->component_bytes[m]) check_integer(obj, key, (int64_t)u->component_bytes[m]);
        else assert_null(json_object_get(obj, key));
        sum += u->component_bytes[m];
    }
    assert_int_equal(sum, u->total_bytes);
}

static void check_cards(const table_fixture *x, const json_t *root)
{
    const json_t *cards = json_object_get(root, "cards");
    assert_int_equal(json_array_size(cards), x->request.card_count);
    for (int64_t k = 0; k < x->request.card_count; k++) {
        const json_t *o = json_array_get(cards, (size_t)k);
        const plim_card *card = x->cards[k];
        const char *missing;
        check_keys(o, "id name cards memory_bytes usable_bytes usd_per_h attention runnable missing");
        check_text(o, "id", card->id);
        check_text(o, "name", card->name);
        check_integer(o, "cards", card->cards);
        check_integer(o, "memory_bytes", card->memory_bytes);
        check_integer(o, "usable_bytes", (int64_t)((double)card->memory_bytes * 0.92));
        check_real(o, "usd_per_h", card->usd_per_h);
        check_text(o, "attention", card->attention == PLIM_ATTENTION_CUDNN ? "cudnn" : "own");
        if (plim_card_runnable(x->request.spec, card, &missing)) check_null(o, "missing");
        else check_text(o, "missing", missing);
    }
}

static void check_rows(const table_fixture *x, const json_t *root)
{
    const plim_table *t = &x->table;
    const json_t *rows = json_object_get(root, "rows");
    assert_int_equal(json_array_size(rows), x->request.seq_count * PLIM_ROWS_A_LENGTH);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *o = json_array_get(rows, i), *parts = json_object_get(o, "components_gib");
        const json_t *verdicts = json_object_get(o, "verdicts");
        const plim_table_row *row = &t->rows[i];
        const char *key;
        json_t *value;
        double sum = 0;
        check_keys(o, "seq_tokens checkpoints loss peak_gib components_gib host_gib verdicts");
        check_integer(o, "seq_tokens", x->request.seq_tokens[i / PLIM_ROWS_A_LENGTH]);
        check_text(o, "checkpoints", plim_row_checkpoints((int)(i % PLIM_ROWS_A_LENGTH)));
        check_text(o, "loss", plim_row_loss((int)(i % PLIM_ROWS_A_LENGTH)));
        check_real(o, "peak_gib", row->peak_gib);
        check_real(o, "host_gib", row->host_gib);
        json_object_foreach((json_t *)(uintptr_t)parts, key, value) sum += json_number_value(value);
        assert_true(fabs(sum - row->peak_gib) < 1e-9);
        assert_int_equal(json_object_size(verdicts), x->request.card_count);
        for (int64_t k = 0; k < x->request.card_count; k++)
            check_text(verdicts, x->cards[k]->id,
                       plim_verdict_name(t->verdicts[(int64_t)i * x->request.card_count + k]));
    }
}

static void check_best(const table_fixture *x, const json_t *root)
{
    static const char *const short_of[] = {NULL, "device", "host"};
    const json_t *best = json_object_get(root, "best");
    assert_int_equal(json_array_size(best), x->request.seq_count * x->request.card_count);
    for (size_t i = 0; i < json_array_size(best); i++) {
        const plim_choice *c = &x->table.best[i];
        const json_t *o = json_array_get(best, i), *options = json_object_get(o, "options");
        check_keys(
            o,
            "card seq_tokens verdict short_of runnable options peak_bytes budget_bytes components_bytes "
            "host_bytes host_budget_bytes host_components_bytes load_peak_bytes load_host_bytes step_seconds "
            "step_parts tokens_per_s usd_per_million_tokens");
        check_text(o, "card", c->card->id);
        check_integer(o, "seq_tokens", c->options.seq_tokens);
        check_text(o, "verdict", plim_verdict_name(c->verdict));
        if (c->shortage) check_text(o, "short_of", short_of[c->shortage]);
        else check_null(o, "short_of");
        check_keys(
            options,
            "host_checkpoints kept_layers keep_attention_output tile_tokens loss_rows embedding_on_host "
            "kv_heads_per_call attention documents labelled_share lora_dropout adam_bits");
        check_integer(options, "host_checkpoints", c->options.host_checkpoints);
        check_integer(options, "tile_tokens", c->options.tile_tokens);
        check_integer(o, "peak_bytes", (int64_t)c->footprint.device_peak.total_bytes);
        check_integer(o, "budget_bytes", (int64_t)c->budget_bytes);
        check_integer(o, "host_bytes", (int64_t)c->footprint.host_peak.total_bytes);
        check_integer(o, "host_budget_bytes", (int64_t)c->host_budget_bytes);
        check_integer(o, "load_peak_bytes", (int64_t)c->footprint.load_peak.total_bytes);
        check_usage(json_object_get(o, "components_bytes"), &c->footprint.device_peak);
        check_usage(json_object_get(o, "host_components_bytes"), &c->footprint.host_peak);
        check_real(o, "step_seconds", c->time.step_s);
        check_real(o, "tokens_per_s", c->time.tokens_per_s);
        check_real(o, "usd_per_million_tokens", c->usd_per_million_tokens);
        check_keys(json_object_get(o, "step_parts"),
                   "gemm_s attention_s delta_s elementwise_s loss_s recompute_s "
                   "to_host_s from_host_s link_wait_s");
        check_real(json_object_get(o, "step_parts"), "gemm_s", c->time.gemm_s);
    }
}

static void check_timeline(const table_fixture *x, const json_t *root)
{
    const json_t *timeline = json_object_get(root, "timeline");
    assert_true(x->table.timeline_count > 0);
    assert_int_equal(json_array_size(timeline), x->table.timeline_count);
    for (size_t i = 0; i < x->table.timeline_count; i++) {
        const plim_phase_usage *u = &x->table.timeline[i];
        const json_t *o = json_array_get(timeline, i);
        check_keys(o, "phase layer device_bytes host_bytes");
        check_text(o, "phase", plim_phase_name(u->phase));
        if (u->layer < 0) check_null(o, "layer");
        else check_integer(o, "layer", u->layer);
        check_integer(o, "device_bytes", (int64_t)u->device.total_bytes);
        check_integer(o, "host_bytes", (int64_t)u->host.total_bytes);
    }
}

TEST(says_what_the_table_says)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, two_cards, lengths, 2);
    char *text;
    x->request.workload.tokens = 3300000;
    x->request.load_line = true;
    table_make(x);
    json_t *root = parse_back(x, &text);
    check_keys(root, root_keys);
    check_integer(root, "schema_version", 1);
    check_text(root, "plimsoll", PLIM_VERSION);
    check_text(root, "trainer", "plimsoll");
    const json_t *model = json_object_get(root, "model");
    check_keys(model,
               "name parameters tensors lora_parameters vision_parameters mtp_parameters lora_rank targets");
    check_text(model, "name", x->request.model);
    check_integer(model, "parameters", x->table.counts.parameters);
    check_integer(model, "tensors", x->table.counts.tensors);
    check_integer(model, "lora_parameters", x->table.lora_parameters);
    check_integer(model, "lora_rank", 16);
    assert_int_equal(json_array_size(json_object_get(model, "targets")), 10);
    check_real(json_object_get(root, "workload"), "tokens", 3300000);
    check_null(json_object_get(root, "workload"), "labelled_share");
    check_keys(json_object_get(root, "limits"), "usable_share host_share");
    assert_non_null(strstr(text, "\"usable_share\": 0.92,\n"));
    check_cards(x, root);
    check_rows(x, root);
    check_best(x, root);
    check_timeline(x, root);
    const json_t *runs = json_object_get(root, "runs"), *next = json_object_get(root, "next");
    assert_true(x->table.run_count > 0);
    assert_int_equal(json_array_size(runs), x->table.run_count);
    check_keys(json_array_get(runs, 0), "card seq_tokens tokens hours hours_slow usd usd_slow");
    check_real(json_array_get(runs, 0), "usd_slow", x->table.runs[0].usd_slow);
    const json_t *line = json_array_get(json_object_get(root, "load_line"), 1);
    check_keys(line, "card best_tokens rows");
    check_integer(line, "best_tokens", x->table.lines[1].best_tokens);
    check_keys(json_array_get(json_object_get(line, "rows"), 3), "checkpoints loss longest_tokens");
    check_integer(json_array_get(json_object_get(line, "rows"), 3), "longest_tokens",
                  x->table.lines[1].row_tokens[3]);
    check_keys(next, "kind text command card seq_tokens");
    check_text(next, "text", x->table.next.text);
    assert_int_equal(json_is_true(json_object_get(root, "all_carried")), x->table.all_carried);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(strncmp(text, "{\n  \"schema_version\": 1,\n", 25), 0);
    json_decref(root);
    plim_text_free(x->f.c, text);
    table_close(x);
}

/* From every GiB of the text the very bytes come back. */
TEST(gib_keeps_every_byte)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, two_cards, lengths, 2);
    char *text;
    table_make(x);
    json_t *root = parse_back(x, &text);
    for (size_t i = 0; i < (size_t)(2 * PLIM_ROWS_A_LENGTH); i++) {
        const json_t *row = json_array_get(json_object_get(root, "rows"), i);
        double bytes = json_number_value(json_object_get(row, "peak_gib")) * 1073741824.0;
        assert_true(fabs(bytes - round(bytes)) < 1e-3);
        assert_true(round(bytes) == x->table.rows[i].peak_gib * 1073741824.0);
    }
    json_decref(root);
    plim_text_free(x->f.c, text);
    table_close(x);
}

TEST(formulas_have_rows_and_no_best)
{
    UNUSED_STATE;
    static const plim_trainer trainers[] = {PLIM_TRAINER_NOTE, PLIM_TRAINER_HF};
    for (size_t i = 0; i < 2; i++) {
        table_fixture *x = table_open(trainers[i], NULL, lengths, 2);
        char *text;
        x->request.workload.tokens = 3300000;
        table_make(x);
        json_t *root = parse_back(x, &text);
        check_keys(root, root_keys);
        check_text(root, "trainer", plim_trainer_name(trainers[i]));
        check_cards(x, root);
        check_rows(x, root);
        check_keys(json_object_get(json_array_get(json_object_get(root, "rows"), 2), "components_gib"),
                   "weights lora checkpoints recompute loss");
        assert_int_equal(json_array_size(json_object_get(root, "best")), 0);
        assert_int_equal(json_array_size(json_object_get(root, "load_line")), 0);
        assert_int_equal(json_array_size(json_object_get(root, "runs")), x->table.run_count);
        if (x->table.run_count) check_null(json_array_get(json_object_get(root, "runs"), 0), "seq_tokens");
        json_decref(root);
        plim_text_free(x->f.c, text);
        table_close(x);
    }
}

/* A path is bytes, JSON is UTF-8. */
TEST(a_model_name_of_any_bytes)
{
    UNUSED_STATE;
    table_fixture *x = table_open(PLIM_TRAINER_NOTE, two_cards, lengths, 1);
    char *text;
    x->request.model = "a\"b\\\xff\xc3\xa9\xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82";
    table_make(x);
    json_t *root = parse_back(x, &text);
    check_text(json_object_get(root, "model"), "name",
               "a\"b\\\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd"
               "\xef\xbf\xbd");
    json_decref(root);
    plim_text_free(x->f.c, text);
    table_close(x);
}

static plim_status write_and_drop(plim_ctx *c, void *user)
{
    char *text = NULL;
    plim_status st = plim_table_json(c, user, &text);
    assert_true(st == PLIM_OK || text == NULL);
    plim_text_free(c, text);
    return st;
}

TEST(survives_every_failing_allocation)
{
    UNUSED_STATE;
    static const char *const one[] = {"h200-141", NULL};
    table_fixture *x = table_open(PLIM_TRAINER_PLIMSOLL, one, lengths, 1);
    x->request.workload.tokens = 3300000;
    x->request.load_line = true;
    table_make(x);
    size_t all = x->table.timeline_count;
    x->table.timeline_count = all < 4 ? all : 4; /* the entries are alike */
    assert_true(test_every_allocation(x->f.c, write_and_drop, &x->table) > 100);
    table_close(x);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(says_what_the_table_says),          cmocka_unit_test(gib_keeps_every_byte),
        cmocka_unit_test(formulas_have_rows_and_no_best),    cmocka_unit_test(a_model_name_of_any_bytes),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return RUN_TESTS(table);
}
