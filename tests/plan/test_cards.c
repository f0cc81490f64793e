/* Card files: the shipped one is whole and sourced; bad ones are refused by name; one laid over another;
 * names. */
#include "support/test.h"

#include <stdlib.h>

#define SHIPPED PLIM_SHARE_SOURCE "/cards.json"

#define WHOLE                                                                                                \
    "\"name\": \"Card\", \"cards\": 1, \"compute_capability\": \"8.0\", \"attention_kernel\": \"own\", "     \
    "\"nominal_gb\": 80, \"memory_bytes\": 85899345920, \"reserved_bytes\": 0, \"context_bytes\": "          \
    "671088640, "                                                                                            \
    "\"gemm_bf16_tflop_per_s\": 250, \"attention_forward_tflop_per_s\": 100, "                               \
    "\"attention_backward_tflop_per_s\": 70.5, \"memory_gb_per_s\": 1800, \"host_link_gb_per_s\": 25, "      \
    "\"both_ways_gb_per_s\": 40, \"host_ram_bytes\": 142000000000, \"usd_per_h\": 0"
#define FILE_OF(cards) "{\"format\": 1, \"cards\": [" cards "]}"

static plim_status parse(plim_ctx *c, const char *text, plim_cards *out)
{
    return plim_cards_parse(c, "my.json", text, strlen(text), out);
}

TEST(shipped_file_is_whole_and_sourced)
{
    UNUSED_STATE;
    static const char *const ids[] = {"a100-80", "rtx-pro-6000-96", "h200-141", "h200-141-x2", "a100-80-x4",
                                      "h100-80", "b200-180",        "l40s-48",  "rtx-5090-32", "rtx-4090-24"};
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &cards));
    assert_int_equal(cards.count, sizeof ids / sizeof *ids);
    for (int64_t i = 0; i < cards.count; i++) {
        const plim_card *card = NULL;
        CHECK_OK(c, plim_cards_find(c, &cards, ids[i], &card)); /* fails when a key is missing */
        for (int f = 0; f < PLIM_FIGURE_COUNT; f++) {
            bool absent = f == PLIM_FIGURE_NOTE_RATE && card->note_tokens_per_s == 0;
            const plim_figure_source *s = &card->source[f];
            if (!absent && (s->basis == PLIM_BASIS_GIVEN || !s->source[0] || strlen(s->date) != 10))
                fail_msg("%s: %s has no source", ids[i], plim_figure_key((plim_figure)f));
        }
    }
    plim_cards_close(c, &cards);
    assert_null(cards.card);
    test_ctx_close(c);
}

TEST(shipped_figures_of_the_measured_card)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    const plim_card *h200 = NULL, *two = NULL;
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &cards));
    CHECK_OK(c, plim_cards_find(c, &cards, "h200", &h200));
    assert_int_equal(h200->memory_bytes, INT64_C(143771) << 20);
    assert_int_equal(h200->source[PLIM_FIGURE_MEMORY_BYTES].basis, PLIM_BASIS_MEASURED);
    assert_true(h200->nominal_gb == 141 && h200->usd_per_h == 5 && h200->note_tokens_per_s == 650);
    assert_true(h200->capability_major == 9 && h200->capability_minor == 0);
    assert_int_equal(h200->attention, PLIM_ATTENTION_CUDNN);
    CHECK_OK(c, plim_cards_find(c, &cards, "h200x2", &two));
    assert_true(two->cards == 2 && two->nominal_gb == 282 && two->usd_per_h == 10);
    assert_int_equal(two->memory_bytes, h200->memory_bytes);
    plim_cards_close(c, &cards);
    test_ctx_close(c);
}

TEST(names_are_found_in_any_spelling)
{
    UNUSED_STATE;
    static const char *const spelled[][2] = {
        {"A100_large", "a100-80"},      {"a100x4", "a100-80-x4"}, {"RTX PRO 6000", "rtx-pro-6000-96"},
        {"L40Sx1", "l40s-48"},          {"5090", "rtx-5090-32"},  {"B200", "b200-180"},
        {"H200_141_X2", "h200-141-x2"}, {"4090", "rtx-4090-24"},
    };
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &cards));
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        const plim_card *card = NULL;
        CHECK_OK(c, plim_cards_find(c, &cards, spelled[i][0], &card));
        assert_string_equal(card->id, spelled[i][1]);
    }
    plim_cards_close(c, &cards);
    test_ctx_close(c);
}

