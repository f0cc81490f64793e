/* Rows to tokens: kinds of rows, which tokens are trained on, how mistakes are told. */
#include "support/test.h"

#include <stdlib.h>

#include "chat_folder.h"
#include "chat_golden.h"
#include "data/chat.h"

typedef struct bench {
    plim_ctx *c;
    plim_chat_model model;
    plim_chat_options options;
} bench;

static void open_bench(bench *b, const char *chat_template)
{
    *b = (bench){.c = test_ctx_open()};
    const char *folder = chat_folder("chat_samples", chat_template);
    CHECK_OK(b->c, plim_chat_model_open(b->c, folder, NULL, NULL, &b->model));
}

static void close_bench(bench *b)
{
    plim_chat_model_close(&b->model);
    assert_int_equal(test_live_allocations(), 1); /* the context */
    test_ctx_close(b->c);
}

/* A row's tokens as text, those trained on in brackets, special tokens as E, < and >; weights other than 1
 * behind the token they begin at. */
static plim_status show_row(const bench *b, const char *row, char *out, size_t bytes, plim_chat_sample *s)
{
    plim_json j = {0};
    plim_row_content content = {0};
    plim_chat_coder *coder = NULL;
    float now = 0;
    size_t n = 0;
    out[0] = 0;
    plim_status st = plim_json_parse(b->c, "row", row, strlen(row), PLIM_JSON_CAP_BYTES, &j);
    if (!st) st = plim_row_read(b->c, &j, &content);
    if (!st) st = plim_chat_coder_open(b->c, &b->model, &b->options, &coder);
    if (!st) st = plim_chat_encode(coder, &content, s);
    for (size_t i = 0; !st && i < s->count && n + 40 < bytes; i++) {
        static const char *const named[] = {"it", "go", ":a", "E", "<", ">"};
        int32_t id = s->tokens[i];
        if (s->weights[i] != now) {
            if (now > 0) out[n++] = ']';
            if (s->weights[i] > 0) out[n++] = '[';
            now = s->weights[i];
            if (now > 0 && now != 1) n += (size_t)sprintf(out + n, "%g:", now);
        }
        if (id >= CHAT_IT) n += (size_t)sprintf(out + n, "%s", named[id - CHAT_IT]);
        else out[n++] = id == '\n' ? '/' : (char)id;
    }
    if (!st && now > 0) out[n++] = ']';
    out[n] = 0;
    plim_chat_coder_close(coder);
    plim_row_content_close(&content);
    plim_json_close(&j);
    return st;
}

static void expect(const bench *b, const char *row, const char *want)
{
    char got[2000];
    plim_chat_sample s = {0};
    CHECK_OK(b->c, show_row(b, row, got, sizeof got, &s));
    if (strcmp(got, want) != 0) fail_msg("%s\n gives %s\nwanted %s", row, got, want);
    assert_int_equal(s.labelled, plim_chat_labelled(&s, s.count));
    plim_chat_sample_close(&s);
}

static void refuse(const bench *b, plim_status st, const char *row, const char *word, const char *other)
{
    char got[2000];
    plim_chat_sample s = {0};
    CHECK_FAILS(b->c, st, show_row(b, row, got, sizeof got, &s), word, other);
    plim_chat_sample_close(&s);
}

#define U "{\"role\": \"user\", \"content\": \"hi\"}"
#define A "{\"role\": \"assistant\", \"content\": \"yo\"}"

