/* What a tokenizer.json may say and may not; rewriting, splitting and added tokens in small; running out of
 * memory; long texts. */
#include "text/tokenizer_oracle.h"

#include "text/normal_form.h"
#include "text/pattern.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

#include <utf8proc.h>

/* A tokenizer of single letters and a few merges around the given members. */
#define SMALL(members)                                                                                       \
    "{\"added_tokens\":[{\"id\":40,\"content\":\"<s>\",\"special\":true,\"normalized\":false}],"             \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"c\":3,\" \":4,"    \
    "\"ab\":5,\"abc\":6,\"1\":7,\"2\":8,\"\xe2\x96\x81\":9,\"\xe2\x96\x81"                                   \
    "a\":10,\"-\":11},"                                                                                      \
    "\"merges\":[\"a b\",[\"ab\",\"c\"],\"\xe2\x96\x81 a\"]}" members "}"

/* The tokens of text, one after the other with '|' between, must be want. */
static void check_tokens(const char *json, const char *text, const char *want)
{
    oracle o;
    char got[1024] = "";
    oracle_parse(&o, json);
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, text, strlen(text), (plim_encode_options){0}, &o.tokens));
    for (size_t i = 0; i < o.tokens.count; i++) {
        strcat(got, i ? "|" : "");
        strcat(got, plim_tokenizer_text(o.t, o.tokens.ids[i]));
    }
    assert_string_equal(got, want);
    oracle_close(&o);
}

#define PRE(pre) SMALL(",\"pre_tokenizer\":" pre)
#define NORM(n)  SMALL(",\"normalizer\":" n)
#define SPLIT(b)                                                                                             \
    PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":\"" b "\",\"invert\":false}")
#define BARS "\xe2\x96\x81"

TEST(splits_by_each_behaviour)
{
    UNUSED_STATE;
    check_tokens(SMALL(""), "abcab", "abc|ab");
    check_tokens(SPLIT("Isolated"), "abcab", "a|b|c|a|b");
    check_tokens(SPLIT("Removed"), "abcab", "a|c|a");
    check_tokens(SPLIT("MergedWithPrevious"), "abcab", "ab|c|ab");
    check_tokens(SPLIT("MergedWithNext"), "abcab", "a|b|c|a|b");
    check_tokens(SPLIT("Contiguous"), "abbcab", "a|b|b|c|a|b");
    check_tokens(PRE("{\"type\":\"Digits\",\"individual_digits\":true}"), "ab12", "ab|1|2");
    check_tokens(PRE("{\"type\":\"Whitespace\"}"), "ab  c-", "ab|c|-");
    check_tokens(PRE("{\"type\":\"WhitespaceSplit\"}"), " ab c", "ab|c");
    check_tokens(PRE("{\"type\":\"Punctuation\",\"behavior\":\"Removed\"}"), "a-b", "a|b");
    check_tokens(PRE("{\"type\":\"Metaspace\",\"replacement\":\"" BARS "\",\"prepend_scheme\":\"first\"}"),
                 "a<s>ab a", BARS "a|<s>|ab|" BARS "a");
}

TEST(normalises_step_by_step)
{
    UNUSED_STATE;
    check_tokens(NORM("{\"type\":\"Lowercase\"}"), "ABC", "abc");
    check_tokens(NORM("{\"type\":\"Prepend\",\"prepend\":\"a\"}"), "bc<s>bc", "abc|<s>|abc");
    check_tokens(NORM("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"), "  ab ", "ab");
    check_tokens(NORM("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"c\"}"), "abxx",
                 "abc");
    check_tokens(
        NORM("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"}]}"),
        "\xc3\xa1"
        "bc",
        "abc");
    check_tokens(NORM("{\"type\":\"NFKC\"}"), "\xef\xbd\x81\xef\xbd\x82", "ab");
    check_tokens(NORM("{\"type\":\"Nmt\"}"),
                 "a\x01"
                 "b",
                 "ab");
}