TEST(an_unknown_name_lists_the_known_and_the_nearest)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    const plim_card *card = NULL;
    char much[5000];
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &cards));
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &cards, "h201", &card), "\"h201\"",
                "nearest name is \"h200\"", "a100-80, ", "rtx-4090-24");
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &cards, "RTX_PRO_600", &card), "\"rtx-pro-6000\"");
    memset(much, 'h', sizeof much);
    much[sizeof much - 1] = 0;
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &cards, much, &card), "known are");
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &cards, "", &card), "known are");
    assert_null(card);
    plim_cards_close(c, &cards);
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &cards, "h200", &card), "h200");
    test_ctx_close(c);
}

TEST(bad_files_are_refused)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        plim_status want;
        const char *word[3];
    } bad[] = {
        {"", PLIM_E_FORMAT, {"my.json"}},
        {"[]", PLIM_E_FORMAT, {"my.json:1:1", "cards"}},
        {"{\"format\": 1, \"cards\": [], \"card\": 1}", PLIM_E_FORMAT, {"\"card\" is unknown"}},
        {"{\"cards\": []}", PLIM_E_FORMAT, {"format", "missing"}},
        {"{\"format\": 2, \"cards\": []}", PLIM_E_RANGE, {"format"}},
        {FILE_OF(""), PLIM_E_RANGE, {"cards", "0 cards"}},
        {FILE_OF("7"), PLIM_E_FORMAT, {"cards[0]", "object"}},
        {FILE_OF("{}"), PLIM_E_FORMAT, {"cards[0].id", "missing"}},
        {FILE_OF("{\"id\": \"\"}"), PLIM_E_RANGE, {"cards[0].id", "1 to 47 bytes"}},
        {FILE_OF("{\"id\": \"a/b\"}"), PLIM_E_FORMAT, {"cards[0].id", "letters"}},
        {FILE_OF("{\"id\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"), PLIM_E_RANGE, {"has 48"}},
        {FILE_OF("{\"id\": \"a\", \"name\": \"x\\ty\"}"), PLIM_E_FORMAT, {"cards[0].name", "control"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_hour\": 3}"),
         PLIM_E_FORMAT,
         {"my.json:1:53: cards[0].usd_per_hour: ", "\"usd_per_hour\" is unknown"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": \"3\"}"), PLIM_E_FORMAT, {"cards[0].usd_per_h", "number"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": -1}"), PLIM_E_RANGE, {"cards[0].usd_per_h"}},
        {FILE_OF("{\"id\": \"a\", \"memory_bytes\": 80}"), PLIM_E_RANGE, {"cards[0].memory_bytes", "80"}},
        {FILE_OF("{\"id\": \"a\", \"memory_bytes\": 8e10}"),
         PLIM_E_FORMAT,
         {"cards[0].memory_bytes", "integer"}},
        {FILE_OF("{\"id\": \"a\", \"memory_bytes\": 9223372036854775807}"), PLIM_E_RANGE, {"memory_bytes"}},
        {FILE_OF("{\"id\": \"a\", \"host_link_gb_per_s\": 55e9}"), PLIM_E_RANGE, {"host_link_gb_per_s"}},
        {FILE_OF("{\"id\": \"a\", \"cards\": 0}"), PLIM_E_RANGE, {"cards[0].cards"}},
        {FILE_OF("{\"id\": \"a\", \"cards\": 4294967297}"), PLIM_E_RANGE, {"cards[0].cards"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": \"90\"}"),
         PLIM_E_FORMAT,
         {"compute_capability", "9.0"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": \".5\"}"), PLIM_E_FORMAT, {"compute_capability"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": \"9.0a\"}"), PLIM_E_FORMAT, {"compute_capability"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": \"999.0\"}"),
         PLIM_E_FORMAT,
         {"compute_capability"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": 9.0}"),
         PLIM_E_FORMAT,
         {"compute_capability", "string"}},
        {FILE_OF("{\"id\": \"a\", \"compute_capability\": \"7.5\"}"), PLIM_E_UNSUPPORTED, {"bf16"}},
        {FILE_OF("{\"id\": \"a\", \"attention_kernel\": \"flash\"}"), PLIM_E_FORMAT, {"\"flash\"", "cudnn"}},
        {FILE_OF("{\"id\": \"a\", \"attention_kernel\": \"cudnn\", \"compute_capability\": \"10.0\"}"),
         PLIM_E_UNSUPPORTED,
         {"\"a\"", "10.0"}},
        {FILE_OF("{\"id\": \"a\", \"cards\": 2, \"nominal_gb\": 80, \"memory_bytes\": 85899345920}"),
         PLIM_E_RANGE,
         {"171.8 GB", "nominal_gb is 80"}},
        {FILE_OF("{\"id\": \"a\", \"memory_bytes\": 1073741824, \"reserved_bytes\": 536870912, "
                 "\"context_bytes\": 1}"),
         PLIM_E_RANGE,
         {"reserved_bytes + context_bytes"}},
        {FILE_OF("{\"id\": \"a\", \"host_link_gb_per_s\": 25, \"both_ways_gb_per_s\": 51}"),
         PLIM_E_RANGE,
         {"25 to 50"}},
        {FILE_OF("{\"id\": \"a\", \"host_link_gb_per_s\": 25, \"both_ways_gb_per_s\": 24}"),
         PLIM_E_RANGE,
         {"25 to 50"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": {\"value\": 1}}"),
         PLIM_E_FORMAT,
         {"cards[0].usd_per_h.basis"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": {\"value\": 1, \"basis\": \"guess\", \"source\": \"s\", "
                 "\"date\": \"2026-12\"}}"),
         PLIM_E_FORMAT,
         {"usd_per_h.basis", "\"guess\""}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": {\"value\": 1, \"basis\": \"listed\", \"source\": \"s\", "
                 "\"date\": \"Dec 2026\"}}"),
         PLIM_E_FORMAT,
         {"usd_per_h.date", "\"Dec 2026\""}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": {\"basis\": \"listed\", \"source\": \"s\", \"date\": "
                 "\"2026-12\"}}"),
         PLIM_E_FORMAT,
         {"usd_per_h.value", "missing"}},
        {FILE_OF("{\"id\": \"a\", \"usd_per_h\": {\"value\": 1, \"unit\": \"EUR\"}}"),
         PLIM_E_FORMAT,
         {"\"unit\" is unknown"}},
        {FILE_OF("{\"id\": \"a\", \"aliases\": [\"b\", 3]}"), PLIM_E_FORMAT, {"cards[0].aliases[1]"}},
        {FILE_OF("{\"id\": \"a\", \"aliases\": [\"b\", \"b c\"]}"), PLIM_E_FORMAT, {"cards[0].aliases[1]"}},
        {FILE_OF("{\"id\": \"a\", \"aliases\": [\"A\"]}"), PLIM_E_FORMAT, {"\"a\"", "\"A\""}},
        {FILE_OF("{\"id\": \"a-b\"}, {\"id\": \"c\", \"aliases\": [\"A_B\"]}"),
         PLIM_E_FORMAT,
         {"a-b", "A_B"}},
        {FILE_OF("{\"id\": \"a\", \"aliases\": "
                 "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\","
                 "\"13\",\"14\",\"15\",\"16\",\"17\"]}"),
         PLIM_E_RANGE,
         {"17 names"}},
    };
    plim_ctx *c = test_ctx_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim_cards cards = {0};
        CHECK_FAILS(c, bad[i].want, parse(c, bad[i].text, &cards), bad[i].word[0], bad[i].word[1],
                    bad[i].word[2]);
        assert_null(cards.card);
        assert_int_equal(test_live_allocations(), 1); /* the context */
    }
    test_ctx_close(c);
}