TEST(conversations)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, CHAT_TEMPLATE);
    expect(&b, "{\"messages\": [" U ", " A "]}", "<user/hi>/<assistant/[yo>]/");
    /* the end of a turn is trained on, the line end behind it is not; earlier turns are as well */
    expect(&b, "{\"messages\": [" U ", " A ", " U ", " A "]}",
           "<user/hi>/<assistant/[yo>]/<user/hi>/<assistant/[yo>]/");
    b.options.scope = PLIM_LABEL_LAST;
    expect(&b, "{\"messages\": [" U ", " A ", " U ", " A "]}",
           "<user/hi>/<assistant/yo>/<user/hi>/<assistant/[yo>]/");
    b.options.scope = PLIM_LABEL_WHOLE; /* but the first token */
    expect(&b, "{\"messages\": [" U ", " A "]}", "<[user/hi>/<assistant/yo>/]");
    b.options.scope = PLIM_LABEL_ASSISTANT;
    /* switches of messages, and the row's weight */
    expect(&b,
           "{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": \"a\", \"train\": false}, " U
           ", {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0.5}], \"weight\": 3}",
           "<user/hi>/<assistant/a>/<user/hi>/<assistant/[1.5:b>]/");
    /* reasoning and calls belong to the turn; tools come in front */
    expect(&b,
           "{\"messages\": [" U
           ", {\"role\": \"assistant\", \"reasoning_content\": \"hm\", \"content\": \"b\"}], "
           "\"tools\": [{\"n\": 1}]}",
           "<system/{\"n\": 1}>/<user/hi>/<assistant/[<think>hm</think>b>]/");
    expect(&b,
           "{\"messages\": [" U ", " A
           "], \"tools\": \"[{\\\"n\\\": 1}]\", \"id\": 7, \"chat_template_kwargs\": {}}",
           "<system/{\"n\": 1}>/<user/hi>/<assistant/[yo>]/");
    /* no user at all */
    expect(&b, "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, " A "]}",
           "<system/s>/<assistant/[yo>]/");
    /* lists of parts are joined */
    expect(&b,
           "{\"messages\": [" U
           ", {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
           "{\"type\": \"text\", \"text\": \"b\"}, \"c\"]}]}",
           "<user/hi>/<assistant/[abc>]/");
    close_bench(&b);
}

/* Content null or absent, arguments as a string: the call stays in the turn. */
TEST(tool_calls)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, CHAT_TEMPLATE);
    static const char *const contents[] = {"\"content\": null, ", "\"content\": \"\", ", ""};
    static const char *const arguments[] = {"{\"x\": 1}", "\"{\\\"x\\\": 1}\""};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            char row[600];
            snprintf(row, sizeof row,
                     "{\"messages\": [" U
                     ", {\"role\": \"assistant\", %s\"tool_calls\": [{\"type\": \"function\", "
                     "\"function\": {\"name\": \"f\", \"arguments\": %s}}]}, {\"role\": \"tool\", "
                     "\"content\": \"7\"}, " A "]}",
                     contents[i], arguments[k]);
            expect(&b, row, "<user/hi>/<assistant/[f(x=1)>]/<tool/7>/<assistant/[yo>]/");
        }
    }
    close_bench(&b);
}

/* A token that lies on both sides of a border is trained on. */
TEST(tokens_across_a_border)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, "{% for m in messages %}{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}");
    expect(&b, "{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": \"abc\"}]}",
           "user:hi>assistant[:abc>]");
    expect(&b, "{\"prompt\": \"g\", \"completion\": \"o on\"}", "go[ onE]"); /* the first token is never */
    expect(&b, "{\"prompt\": \"xg\", \"completion\": \"o on\"}", "x[go onE]");
    close_bench(&b);
}

TEST(prompts_texts_and_sharegpt)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, CHAT_TEMPLATE);
    expect(&b, "{\"prompt\": \"one \", \"completion\": \"two\"}", "one [twoE]");
    expect(&b, "{\"prompt\": \"one \", \"completion\": \"\"}", "one [E]");
    expect(&b, "{\"prompt\": [" U ", " A "], \"completion\": [" A "]}",
           "<user/hi>/<assistant/yo>/<assistant/[yo>]/");
    expect(&b, "{\"text\": \"abit\"}", "a[bitE]");
    expect(&b, "{\"text\": \"ab<|endoftext|>\", \"weight\": 2}", "a[2:bE]"); /* one end is enough */
    expect(&b, "{\"text\": \"ab\", \"messages\": null, \"prompt\": null}", "a[bE]");
    b.options.no_end = true;
    expect(&b, "{\"text\": \"ab\"}", "a[b]");
    expect(&b, "{\"text\": \"ab<|endoftext|>\"}", "a[bE]"); /* the text's own */
    b.options.no_end = false;
    expect(&b,
           "{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"human\", \"value\": "
           "\"hi\"}, "
           "{\"from\": \"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
           "{\\\"x\\\": 1}}\"}, "
           "{\"from\": \"observation\", \"value\": \"7\"}, {\"from\": \"gpt\", \"value\": \"yo\"}]}",
           "<system/s>/<user/hi>/<assistant/[f(x=1)>]/<tool/7>/<assistant/[yo>]/");
    expect(&b,
           "{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": "
           "\"gpt\", "
           "\"value\": \"a\", \"train\": false}, {\"from\": \"gpt\", \"value\": \"yo\", \"weight\": 2}]}",
           "<system/s>/<user/hi>/<assistant/a>/<assistant/[2:yo>]/");
    close_bench(&b);
}

