/* Rotary embedding of a config: every spelling of base and scaling, and what is refused instead of
 * dropped. */
#include "support/config_text.h"

#define LEN(a)  (sizeof(a) / sizeof *(a))
#define REFUSED PLIM_E_UNSUPPORTED
#define LLAMA3                                                                                               \
    "\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4, "        \
    "\"original_max_position_embeddings\": 8192"

typedef struct spelling {
    const char *more;
    double theta; /* 0: refused */
    plim_rope_type type;
    plim_status status;
    const char *words[3];
} spelling;

static void check_spellings(plim_ctx *c, const char *model_type, const spelling *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *text = config_dense(model_type, cases[i].more);
        plim_spec s;
        plim_status st = config_parse(c, text, &s);
        if (cases[i].status) {
            const char *const words[] = {cases[i].words[0], cases[i].words[1], cases[i].words[2], NULL};
            test_check_fails(c, cases[i].status, st, cases[i].more, words);
        } else {
            CHECK_OK(c, st);
            assert_true(s.rope.theta == cases[i].theta);
            assert_int_equal(s.rope.type, cases[i].type);
            assert_int_equal(s.rope.rotary_dim, 16);
            bool scaled = cases[i].type == PLIM_ROPE_LLAMA3;
            assert_true(s.rope.factor == (scaled ? 8.0 : 0.0));
            assert_true(s.rope.low_freq_factor == (scaled ? 1.0 : 0.0));
            assert_true(s.rope.high_freq_factor == (scaled ? 4.0 : 0.0));
            assert_int_equal(s.rope.original_max_position, scaled ? 8192 : 0);
        }
        free(text);
    }
}