TEST(refuses_by_name_and_place)
{
    UNUSED_STATE;
    static const struct {
        const char *json;
        plim_status status;
        const char *word, *other;
    } bad[] = {
        {NORM("{\"type\":\"Precompiled\"}"), PLIM_E_UNSUPPORTED, "normalizer: ", "\"Precompiled\""},
        {PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"},{\"type\":"
             "\"UnicodeScripts\"}]}"),
         PLIM_E_UNSUPPORTED, "pre_tokenizer.pretokenizers[1]", "\"UnicodeScripts\""},
        {PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Whitespace\"}]"
             "}"),
         PLIM_E_UNSUPPORTED, "pretokenizers[1]", "the last step"},
        {PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"), PLIM_E_FORMAT,
         "pre_tokenizer.pattern", "cannot be compiled"},
        {PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}"),
         PLIM_E_UNSUPPORTED, "intersection", "t.json:1:"},
        {PRE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Other\"}"),
         PLIM_E_UNSUPPORTED, "\"Other\"", "MergedWithNext"},
        {SMALL(",\"decoder\":{\"type\":\"CTC\"}"), PLIM_E_UNSUPPORTED, "decoder", "\"CTC\""},
        {SMALL(",\"post_processor\":{\"type\":\"Mystery\"}"), PLIM_E_UNSUPPORTED, "post_processor",
         "\"Mystery\""},
        {"{\"model\":{\"type\":\"Unigram\"}}", PLIM_E_UNSUPPORTED, "model", "\"Unigram\""},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", PLIM_E_FORMAT, "both have id 0",
         "model.vocab"},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", PLIM_E_FORMAT, "id -1", "model.vocab"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", PLIM_E_FORMAT, "model.merges[0]",
         "become"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", PLIM_E_FORMAT, "model.merges[0]",
         "a merge is"},
        {"{\"model\":{\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", PLIM_E_UNSUPPORTED, "dropout",
         "chance"},
        {"{\"added_tokens\":[{\"id\":7,\"content\":\"a\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         PLIM_E_FORMAT, "added_tokens[0]", "gives it 0"},
        {"[]", PLIM_E_FORMAT, "object", "t.json"},
    };
    plim_ctx *c = test_ctx_open();
    plim_tokenizer *t = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_FAILS(c, bad[i].status, plim_tokenizer_parse(c, "t.json", bad[i].json, strlen(bad[i].json), &t),
                    bad[i].word, bad[i].other);
    assert_null(t);
    test_ctx_close(c);
}

TEST(bad_input_is_an_error_and_leaves_nothing)
{
    UNUSED_STATE;
    oracle o;
    int32_t ids[] = {1, 39};
    char *text = NULL;
    size_t bytes = 0;
    oracle_parse(&o, SMALL(""));
    CHECK_FAILS(o.c, PLIM_E_FORMAT,
                plim_tokenizer_encode(o.s, "ab\xc3", 3, (plim_encode_options){0}, &o.tokens), "offset 2",
                "0xC3");
    assert_int_equal(o.tokens.count, 0);
    CHECK_FAILS(o.c, PLIM_E_RANGE, plim_tokenizer_decode(o.s, ids, 2, false, &text, &bytes), "token 1 is 39");
    assert_null(text);
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, "a\0b", 3, (plim_encode_options){0}, &o.tokens));
    assert_int_equal(o.tokens.count, 3);
    oracle_close(&o);
}

/* (a+)+$ needs 2^n steps where it does not match. */
TEST(an_expression_without_end_is_an_error)
{
    UNUSED_STATE;
    oracle o;
    oracle_parse(
        &o, PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+)+\\\\z\"},\"behavior\":\"Isolated\"}"));
    char text[64];
    memset(text, 'a', sizeof text);
    text[60] = 'b';
    CHECK_FAILS(o.c, PLIM_E_UNSUPPORTED,
                plim_tokenizer_encode(o.s, text, sizeof text, (plim_encode_options){0}, &o.tokens),
                "gives up", "(a+)+");
    oracle_close(&o);
}

static void check_translation(plim_ctx *c, const char *from, const char *to)
{
    char *got = NULL;
    CHECK_OK(c, plim_pattern_translate(c, from, &got));
    assert_string_equal(got, to);
    plim_release(c, got);
}