TEST(mistakes_have_a_place)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, CHAT_TEMPLATE);
    static const struct {
        const char *row, *word, *other;
        plim_status st;
    } cases[] = {
        {"[]", "row:1:1:", "no object", PLIM_E_FORMAT},
        {"null", "row:1:1:", "no object", PLIM_E_FORMAT},
        {"{\"a\": 1}", "row:1:1:", "none of messages", PLIM_E_FORMAT},
        {"{\"messages\": []}", "messages", "no message", PLIM_E_FORMAT},
        {"{\"messages\": 3}", "row:1:14: messages", "list", PLIM_E_FORMAT},
        {"{\"messages\": [3]}", "row:1:15: messages[0]", "object", PLIM_E_FORMAT},
        {"{\"messages\": [{\"content\": \"x\"}]}", "messages[0]", "role", PLIM_E_FORMAT},
        {"{\"messages\": [{\"role\": 1}]}", "messages[0].role", "string", PLIM_E_FORMAT},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", "messages[0]", "content", PLIM_E_FORMAT},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "messages[0].content[0]", "type \"image\"", PLIM_E_UNSUPPORTED},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
         "messages[0].content[0]", "string", PLIM_E_FORMAT},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"content\": \"b\"}]}",
         "row:1:", "content", PLIM_E_FORMAT},
        {"{\"messages\": [" U ", {\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
         "\"arguments\": \"{\"}}]}]}",
         "messages[1].tool_calls[0].arguments", "JSON", PLIM_E_FORMAT},
        {"{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": \"a\", \"train\": 3}]}",
         "messages[1]", "train", PLIM_E_FORMAT},
        {"{\"messages\": [{\"role\": \"bad\", \"content\": \"a\"}]}", "chat_template.jinja:1",
         "no such role: bad", PLIM_E_FORMAT},
        {"{\"messages\": [" U "]}", "nothing in the row is trained on", "no message is the assistant's",
         PLIM_E_FORMAT},
        {"{\"messages\": [" U ", {\"role\": \"assistant\", \"content\": \"a\", \"train\": false}]}",
         "nothing in the row is trained on", "train, weight", PLIM_E_FORMAT},
        {"{\"messages\": [" A "], \"tools\": \"[\"}", "tools:1:2", "JSON", PLIM_E_FORMAT},
        {"{\"messages\": [" A "], \"tools\": {}}", "row:1:", "tools is no list", PLIM_E_FORMAT},
        {"{\"messages\": [" A "], \"chat_template_kwargs\": {\"messages\": []}}", "chat_template_kwargs",
         "not for a row", PLIM_E_FORMAT},
        {"{\"messages\": [" A "], \"class\": 3}", "class", "string", PLIM_E_FORMAT},
        {"{\"messages\": [" A "], \"weight\": -1}", "weight", "0", PLIM_E_RANGE},
        {"{\"conversations\": [{\"from\": \"bing\", \"value\": \"x\"}]}", "row:1:20: conversations[0]",
         "from \"bing\"", PLIM_E_FORMAT},
        {"{\"conversations\": [{\"from\": \"gpt\"}]}", "conversations[0]", "no value", PLIM_E_FORMAT},
        {"{\"conversations\": [{\"from\": \"function_call\", \"value\": \"3\"}]}", "conversations[0]", "name",
         PLIM_E_FORMAT},
        {"{\"prompt\": \"a\"}", "row:1:1:", "completion", PLIM_E_FORMAT},
        {"{\"prompt\": \"a\", \"completion\": []}", "completion", "two strings", PLIM_E_FORMAT},
        {"{\"prompt\": 3, \"completion\": \"a\"}", "row:1:12: prompt", "two strings", PLIM_E_FORMAT},
        {"{\"text\": 3}", "text", "string", PLIM_E_FORMAT},
        {"{\"text\": \"\"}", "nothing in the row", "one token", PLIM_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(&b, cases[i].st, cases[i].row, cases[i].word, cases[i].other);
    close_bench(&b);
}

/* Conversations in a model's own template: the tokens say the official render byte for byte, with reasoning,
 * tools and empty think blocks where it has them; a trained stretch ends with the token a model stops at. */
