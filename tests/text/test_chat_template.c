/* Chat templates with their files: what a tokenizer_config.json gives, rows made plain, failed
 * allocations. */
#include "support/test.h"

#include <stdlib.h>

#include "text/chat_template.h"

#define FOLDER "test-tmp/chat-template"
#define CONFIG FOLDER "/tokenizer_config.json"

static void write_text(const char *path, const char *text)
{
    test_write(path, text, strlen(text));
}

static void check_json(const json_t *got, const char *want)
{
    json_t *wanted = json_loads(want, 0, NULL);
    assert_non_null(wanted);
    if (!json_equal(got, wanted)) fail_msg("it is not %s", want);
    json_decref(wanted);
}

static const char config[] =
    "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": \"</s>\", \"pad_token\": "
    "null, "
    "\"additional_special_tokens\": [\"<x>\", \"</s>\"], \"added_tokens_decoder\": {\"5\": {\"content\": "
    "\"<turn>\", "
    "\"special\": true}, \"6\": {\"content\": \"<think>\", \"special\": false}}, \"chat_template\": "
    "\"{{ bos_token }}{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ eos_token }}{% endfor %}"
    "{% if tools is none and documents is none and not add_generation_prompt %}.{% endif %}\"}";

TEST(a_config_gives_template_and_tokens)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_chat_template t = {0};
    plim_rendered r = {0};
    test_folder("chat-template");
    write_text(CONFIG, config);
    CHECK_OK(c, plim_chat_template_load(c, CONFIG, &t));
    check_json(t.special, "[\"<s>\", \"</s>\", \"<turn>\", \"<x>\"]");
    check_json(t.variables, "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    assert_string_equal(t.header.behind, ":");
    json_t *row = json_loads("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}", 0, NULL);
    CHECK_OK(c, plim_chat_render(c, &t, row, &r));
    assert_string_equal(r.text, "<s>user:hi</s>.");
    plim_rendered_close(&r);
    json_object_set_new(row, "bos_token", json_string("")); /* a row may say otherwise */
    json_object_set_new(row, "tools", json_array());
    CHECK_OK(c, plim_chat_render(c, &t, row, &r));
    assert_string_equal(r.text, "user:hi</s>");
    plim_rendered_close(&r);
    json_decref(row);
    plim_chat_template_close(&t);
    test_ctx_close(c);
}

static void check_normalised(plim_ctx *c, const char *row, const char *want)
{
    json_t *j = json_loads(row, 0, NULL);
    assert_non_null(j);
    CHECK_OK(c, plim_chat_row_normalise(c, j));
    check_json(j, want);
    json_decref(j);
}

TEST(rows_are_made_plain)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    check_normalised(
        c, "{\"messages\": [{\"content\": null, \"tool_calls\": null, \"role\": \"user\", \"name\": null}]}",
        "{\"messages\": [{\"role\": \"user\"}]}");
    check_normalised(
        c,
        "{\"messages\": [{\"tool_calls\": [{\"function\": {\"arguments\": \"{\\\"a\\\": null}\"}}, "
        "{\"arguments\": \"\"}, {\"function\": {\"arguments\": {\"b\": null}}}]}]}",
        "{\"messages\": [{\"tool_calls\": [{\"function\": {\"arguments\": {\"a\": null}}}, "
        "{\"arguments\": {}}, {\"function\": {\"arguments\": {\"b\": null}}}]}]}");
    check_normalised(c, "{\"messages\": [1, []], \"x\": null}", "{\"messages\": [1, []], \"x\": null}");
    static const char *const bad[] = {"[1]", "{", "{\\\"a\\\": 1, \\\"a\\\": 2}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char row[200];
        snprintf(row, sizeof row, "{\"messages\": [{}, {\"tool_calls\": [{\"arguments\": \"%s\"}]}]}",
                 bad[i]);
        json_t *j = json_loads(row, 0, NULL);
        CHECK_FAILS(c, PLIM_E_FORMAT, plim_chat_row_normalise(c, j),
                    "messages[1].tool_calls[0].arguments:1:");
        json_decref(j);
    }
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

static plim_status load_and_render(plim_ctx *c, void *user)
{
    plim_chat_template t = {0};
    plim_rendered r = {0};
    (void)user;
    json_t *row = json_pack("{s:[{s:s, s:s, s:[{s:s}]}]}", "messages", "role", "user", "content", "hi",
                            "tool_calls", "arguments", "{\"k\": [1, \"x\"]}");
    if (!row) return PLIM_E_OOM_HOST;
    plim_status st = plim_chat_template_load(c, CONFIG, &t);
    if (!st) st = plim_chat_row_normalise(c, row);
    if (!st) st = plim_chat_render(c, &t, row, &r);
    plim_rendered_close(&r);
    plim_chat_template_close(&t);
    json_decref(row);
    return st;
}

TEST(failed_allocations_are_ordinary_errors)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    test_folder("chat-template");
    write_text(CONFIG, config);
    int64_t count = test_every_allocation(c, load_and_render, NULL);
    if (count < 50) fail_msg("%lld allocations", (long long)count);
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(a_config_gives_template_and_tokens),
        cmocka_unit_test(rows_are_made_plain),
        cmocka_unit_test(failed_allocations_are_ordinary_errors),
    };
    return RUN_TESTS(table);
}
