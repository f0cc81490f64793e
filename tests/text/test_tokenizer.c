/* Ids, ranges and decoding against the fast tokenizer, for each family of byte-pair tokenizers. */
#include "text/tokenizer_oracle.h"

TEST(qwen3_with_a_pruned_vocabulary)
{
    UNUSED_STATE;
    assert_true(check_oracle(TOKENIZERS "qwen3-reduced.json", TOKENIZERS "qwen3-ids.json", false) > 190);
}

/* PLIM_TEST_TOKENIZER names the whole tokenizer.json of Qwen3, which is too large to ship. */
TEST(qwen3_whole)
{
    UNUSED_STATE;
    const char *whole = getenv("PLIM_TEST_TOKENIZER");
    if (!whole || !*whole) skip();
    assert_true(check_oracle(whole, TOKENIZERS "qwen3-ids.json", false) > 190);
}

TEST(llama3_style_ignores_merges)
{
    UNUSED_STATE;
    oracle o;
    assert_true(check_oracle(TOKENIZERS "llama3-style.json", TOKENIZERS "llama3-style-ids.json", false) >
                190);
    oracle_open(&o, TOKENIZERS "llama3-style.json");
    /* a token that no merges lead to */
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, "x unmergeable", 13, (plim_encode_options){0}, &o.tokens));
    assert_int_equal(o.tokens.count, 2);
    assert_int_equal(o.tokens.ids[1], plim_tokenizer_id(o.t, "\xc4\xa0unmergeable"));
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, "x", 1, (plim_encode_options){.special = true}, &o.tokens));
    assert_int_equal(o.tokens.count, 2);
    assert_true(plim_tokenizer_is_special(o.t, o.tokens.ids[0]));
    assert_string_equal(plim_tokenizer_text(o.t, o.tokens.ids[0]), "<|begin_of_text|>");
    oracle_close(&o);
}

TEST(gpt2_style_with_a_prefix_and_every_flag_of_added_tokens)
{
    UNUSED_STATE;
    assert_true(check_oracle(TOKENIZERS "gpt2-style.json", TOKENIZERS "gpt2-style-ids.json", true) > 190);
}

TEST(llama2_style_falls_back_to_bytes)
{
    UNUSED_STATE;
    assert_true(check_oracle(TOKENIZERS "llama2-style.json", TOKENIZERS "llama2-style-ids.json", true) > 190);
}

TEST(metaspace_style_with_unknown_tokens)
{
    UNUSED_STATE;
    assert_true(check_oracle(TOKENIZERS "metaspace-style.json", TOKENIZERS "metaspace-style-ids.json", true) >
                190);
}

/* Byte ranges of the original, through a normal form: the example is "e" and U+0301, then U+212B. */
TEST(ranges_lead_through_normal_forms)
{
    UNUSED_STATE;
    static const char text[] = "x e\xcc\x81 \xe2\x84\xab";
    oracle o;
    oracle_open(&o, TOKENIZERS "qwen3-reduced.json");
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, text, strlen(text), (plim_encode_options){.offsets = true},
                                        &o.tokens));
    size_t last = o.tokens.count - 1;
    assert_int_equal(o.tokens.ranges[0].begin, 0);
    assert_int_equal(o.tokens.ranges[0].end, 1);
    assert_int_equal(o.tokens.ranges[1].begin, 1);
    assert_int_equal(o.tokens.ranges[1].end, 5);
    assert_int_equal(o.tokens.ranges[last].end, 9);
    for (size_t i = 1; i <= last; i++) assert_true(o.tokens.ranges[i].begin >= o.tokens.ranges[i - 1].begin);
    oracle_close(&o);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(qwen3_with_a_pruned_vocabulary),
        cmocka_unit_test(qwen3_whole),
        cmocka_unit_test(llama3_style_ignores_merges),
        cmocka_unit_test(gpt2_style_with_a_prefix_and_every_flag_of_added_tokens),
        cmocka_unit_test(llama2_style_falls_back_to_bytes),
        cmocka_unit_test(metaspace_style_with_unknown_tokens),
        cmocka_unit_test(ranges_lead_through_normal_forms),
    };
    return RUN_TESTS(table);
}
