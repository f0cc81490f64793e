/* adapter_config.json: PEFT's own files, every refusal, and the way back. */
#include "support/config_text.h"

#include <math.h>

#include "formats/adapter_config.h"

static const char plain[] =
    "{\"peft_type\": \"LORA\", \"r\": 16, \"lora_alpha\": 32, \"bias\": \"none\", "
    "\"task_type\": \"CAUSAL_LM\", \"target_modules\": [\"q_proj\", \"in_proj_qkv\"]}";

static plim_status parse(plim_ctx *c, const char *text, plim_adapter_config *out)
{
    return plim_adapter_config_parse(c, "adapter_config.json", text, strlen(text), out);
}

TEST(pefts_own_files_are_read)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *model;
        int64_t rank;
        double alpha;
        bool rslora;
    } cases[] = {{"qwen3_5-tiny", 4, 8, false},
                 {"qwen3_5-tied", 16, 16, true},
                 {"qwen2-tiny", 8, 8, false},
                 {"qwen3-tiny", 4, 8, false},
                 {"llama-tiny", 4, 16, false}};
    for (size_t i = 0; i < 5; i++) {
        char path[512];
        plim_adapter_config g;
        snprintf(path, sizeof path, "%s/models/%s/adapter/adapter_config.json", PLIM_TEST_DATA,
                 cases[i].model);
        CHECK_OK(c, plim_adapter_config_load(c, path, &g));
        assert_int_equal(g.rank, cases[i].rank);
        assert_true(g.alpha == cases[i].alpha && g.dropout == 0);
        assert_int_equal(g.rslora, cases[i].rslora);
        uint32_t dense = (1u << PLIM_TARGET_IN_QKV) - 1;
        assert_int_equal(g.targets, i < 2 ? PLIM_TARGETS_DEFAULT : dense);
        assert_string_equal(g.base_model, "");
    }
    test_ctx_close(c);
}

TEST(the_scale_is_alpha_over_r_or_over_its_root)
{
    UNUSED_STATE;
    plim_adapter_config g = {.rank = 16, .alpha = 32};
    assert_true(plim_adapter_scale(&g) == 2);
    g.rslora = true;
    assert_true(plim_adapter_scale(&g) == 8);
}

TEST(what_may_be_absent_or_of_another_kind)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_adapter_config g;
    CHECK_OK(
        c,
        parse(c, "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 0.5, \"target_modules\": [\"v_proj\"]}",
              &g));
    assert_true(g.rank == 1 && g.alpha == 0.5 && !g.rslora);
    assert_int_equal(g.targets, PLIM_TARGET_BIT(PLIM_TARGET_V));
    CHECK_OK(c, parse(c,
                      "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 1, \"lora_dropout\": 0.25, "
                      "\"target_modules\": \".*_proj\", \"bias\": null, \"task_type\": null, "
                      "\"init_lora_weights\": \"gaussian\", \"a_new_thing\": {}, \"another\": false, "
                      "\"base_model_name_or_path\": \"Qwen/\\u00dc\"}",
                      &g));
    assert_int_equal(g.targets, 0); /* a pattern */
    assert_true(g.dropout == 0.25);
    assert_string_equal(g.base_model, "Qwen/\xc3\x9c");
    test_ctx_close(c);
}