static bool check_render(plim_ctx *c, const plim_chat_model *m, const json_t *all, const json_t *one)
{
    const char *want = json_string_value(json_object_get(one, "text"));
    plim_row_content row = {.kind = PLIM_ROW_CHAT, .weight = 1};
    plim_chat_options options = {0};
    plim_chat_coder *k = NULL;
    plim_chat_sample s = {0};
    plim_tokenizer_scratch *scratch = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (!want || json_object_get(one, "add_generation_prompt")) return false;
    row.chat = golden_variables(all, one);
    CHECK_OK(c, plim_chat_coder_open(c, m, &options, &k));
    CHECK_OK(c, plim_tokenizer_scratch_open(c, m->tokenizer, &scratch));
    plim_status st = plim_chat_encode(k, &row, &s);
    if (st) CHECK_FAILS(c, PLIM_E_FORMAT, st, "no message is the assistant's");
    CHECK_OK(c, plim_tokenizer_decode(scratch, s.tokens, s.count, false, &text, &bytes));
    if (bytes != strlen(want) || memcmp(text, want, bytes) != 0)
        fail_msg("got '%s', wanted '%s'", text, want);
    int32_t stop = plim_tokenizer_id(m->tokenizer, "<|im_end|>");
    for (size_t n = 0; n < s.count; n++)
        if (s.weights[n] > 0 && (n + 1 == s.count || s.weights[n + 1] == 0))
            assert_int_equal(s.tokens[n], stop);
    plim_release(c, text);
    plim_tokenizer_scratch_close(scratch);
    plim_chat_sample_close(&s);
    plim_chat_coder_close(k);
    plim_row_content_close(&row);
    return true;
}

TEST(qwen_conversations_are_official_renders)
{
    UNUSED_STATE;
    static const char *const names[] = {"qwen2_5", "qwen3", "qwen3_5_think", "qwen3_6"};
    plim_ctx *c = test_ctx_open();
    json_t *all = golden_json("chat-renders.json"), *one;
    char path[1024];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        plim_chat_model m = {0};
        size_t i, compared = 0;
        snprintf(path, sizeof path, GOLDEN_TEXT "templates/%s.jinja", names[n]);
        CHECK_OK(c, plim_chat_model_open(c, NULL, PLIM_TEST_DATA "/tokenizers/qwen3-reduced.json", path, &m));
        json_array_foreach(json_object_get(all, "renders"), i, one)
        {
            if (!strcmp(json_string_value(json_object_get(one, "template")), names[n]))
                compared += check_render(c, &m, all, one);
        }
        assert_true(compared >= 13);
        plim_chat_model_close(&m);
    }
    json_decref(all);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(special_tokens_in_texts_are_counted)
{
    UNUSED_STATE;
    bench b;
    char got[2000];
    plim_chat_sample s = {0};
    open_bench(&b, CHAT_TEMPLATE);
    CHECK_OK(b.c, show_row(&b,
                           "{\"messages\": [" U
                           ", {\"role\": \"assistant\", \"content\": \"a<|im_end|>b<|im_start|>\"}, "
                           "{\"role\": \"user\", \"content\": \"<|im_end\"}]}",
                           got, sizeof got, &s));
    assert_int_equal(s.typed, 2);
    assert_string_equal(s.first_typed, "messages[1].content: <|im_end|>");
    CHECK_OK(b.c, show_row(&b, "{\"text\": \"ab\"}", got, sizeof got, &s));
    assert_int_equal(s.typed, 0);
    plim_chat_sample_close(&s);
    close_bench(&b);
}

/* A model without a template, or without an end token, says so when a row wants one. */
TEST(what_a_model_lacks)
{
    UNUSED_STATE;
    bench b;
    plim_chat_model m = {0};
    open_bench(&b, NULL);
    refuse(&b, PLIM_E_USAGE, "{\"messages\": [" U ", " A "]}", "wants a chat template", "has none");
    const char *folder = test_path(test_folder("chat_lacks"), ".");
    CHECK_FAILS(b.c, PLIM_E_IO, plim_chat_model_open(b.c, folder, NULL, NULL, &m), "tokenizer.json",
                "No such file");
    CHECK_FAILS(b.c, PLIM_E_IO, plim_chat_model_open(b.c, "none", NULL, NULL, &m), "none", "no folder");
    CHECK_FAILS(b.c, PLIM_E_USAGE, plim_chat_model_open(b.c, NULL, NULL, NULL, &m), "no tokenizer");
    const char *tokenizer = test_path(folder, "t.json");
    chat_write_tokenizer(tokenizer);
    bench bare = {.c = b.c};
    CHECK_OK(b.c, plim_chat_model_open(b.c, NULL, tokenizer, NULL, &bare.model));
    refuse(&bare, PLIM_E_USAGE, "{\"text\": \"ab\"}", "eos_token", "--no-end");
    bare.options.no_end = true;
    expect(&bare, "{\"text\": \"ab\"}", "a[b]");
    plim_chat_model_close(&bare.model);
    test_write(test_path(folder, "tokenizer.json"), "{}", 2);
    CHECK_FAILS(b.c, PLIM_E_FORMAT, plim_chat_model_open(b.c, folder, NULL, NULL, &m), "tokenizer.json");
    test_write(test_path(folder, "tokenizer_config.json"), "{\"eos_token\": \"<none>\"}", 23);
    CHECK_FAILS(b.c, PLIM_E_FORMAT, plim_chat_model_open(b.c, folder, tokenizer, NULL, &m), "<none>",
                "t.json");
    close_bench(&b);
}

