/* plimsoll render: exact text on standard output, labels, and what it refuses. */
#include "support/test.h"

#include <stdlib.h>

#define TEMPLATES PLIM_TEST_DATA "/text/templates/"
#define FOLDER    "test-tmp/cli-render"

static const char row[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, "
    "{\"role\": \"tool\", \"content\": \"4\"}, {\"role\": \"assistant\", \"content\": \"four\", \"weight\": "
    "0.5}]}";

static int program(char **out, const char *arguments)
{
    return test_command(out, "'%s' render %s", PLIM_PROGRAM, arguments);
}

static void check_says(const char *arguments, int want, const char *words)
{
    char *out;
    int code = program(&out, arguments);
    if (code != want || !strstr(out, words))
        fail_msg("%s: exit %d, wanted %d and '%s': %s", arguments, code, want, words, out);
    free(out);
}

static void check_exactly(const char *arguments, const char *want)
{
    char *out;
    int code = program(&out, arguments);
    if (code || strcmp(out, want)) fail_msg("%s: exit %d, wanted '%s', got '%s'", arguments, code, want, out);
    free(out);
}

static void write_text(const char *path, const char *text)
{
    test_write(path, text, strlen(text));
}

static void files(void)
{
    static const char template[] =
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
        "{{ c.function.arguments | tojson }}{% endfor %}</t>\n{% endfor %}{% if add_generation_prompt "
        "%}<assistant>"
        "{% endif %}";
    static const char config[] = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</t>\", "
                                 "\"chat_template\": [{\"name\": \"x\", "
                                 "\"template\": \"no\"}, {\"name\": \"default\", \"template\": \"{{ "
                                 "bos_token }}{% for m in messages %}"
                                 "<{{ m.role }}>{{ m.content }}</t>;{% endfor %}\"}]}";
    test_folder("cli-render");
    test_write(FOLDER "/row.json", row, sizeof row - 1);
    test_write(FOLDER "/t.jinja", template, sizeof template - 1);
    test_write(FOLDER "/tokenizer_config.json", config, sizeof config - 1);
    write_text(FOLDER "/empty.json", "{}");
    write_text(FOLDER "/bad.jinja", "a\n{{ x | nope }}");
}

TEST(text_is_exact)
{
    UNUSED_STATE;
    files();
    check_exactly("--template " FOLDER "/t.jinja --row " FOLDER "/row.json",
                  "<user>hi</t>\n<assistant>None\"{\\\"a\\\": 1}\"</t>\n<tool>4</t>\n<assistant>four</t>\n");
    check_exactly("--as-data --template " FOLDER "/t.jinja --row " FOLDER "/row.json",
                  "<user>hi</t>\n<assistant>{\"a\": 1}</t>\n<tool>4</t>\n<assistant>four</t>\n");
    check_exactly("--template " FOLDER "/tokenizer_config.json --row " FOLDER "/row.json --as-data",
                  "<s><user>hi</t>;<assistant></t>;<tool>4</t>;<assistant>four</t>;");
    write_text(FOLDER "/chat_template.jinja", "beside {{ eos_token }}");
    write_text(FOLDER "/tokenizer_config.json", "{\"eos_token\": \"</t>\"}");
    check_exactly("--template " FOLDER "/tokenizer_config.json --row " FOLDER "/row.json", "beside </t>");
    check_exactly("--json --template " FOLDER "/tokenizer_config.json --row " FOLDER "/row.json",
                  "{\n \"text\": \"beside </t>\"\n}\n");
}

TEST(labels_are_shown)
{
    UNUSED_STATE;
    files();
    check_exactly("--labels --as-data --template " FOLDER "/t.jinja --row " FOLDER "/row.json",
                  "<user>hi</t>\n<assistant>\xe2\x9f\xa6{\"a\": 1}</t>\xe2\x9f\xa7\n<tool>4</t>\n<assistant>"
                  "\xe2\x9f\xa6"
                  "four</t>\xe2\x9f\xa7\n");
    check_exactly(
        "--labels --turns last --json --as-data --template " FOLDER "/t.jinja --row " FOLDER "/row.json",
        "{\n \"bytes\": 69,\n \"turns\": 1,\n \"unended\": 0,\n \"spans\": [\n  {\n   \"begin\": 60,\n"
        "   \"end\": 68,\n   \"weight\": 0.5,\n   \"message\": 3\n  }\n ]\n}\n");
    check_says("--labels --template " FOLDER "/tokenizer_config.json --row " FOLDER "/row.json", 0,
               "\xe2\x9f\xa6"
               "four</t>\xe2\x9f\xa7;");
    write_text(FOLDER "/tokenizer_config.json",
               "{\"eos_token\": \"<e>\", \"chat_template\": \"{% for m in messages %}{{ m.content }}.{% "
               "endfor %}\"}");
    check_says("--labels --template " FOLDER "/tokenizer_config.json --row " FOLDER "/row.json", 0,
               "2 of 2 turns end without a special token");
    write_text(FOLDER "/row.json", "{\"messages\": []}");
    check_says("--labels --template " FOLDER "/t.jinja --row " FOLDER "/row.json", 0, "nothing in this row");
}

TEST(what_is_wrong_is_told)
{
    UNUSED_STATE;
    files();
    check_says("--template " FOLDER "/bad.jinja --row " FOLDER "/row.json", 1,
               "bad.jinja:2:8: No filter named 'nope'");
    check_says("--template " FOLDER "/t.jinja --row " FOLDER "/empty.json", 1, "no \"messages\"");
    check_says("--template " FOLDER "/empty.json --row " FOLDER "/row.json", 1, "no chat_template");
    check_says("--template " FOLDER "/t.jinja --row " FOLDER "/t.jinja", 1, "not valid JSON");
    check_says("--template " FOLDER "/none.jinja --row " FOLDER "/row.json", 1, "none.jinja");
    check_says("--template '" TEMPLATES "gptoss.jinja' --row " FOLDER "/row.json", 1,
               "argument of type 'NoneType' is not iterable");
    check_says("--template " FOLDER "/t.jinja", 2, "--row FILE");
    check_says("--template " FOLDER "/t.jinja --row x --turns last", 2, "--labels");
    check_says("--template " FOLDER "/t.jinja --row x --labels --turns some", 2, "all, last or whole");
    check_says("--template " FOLDER "/t.jinja --row x y", 2, "one too many");
    check_says("--help", 0, "--as-data");
    static const char bad[] =
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": "
        "\"f\", \"arguments\": \"{oops\"}}]}]}";
    test_write(FOLDER "/row.json", bad, sizeof bad - 1);
    check_says("--as-data --template " FOLDER "/t.jinja --row " FOLDER "/row.json", 1,
               "messages[0].tool_calls[0].arguments:1:2");
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(text_is_exact),
        cmocka_unit_test(labels_are_shown),
        cmocka_unit_test(what_is_wrong_is_told),
    };
    return RUN_TESTS(table);
}