TEST(expressions_are_translated)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    char *none = NULL;
    check_translation(c, "\\p{N}{1,3}+", "(?:\\p{N}{1,3})+");
    check_translation(c, "(ab){,2}c{x", "(ab){0,2}c\\{x");
    check_translation(c, "(?m:.)\\u0041\\v", "(?s:.)\\x{0041}\\x0b");
    check_translation(c, "\\p{Han}\\P{Letter}[\\h]", "\\p{sc:Han}\\P{L}[0-9A-Fa-f]");
    static const char *const refused[] = {"a(?i)b", "(*FAIL)", "[\\W]", "[a[b]]", "\\Qa",
                                          "(?~a)",  "[a",      "\\",    ")"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_FAILS(c, PLIM_E_UNSUPPORTED, plim_pattern_translate(c, refused[i], &none), "cannot translate");
    test_ctx_close(c);
}

/* No character composes with one that is said to stand on its own. */
TEST(normalising_may_begin_where_it_says)
{
    UNUSED_STATE;
    for (int32_t ch = 0x80; ch < 0x110000; ch++) {
        int32_t parts[32];
        int boundary = 0;
        if (plim_normal_form_is_later((uint32_t)ch)) continue;
        for (int compat = 0; compat < 2; compat++) {
            utf8proc_ssize_t n = utf8proc_decompose_char(
                ch, parts, 32,
                (utf8proc_option_t)(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compat ? UTF8PROC_COMPAT : 0)),
                &boundary);
            if (n > 0 && plim_normal_form_starts_anew((uint32_t)ch))
                assert_true(plim_normal_form_starts_anew((uint32_t)parts[0]));
            if (n != 2 || compat || (ch >= 0xac00 && ch <= 0xd7a3)) continue;
            uint32_t second = (uint32_t)parts[1];
            if (utf8proc_normalize_utf32(parts, n, (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE)) ==
                1)
                assert_false(plim_normal_form_starts_anew(second));
        }
    }
}

/* U+1DF6 came with Unicode 10, but not to the normalisers' tables: U+1DD9 does not pass it. */
TEST(characters_left_alone_stay_where_they_are)
{
    UNUSED_STATE;
    static const char text[] = "\xe1\xb7\xb6\xe1\xb7\x99";
    plim_ctx *c = test_ctx_open();
    plim_stage root = {.ctx = c, .text = text, .bytes = strlen(text)}, made = {.ctx = c};
    plim_normal_scratch w = {.ctx = c};
    plim_span out;
    CHECK_OK(c, plim_normal_form_apply(PLIM_NFC, &w, plim_stage_span(&root), &made, &out));
    assert_int_equal(plim_span_bytes(out), strlen(text));
    assert_memory_equal(plim_span_text(out), text, strlen(text));
    plim_normal_scratch_close(&w);
    plim_stage_close(&made);
    test_ctx_close(c);
}

/* A string merge with a blank inside a token is ambiguous; as a pair it is not, and both forms agree
 * otherwise. */
TEST(merges_as_pairs_and_as_strings)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_tokenizer *t = NULL;
    static const char vocab[] =
        "{\"model\":{\"vocab\":{\"b\":0,\" \":1,\"c\":2,\"b \":3,\"b c\":4},\"merges\":";
    char json[256];
    snprintf(json, sizeof json, "%s[\"b  \",\"b  c\"]}}", vocab);
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_tokenizer_parse(c, "t.json", json, strlen(json), &t),
                "model.merges[0]", "[\"left\", \"right\"]");
    test_ctx_close(c);
    snprintf(json, sizeof json, "%s[[\"b\",\" \"],[\"b \",\"c\"]]}}", vocab);
    check_tokens(json, "b c", "b c");
    check_tokens("{\"model\":{\"vocab\":{\"b\":0,\"c\":1,\"bc\":2},\"merges\":[\"b c\"]}}", "bc", "bc");
    check_tokens("{\"model\":{\"vocab\":{\"b\":0,\"c\":1,\"bc\":2},\"merges\":[[\"b\",\"c\"]]}}", "bc", "bc");
}

/* The expression of a model whose words keep their marks: "k", U+0304 and U+0323 are one piece. */
TEST(marks_stay_with_letters)
{
    UNUSED_STATE;
    check_tokens(PRE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[\\\\p{L}\\\\p{M}]+|\\\\p{N}\"},"
                     "\"behavior\":\"Removed\"}"),
                 "-k\xcc\x84\xcc\xa3"
                 "a1-",
                 "-|-");
}

/* A megabyte of one letter, of combining marks out of order, and of blanks: nothing quadratic survives this.
 */