TEST(a_bare_number_is_given)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    const plim_card *card = NULL;
    CHECK_OK(c, parse(c, FILE_OF("{\"id\": \"mine\", \"aliases\": [], " WHOLE "}"), &cards));
    CHECK_OK(c, plim_cards_find(c, &cards, "MINE", &card));
    assert_true(card->attention_backward_tflop_per_s == 70.5 && card->note_tokens_per_s == 0 &&
                card->usd_per_h == 0);
    assert_int_equal(card->source[PLIM_FIGURE_PRICE].basis, PLIM_BASIS_GIVEN);
    assert_string_equal(plim_basis_name(card->source[PLIM_FIGURE_PRICE].basis), "given");
    assert_string_equal(plim_basis_name(PLIM_BASIS_COUNT), "?");
    assert_string_equal(plim_figure_key(PLIM_FIGURE_PRICE), "usd_per_h");
    assert_string_equal(plim_figure_key(PLIM_FIGURE_COUNT), "?");
    plim_cards_close(c, &cards);
    test_ctx_close(c);
}

TEST(a_known_id_changes_the_keys_it_gives)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards base = {0}, over = {0}, both = {0};
    const plim_card *h200 = NULL, *mine = NULL;
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &base));
    CHECK_OK(c, parse(c,
                      FILE_OF("{\"id\": \"H200_141\", \"usd_per_h\": 3.5, \"aliases\": [\"ours\"]}, {\"id\": "
                              "\"mine\", " WHOLE "}"),
                      &over));
    CHECK_OK(c, plim_cards_merge(c, &base, &over, &both));
    assert_int_equal(both.count, base.count + 1);
    CHECK_OK(c, plim_cards_find(c, &both, "ours", &h200));
    assert_string_equal(h200->id, "h200-141");
    assert_true(h200->usd_per_h == 3.5 && h200->nominal_gb == 141);
    assert_int_equal(h200->source[PLIM_FIGURE_PRICE].basis, PLIM_BASIS_GIVEN);
    assert_int_equal(h200->source[PLIM_FIGURE_GEMM].basis, PLIM_BASIS_MEASURED);
    CHECK_FAILS(c, PLIM_E_USAGE, plim_cards_find(c, &both, "h200-sxm", &h200), "h200-sxm");
    CHECK_OK(c, plim_cards_find(c, &both, "mine", &mine));
    assert_int_equal(mine->memory_bytes, INT64_C(85899345920));
    CHECK_OK(c, plim_cards_find(c, &base, "h200", &h200)); /* the first set is as it was */
    assert_true(h200->usd_per_h == 5);
    plim_cards_close(c, &both);
    plim_cards_close(c, &over);
    plim_cards_close(c, &base);
    test_ctx_close(c);
}