TEST(a_hash_is_of_what_is_said)
{
    UNUSED_STATE;
    static const char *const rows[] = {
        "{\"messages\": [" U ", " A "]}",
        "{\"id\": 4, \"class\": \"x\", \"messages\": [{\"content\": \"hi\",   \"role\": \"user\"}, " A
        "], \"weight\": 2}",
        "{\"messages\": [" U ", " A "], \"tools\": [{}]}",
        "{\"messages\": [" U ", " U "]}",
        "{\"prompt\": \"a\", \"completion\": \"b\"}",
        "{\"text\": \"ab\"}",
    };
    plim_ctx *c = test_ctx_open();
    uint64_t hash[6];
    for (int i = 0; i < 6; i++) {
        plim_json j = {0};
        plim_row_content content = {0};
        CHECK_OK(c, plim_json_parse(c, "row", rows[i], strlen(rows[i]), PLIM_JSON_CAP_BYTES, &j));
        CHECK_OK(c, plim_row_read(c, &j, &content));
        CHECK_OK(c, plim_row_hash(c, &content, &hash[i]));
        plim_row_content_close(&content);
        plim_json_close(&j);
    }
    assert_true(hash[0] == hash[1]);
    for (int i = 1; i < 6; i++)
        for (int k = 1; k < i; k++) assert_true(hash[i] != hash[k]);
    test_ctx_close(c);
}

static plim_status open_model(plim_ctx *c, void *folder)
{
    plim_chat_model m = {0};
    plim_status st = plim_chat_model_open(c, folder, NULL, NULL, &m);
    plim_chat_model_close(&m);
    return st;
}

static plim_status encode_rows(plim_ctx *c, void *user)
{
    static const char *const rows[] = {
        "{\"messages\": [" U
        ", {\"role\": \"assistant\", \"content\": [\"a\", \"b\"], \"tool_calls\": [{\"function\": "
        "{\"name\": \"f\", \"arguments\": \"{}\"}}]}], \"tools\": \"[1]\", \"chat_template_kwargs\": {\"a\": "
        "1}}",
        "{\"conversations\": [{\"from\": \"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\"}\"}]}",
        "{\"prompt\": [" U "], \"completion\": [" A "]}",
        "{\"prompt\": \"a\", \"completion\": \"b\"}",
    };
    bench *b = user;
    char got[2000];
    plim_chat_sample s = {0};
    plim_status st = PLIM_OK;
    (void)c;
    for (int i = 0; !st && i < 4; i++) st = show_row(b, rows[i], got, sizeof got, &s);
    plim_chat_sample_close(&s);
    return st;
}

TEST(every_allocation_may_fail)
{
    UNUSED_STATE;
    bench b;
    open_bench(&b, CHAT_TEMPLATE);
    assert_true(test_every_allocation(b.c, encode_rows, &b) > 50);
    plim_chat_model_close(&b.model);
    assert_true(test_every_allocation(b.c, open_model,
                                      (void *)(uintptr_t)chat_folder("chat_memory", "{{ messages }}")) > 50);
    close_bench(&b);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(conversations),
        cmocka_unit_test(tool_calls),
        cmocka_unit_test(tokens_across_a_border),
        cmocka_unit_test(prompts_texts_and_sharegpt),
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(qwen_conversations_are_official_renders),
        cmocka_unit_test(special_tokens_in_texts_are_counted),
        cmocka_unit_test(what_a_model_lacks),
        cmocka_unit_test(a_hash_is_of_what_is_said),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return RUN_TESTS(table);
}