TEST(long_runs_of_anything)
{
    UNUSED_STATE;
    static const char *const units[] = {"a", "\xcc\x81\xcc\xa3", " ", "\n", "\xe4\xb8\xad", "<|im_start",
                                        "1"};
    enum { BYTES = 1 << 20 };
    oracle o;
    oracle_open(&o, TOKENIZERS "qwen3-reduced.json");
    char *text = malloc(BYTES), *back = NULL;
    size_t back_bytes = 0;
    assert_non_null(text);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        size_t n = strlen(units[u]), whole = BYTES / n * n;
        for (size_t at = 0; at < whole; at += n) memcpy(text + at, units[u], n);
        CHECK_OK(o.c,
                 plim_tokenizer_encode(o.s, text, whole, (plim_encode_options){.offsets = true}, &o.tokens));
        CHECK_OK(o.c, plim_tokenizer_decode(o.s, o.tokens.ids, o.tokens.count, false, &back, &back_bytes));
        assert_int_equal(back_bytes, whole);
        if (u != 1) assert_memory_equal(back, text, whole); /* marks come back in order */
        plim_release(o.c, back);
    }
    free(text);
    oracle_close(&o);
}

/* Merging through a heap gives what merging through all pairs gives. */
TEST(long_and_short_pieces_agree)
{
    UNUSED_STATE;
    oracle o;
    oracle_parse(&o, SMALL(""));
    char text[3 * 40 + 1] = "";
    for (int i = 0; i < 40; i++) strcat(text, "abc");
    CHECK_OK(o.c, plim_tokenizer_encode(o.s, text, strlen(text), (plim_encode_options){0}, &o.tokens));
    assert_int_equal(o.tokens.count, 40);
    for (size_t i = 0; i < 40; i++) assert_int_equal(o.tokens.ids[i], 6);
    oracle_close(&o);
}

static plim_status whole_life(plim_ctx *c, void *user)
{
    const char *json = user;
    plim_tokenizer *t = NULL;
    plim_tokenizer_scratch *s = NULL;
    plim_tokens k = {0};
    char *text = NULL;
    size_t bytes = 0;
    static const char sample[] = "ab<s>e\xcc\x81 abcx12";
    plim_status st = plim_tokenizer_parse(c, "t.json", json, strlen(json), &t);
    if (!st) st = plim_tokenizer_scratch_open(c, t, &s);
    if (!st) st = plim_tokenizer_encode(s, sample, sizeof sample - 1, (plim_encode_options){true, true}, &k);
    if (!st) st = plim_tokenizer_decode(s, k.ids, k.count, false, &text, &bytes);
    plim_release(c, text);
    plim_tokens_close(&k);
    plim_tokenizer_scratch_close(s);
    plim_tokenizer_close(t);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    static char json[] =
        SMALL(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
              "\"Replace\",\"pattern\":"
              "{\"Regex\":\"x|\\\\d\"},\"content\":\"c\"},{\"type\":\"Prepend\",\"prepend\":\"a\"}]},\"pre_"
              "tokenizer\":"
              "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
              "\"behavior\":"
              "\"MergedWithPrevious\"},{\"type\":\"Metaspace\",\"replacement\":\"" BARS
              "\"}]},\"decoder\":{\"type\":"
              "\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" BARS
              "\"},\"content\":\" \"},"
              "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
              "\",\"start\":1,\"stop\":0}]},"
              "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"c\",3],\"cls\":[\"<s>\",40]}");
    plim_ctx *c = test_ctx_open();
    assert_true(test_every_allocation(c, whole_life, json) > 100);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(splits_by_each_behaviour),
        cmocka_unit_test(normalises_step_by_step),
        cmocka_unit_test(refuses_by_name_and_place),
        cmocka_unit_test(bad_input_is_an_error_and_leaves_nothing),
        cmocka_unit_test(an_expression_without_end_is_an_error),
        cmocka_unit_test(expressions_are_translated),
        cmocka_unit_test(normalising_may_begin_where_it_says),
        cmocka_unit_test(characters_left_alone_stay_where_they_are),
        cmocka_unit_test(merges_as_pairs_and_as_strings),
        cmocka_unit_test(marks_stay_with_letters),
        cmocka_unit_test(long_runs_of_anything),
        cmocka_unit_test(long_and_short_pieces_agree),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