TEST(a_mixed_card_must_not_contradict_itself)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        plim_status want;
        const char *word;
    } bad[] = {
        {FILE_OF("{\"id\": \"new\", \"usd_per_h\": 1}"), PLIM_E_FORMAT,
         "name, cards, compute_capability, attention_kernel, nominal_gb"},
        {FILE_OF("{\"id\": \"a100-80\", \"attention_kernel\": \"cudnn\"}"), PLIM_E_UNSUPPORTED,
         "\"a100-80\""},
        {FILE_OF("{\"id\": \"a100-80\", \"nominal_gb\": 40}"), PLIM_E_RANGE, "nominal_gb is 40"},
        {FILE_OF("{\"id\": \"a100-80\", \"cards\": 2}"), PLIM_E_RANGE, "2 x memory_bytes"},
        {FILE_OF("{\"id\": \"a100-80\", \"aliases\": [\"h200\"]}"), PLIM_E_FORMAT, "\"h200\""},
        {FILE_OF("{\"id\": \"h200\", " WHOLE "}"), PLIM_E_FORMAT,
         "card \"h200-141\""}, /* an alias is no id */
    };
    plim_ctx *c = test_ctx_open();
    plim_cards base = {0};
    CHECK_OK(c, plim_cards_load(c, SHIPPED, &base));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plim_cards over = {0}, both = {0};
        CHECK_OK(c, parse(c, bad[i].text, &over));
        CHECK_FAILS(c, bad[i].want, plim_cards_merge(c, &base, &over, &both), bad[i].word);
        assert_null(both.card);
        plim_cards_close(c, &over);
    }
    plim_cards_close(c, &base);
    test_ctx_close(c);
}

TEST(a_card_that_lacks_keys_is_not_found)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    const plim_card *card = NULL;
    CHECK_OK(c, parse(c, FILE_OF("{\"id\": \"part\", \"usd_per_h\": 1}"), &cards));
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_cards_find(c, &cards, "part", &card), "\"part\"", "memory_bytes");
    assert_null(card);
    plim_cards_close(c, &cards);
    test_ctx_close(c);
}

TEST(a_missing_file_is_named)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_cards cards = {0};
    CHECK_FAILS(c, PLIM_E_IO, plim_cards_load(c, PLIM_TEST_DATA "/no-such-cards.json", &cards),
                "no-such-cards.json");
    test_ctx_close(c);
}

static plim_status open_and_close(plim_ctx *c, void *user)
{
    plim_cards base = {0}, over = {0}, both = {0};
    plim_status st = plim_cards_load(c, user, &base);
    if (!st) st = parse(c, FILE_OF("{\"id\": \"h200-141\", \"usd_per_h\": 3.5}"), &over);
    if (!st) st = plim_cards_merge(c, &base, &over, &both);
    plim_cards_close(c, &both);
    plim_cards_close(c, &over);
    plim_cards_close(c, &base);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    assert_true(test_every_allocation(c, open_and_close, (char[]){SHIPPED}) > 100);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(shipped_file_is_whole_and_sourced),
        cmocka_unit_test(shipped_figures_of_the_measured_card),
        cmocka_unit_test(names_are_found_in_any_spelling),
        cmocka_unit_test(an_unknown_name_lists_the_known_and_the_nearest),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(a_bare_number_is_given),
        cmocka_unit_test(a_known_id_changes_the_keys_it_gives),
        cmocka_unit_test(a_mixed_card_must_not_contradict_itself),
        cmocka_unit_test(a_card_that_lacks_keys_is_not_found),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