TEST(spellings_of_base_and_scaling)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const spelling cases[] = {
        /* C1: only inside rope_parameters */
        {", \"rope_parameters\": {\"rope_theta\": 5e6, \"rope_type\": \"default\"}",
         5e6,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        {", \"rope_parameters\": {\"rope_theta\": 5000000}", 5e6, PLIM_ROPE_DEFAULT, 0, {0}},
        {", \"rope_theta\": 1e6", 1e6, PLIM_ROPE_DEFAULT, 0, {0}},
        {", \"rope_theta\": 1e6, \"rope_scaling\": null, \"rope_parameters\": null",
         1e6,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        /* C2: a block without theta, theta beside it */
        {", \"rope_theta\": 5e5, \"rope_scaling\": {" LLAMA3 "}", 5e5, PLIM_ROPE_LLAMA3, 0, {0}},
        {", \"rope_theta\": 5e5, \"rope_parameters\": {" LLAMA3 "}", 5e5, PLIM_ROPE_LLAMA3, 0, {0}},
        {", \"rope_parameters\": {\"rope_theta\": 5e5, " LLAMA3 "}", 5e5, PLIM_ROPE_LLAMA3, 0, {0}},
        {", \"rope_theta\": 5e5, \"rope_parameters\": {\"rope_theta\": 500000}",
         5e5,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        {", \"rope_theta\": 1e4, \"rope_scaling\": {\"type\": \"default\"}", 1e4, PLIM_ROPE_DEFAULT, 0, {0}},
        {", \"rope_theta\": 1e4, \"rope_scaling\": {\"type\": \"default\", \"factor\": 1.0}",
         1e4,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        {", \"rope_parameters\": {\"rope_theta\": 7}, \"rope_scaling\": {\"rope_theta\": 7}",
         7,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        /* C4: one level deeper for each layer type */
        {", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 3e6, \"rope_type\": \"default\"}}",
         3e6,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
        {", \"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 1e4}, \"full_attention\": "
         "{\"rope_theta\": "
         "3e6, " LLAMA3 "}}",
         3e6,
         PLIM_ROPE_LLAMA3,
         0,
         {0}},
        {", \"rope_theta\": 2e6, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}",
         2e6,
         PLIM_ROPE_DEFAULT,
         0,
         {0}},
    };
    check_spellings(c, "llama", cases, LEN(cases));
    test_ctx_close(c);
}

TEST(refuses_what_it_would_have_to_guess_or_drop)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const spelling cases[] = {
        {"", 0, 0, PLIM_E_FORMAT, {"config.json:1:1: rope_theta:", "missing", "never guessed"}},
        {", \"rope_parameters\": {\"rope_type\": \"default\"}",
         0,
         0,
         PLIM_E_FORMAT,
         {"rope_theta:", "missing"}},
        {", \"rope_theta\": \"1e4\"", 0, 0, PLIM_E_FORMAT, {"config.json:4:57: rope_theta:", "a number"}},
        {", \"rope_theta\": 0.5", 0, 0, PLIM_E_RANGE, {"rope_theta:", "0.5"}},
        {", \"rope_parameters\": []", 0, 0, PLIM_E_FORMAT, {"rope_parameters:", "an object"}},
        {", \"rope_theta\": 1e4, \"rope_parameters\": {\"rope_theta\": 1e6}",
         0,
         0,
         REFUSED,
         {"rope_theta:", "10000 here", "1000000 in rope_parameters"}},
        {", \"rope_parameters\": {\"rope_theta\": 7}, \"rope_scaling\": {\"rope_theta\": 8}",
         0,
         0,
         REFUSED,
         {"rope_scaling:", "differs from rope_parameters"}},
        {", \"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 7}}",
         0,
         0,
         PLIM_E_FORMAT,
         {"rope_parameters.full_attention:", "missing"}},
        {", \"rope_parameters\": {\"rope_type\": \"yarn\", \"full_attention\": {\"rope_theta\": 7}}",
         0,
         0,
         REFUSED,
         {"rope_parameters.rope_type:", "beside blocks for layer types"}},
        {", \"rope_parameters\": {\"full_attention\": 7}",
         0,
         0,
         PLIM_E_FORMAT,
         {"rope_parameters.full_attention:"}},
        {", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 7, \"rope_type\": \"yarn\"}}",
         0,
         0,
         REFUSED,
         {"rope_parameters.full_attention.rope_type:", "\"yarn\" scaling"}},
        /* C3: a known scaling that is not computed */
        {", \"rope_theta\": 7, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 5.5}",
         0,
         0,
         REFUSED,
         {"config.json:4:90: rope_scaling.rope_type:", "\"yarn\"", "\"llama3\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         0,
         0,
         REFUSED,
         {"rope_scaling.type:", "\"linear\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}",
         0,
         0,
         REFUSED,
         {"\"dynamic\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"type\": \"longrope\"}", 0, 0, REFUSED, {"\"longrope\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"type\": \"spiral\"}", 0, 0, REFUSED, {"\"spiral\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"type\": \"default\", \"rope_type\": \"llama3\"}",
         0,
         0,
         REFUSED,
         {"rope_scaling.rope_type:", "\"llama3\"", "\"default\""}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"factor\": 5.5}",
         0,
         0,
         REFUSED,
         {"rope_scaling.factor:", "would be ignored"}},
        {", \"rope_theta\": 7, \"rope_scaling\": {\"attention_factor\": 1.2, " LLAMA3 "}",
         0,
         0,
         REFUSED,
         {"rope_scaling.attention_factor:", "\"llama3\""}},
        {", \"rope_theta\": 7, \"rope_parameters\": {\"beta_fast\": 32}",
         0,
         0,
         REFUSED,
         {"beta_fast:", "\"default\""}},
        {", \"rope_theta\": 7, \"partial_rotary_factor\": 0.5",
         0,
         0,
         REFUSED,
         {"partial_rotary_factor:", "0.5"}},
    };
    check_spellings(c, "llama", cases, LEN(cases));
    test_ctx_close(c);
}

TEST(llama3_needs_all_its_fields)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {"\"factor\": 8.0,", "", PLIM_E_FORMAT, {"rope_scaling.factor:", "missing"}},
        {"\"factor\": 8.0", "\"factor\": 0.5", PLIM_E_RANGE, {"rope_scaling.factor:", "0.5"}},
        {"\"low_freq_factor\": 1.0,", "", PLIM_E_FORMAT, {"rope_scaling.low_freq_factor:"}},
        {"\"high_freq_factor\": 4",
         "\"high_freq_factor\": 1",
         PLIM_E_RANGE,
         {"rope_scaling.high_freq_factor:"}},
        {"\"high_freq_factor\": 4,", "", PLIM_E_FORMAT, {"rope_scaling.high_freq_factor:", "missing"}},
        {"8192", "8192.5", PLIM_E_FORMAT, {"rope_scaling.original_max_position_embeddings:", "integer"}},
        {"8192", "null", PLIM_E_FORMAT, {"rope_scaling.original_max_position_embeddings:", "null"}},
    };
    char *base = config_dense("llama", ", \"rope_theta\": 5e5, \"rope_scaling\": {" LLAMA3 "}");
    config_check_cases(c, base, cases, LEN(cases));
    free(base);
    test_ctx_close(c);
}

TEST(hybrid_rope)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const config_case cases[] = {
        {"\"rope_type\": \"default\"",
         "\"rope_type\": \"llama3\"",
         REFUSED,
         {"text_config.rope_parameters.rope_type:", "\"llama3\"", "qwen3_5_text"}},
        {"\"rope_type\": \"default\"",
         "\"rope_type\": \"yarn\", \"factor\": 4.0",
         REFUSED,
         {"text_config.rope_parameters.rope_type:", "\"yarn\""}},
        {"\"rope_theta\": 10000000,", "", PLIM_E_FORMAT, {"text_config.rope_theta:", "missing"}},
        {"\"partial_rotary_factor\": 0.25,\n    \"rms", "\"rms", PLIM_OK, {0}}, /* inside the block alone */
        {"\"partial_rotary_factor\": 0.25,\n      \"rope_theta\"",
         "\"rope_theta\"",
         PLIM_OK,
         {0}}, /* beside it */
        {"\"partial_rotary_factor\": 0.25,\n    \"rms",
         "\"partial_rotary_factor\": 0.5,\n    \"rms",
         REFUSED,
         {"text_config.partial_rotary_factor:", "0.5 here", "0.25 in text_config.rope_parameters"}},
        {"\"head_dim\": 256",
         "\"head_dim\": 252",
         PLIM_E_SHAPE,
         {"text_config.partial_rotary_factor:", "63"}},
        {"\"head_dim\": 256",
         "\"head_dim\": 250",
         PLIM_E_SHAPE,
         {"text_config.partial_rotary_factor:", "62.5"}},
        {"\"image_token_id\"",
         "\"rope_scaling\": {\"type\": \"yarn\"}, \"image_token_id\"",
         REFUSED,
         {"config.json:5:19: rope_scaling:", "text_config"}},
    };
    char *base = test_read(CONFIG_27B, NULL);
    config_check_cases(c, base, cases, LEN(cases));
    char *half = config_edit(base, "\"partial_rotary_factor\": 0.25,\n    \"rms", "\"rms");
    char *none = config_edit(half, "\"partial_rotary_factor\": 0.25,", "");
    plim_spec s;
    CHECK_FAILS(c, PLIM_E_FORMAT, config_parse(c, none, &s), "text_config.partial_rotary_factor:", "missing");
    free(none);
    free(half);
    free(base);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(spellings_of_base_and_scaling),
        cmocka_unit_test(refuses_what_it_would_have_to_guess_or_drop),
        cmocka_unit_test(llama3_needs_all_its_fields),
        cmocka_unit_test(hybrid_rope),
    };
    return RUN_TESTS(table);
}