TEST(everything_else_is_refused_by_name)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const char task[] = "\"task_type\": \"CAUSAL_LM\"";
    static const struct {
        const char *from, *to;
        plim_status status;
        const char *words[3];
    } cases[] = {
        {"LORA", "IA3", PLIM_E_UNSUPPORTED, {"peft_type", "IA3", "LORA"}},
        {"\"peft_type\": \"LORA\", ", "", PLIM_E_FORMAT, {"peft_type"}},
        {"CAUSAL_LM", "SEQ_CLS", PLIM_E_UNSUPPORTED, {"task_type", "SEQ_CLS"}},
        {"none", "lora_only", PLIM_E_UNSUPPORTED, {"bias", "lora_only", "none"}},
        {"\"r\": 16", "\"r\": 0", PLIM_E_RANGE, {"r:"}},
        {"\"r\": 16", "\"r\": 1025", PLIM_E_RANGE, {"r:"}},
        {"\"r\": 16, ", "", PLIM_E_FORMAT, {"r"}},
        {"32", "0", PLIM_E_RANGE, {"lora_alpha"}},
        {"32", "\"32\"", PLIM_E_FORMAT, {"lora_alpha"}},
        {"[\"q_proj\", ", "[\"lm_head\", ", PLIM_E_UNSUPPORTED, {"target_modules[0]", "lm_head", "o_proj"}},
        {"in_proj_qkv", "embed_tokens", PLIM_E_UNSUPPORTED, {"target_modules[1]", "embed_tokens"}},
        {"[\"q_proj\", \"in_proj_qkv\"]", "[]", PLIM_E_FORMAT, {"target_modules"}},
        {"[\"q_proj\", \"in_proj_qkv\"]", "[1]", PLIM_E_FORMAT, {"target_modules"}},
        {"[\"q_proj\", \"in_proj_qkv\"]", "null", PLIM_E_FORMAT, {"target_modules"}},
        {task, "\"lora_dropout\": 1", PLIM_E_RANGE, {"lora_dropout"}},
        {task, "\"use_rslora\": 1", PLIM_E_FORMAT, {"use_rslora"}},
        {task, "\"modules_to_save\": [\"lm_head\"]", PLIM_E_UNSUPPORTED, {"modules_to_save"}},
        {task, "\"use_dora\": true", PLIM_E_UNSUPPORTED, {"use_dora"}},
        {task, "\"rank_pattern\": {\"q_proj\": 8}", PLIM_E_UNSUPPORTED, {"rank_pattern"}},
        {task, "\"alpha_pattern\": {\"q_proj\": 8}", PLIM_E_UNSUPPORTED, {"alpha_pattern"}},
        {task, "\"layers_to_transform\": [1]", PLIM_E_UNSUPPORTED, {"layers_to_transform"}},
        {task, "\"layers_to_transform\": 0", PLIM_E_UNSUPPORTED, {"layers_to_transform"}},
        {task, "\"layer_replication\": [[0, 1]]", PLIM_E_UNSUPPORTED, {"layer_replication"}},
        {task, "\"lora_bias\": true", PLIM_E_UNSUPPORTED, {"lora_bias"}},
        {task, "\"exclude_modules\": \"k_proj\"", PLIM_E_UNSUPPORTED, {"exclude_modules"}},
        {task, "\"trainable_token_indices\": [5]", PLIM_E_UNSUPPORTED, {"trainable_token_indices"}},
        {task, "\"target_parameters\": [\"x\"]", PLIM_E_UNSUPPORTED, {"target_parameters"}},
        {task, "\"fan_in_fan_out\": true", PLIM_E_UNSUPPORTED, {"fan_in_fan_out"}},
        {task, "\"init_lora_weights\": \"pissa\"", PLIM_E_UNSUPPORTED, {"init_lora_weights", "pissa"}},
        {task, "\"init_lora_weights\": 3", PLIM_E_FORMAT, {"init_lora_weights"}},
        {task, "\"a_thing_of_tomorrow\": 1", PLIM_E_UNSUPPORTED, {"a_thing_of_tomorrow"}},
        {task, "\"r\": 16", PLIM_E_FORMAT, {"r"}}, /* twice */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_adapter_config out;
        char *text = config_edit(plain, cases[i].from, cases[i].to), what[160];
        const char *const words[] = {"adapter_config.json:1:", cases[i].words[0],
                                     cases[i].words[1] ? cases[i].words[1] : "",
                                     cases[i].words[1] && cases[i].words[2] ? cases[i].words[2] : "", NULL};
        memset(&out, 0x5A, sizeof out);
        snprintf(what, sizeof what, "case %zu: %.90s", i, cases[i].to);
        test_check_fails(c, cases[i].status, parse(c, text, &out), what, words);
        for (size_t b = 0; b < sizeof out; b++) assert_int_equal(((unsigned char *)&out)[b], 0x5A);
        free(text);
    }
    plim_adapter_config out;
    CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, "[]", &out), "object");
    CHECK_FAILS(c, PLIM_E_FORMAT, parse(c, "", &out), "adapter_config.json");
    CHECK_FAILS(c, PLIM_E_IO, plim_adapter_config_load(c, "no/such.json", &out), "no/such.json");
    test_ctx_close(c);
}

TEST(a_base_name_too_long_is_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_adapter_config out;
    char name[700] = "\"base_model_name_or_path\": \"";
    size_t n = strlen(name);
    memset(name + n, 'x', 512);
    strcpy(name + n + 512, "\"");
    char *text = config_edit(plain, "\"bias\": \"none\"", name);
    CHECK_FAILS(c, PLIM_E_RANGE, parse(c, text, &out), "base_model_name_or_path");
    free(text);
    test_ctx_close(c);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

TEST(what_is_written_is_read_back)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("adapter-config"), "adapter_config.json");
    static const plim_adapter_config cases[] = {
        {.rank = 1, .alpha = 1, .targets = PLIM_TARGET_BIT(PLIM_TARGET_IN_A)},
        {.rank = 1024, .alpha = 0.1, .dropout = 0.05, .rslora = true, .targets = PLIM_TARGETS_DEFAULT},
        {.rank = 16,
         .alpha = 1.0 / 3,
         .dropout = 1.0 / 7,
         .targets = (1u << PLIM_TARGET_COUNT) - 1,
         .base_model = "a \"name\"\\ with \x01 and \xc3\xbc/\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_adapter_config g;
        CHECK_OK(c, plim_adapter_config_write(c, path, &cases[i]));
        CHECK_OK(c, plim_adapter_config_load(c, path, &g));
        assert_memory_equal(&g, &cases[i], sizeof g);
    }
    plim_adapter_config bad = cases[0];
    strcpy(bad.base_model, "\xff");
    CHECK_FAILS(c, PLIM_E_FORMAT, plim_adapter_config_write(c, path, &bad), "UTF-8");
    test_ctx_close(c);
}

TEST(the_written_file_has_the_members_peft_reads)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("adapter-members"), "adapter_config.json");
    plim_adapter_config g = {
        .rank = 8, .alpha = 16, .dropout = 0.05, .targets = PLIM_TARGET_BIT(PLIM_TARGET_UP)};
    CHECK_OK(c, plim_adapter_config_write(c, path, &g));
    char *text = test_read(path, NULL);
    static const char *const members[] = {"\"peft_type\": \"LORA\"",
                                          "\"task_type\": \"CAUSAL_LM\"",
                                          "\"r\": 8",
                                          "\"lora_alpha\": 16",
                                          "\"lora_dropout\": 0.05",
                                          "\"bias\": \"none\"",
                                          "\"up_proj\"",
                                          "\"use_rslora\": false",
                                          "\"base_model_name_or_path\": null"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strstr(text, members[i])) fail_msg("no %s in %s", members[i], text);
    free(text);
    test_ctx_close(c);
}

static plim_status parse_once(plim_ctx *c, void *user)
{
    plim_adapter_config g;
    return parse(c, user, &g);
}

static plim_status write_once(plim_ctx *c, void *user)
{
    plim_adapter_config g = {.rank = 8, .alpha = 16, .targets = PLIM_TARGETS_DEFAULT};
    return plim_adapter_config_write(c, user, &g);
}

TEST(no_memory_is_an_ordinary_error)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    const char *path = test_path(test_folder("adapter-config-oom"), "adapter_config.json");
    assert_true(test_every_allocation(c, parse_once, (void *)(uintptr_t)plain) > 5);
    assert_true(test_every_allocation(c, write_once, (void *)(uintptr_t)path) >= 1);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(pefts_own_files_are_read),
        cmocka_unit_test(the_scale_is_alpha_over_r_or_over_its_root),
        cmocka_unit_test(what_may_be_absent_or_of_another_kind),
        cmocka_unit_test(everything_else_is_refused_by_name),
        cmocka_unit_test(a_base_name_too_long_is_refused),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(the_written_file_has_the_members_peft_reads),
        cmocka_unit_test(no_memory_is_an_ordinary_error),
    };
    return RUN_TESTS(table);
}
