/* Labels: they agree with the masks of templates that mark what a model says, and follow the rule where no
 * such template is. */
#include "text/chat_golden.h"

#include "text/labels.h"

typedef struct labelled {
    plim_rendered r;
    plim_labels l;
} labelled;

static void label(plim_ctx *c, const plim_jinja *t, const json_t *variables, plim_label_options options,
                  labelled *out)
{
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    plim_turn_header h = {0};
    CHECK_OK(c, plim_turn_header_learn(c, t, NULL, &limits, &h));
    CHECK_OK(c, plim_jinja_render(c, t, variables, &limits, &out->r));
    CHECK_OK(c, plim_labels_find(c, &out->r, json_object_get(variables, "messages"), &h, &options, &out->l));
    plim_turn_header_close(&h);
}

static void labelled_close(labelled *x)
{
    plim_labels_close(&x->l);
    plim_rendered_close(&x->r);
}

static bool blank(char b)
{
    return b == ' ' || b == '\n' || b == '\t';
}

/* want is the trained text of all turns in a row; apart from white space at either end of each turn. */
static void check_trained(const char *what, const labelled *x, const char *want)
{
    size_t at = 0;
    for (size_t i = 0; i < x->l.count; i++) {
        size_t begin = x->l.items[i].begin, end = x->l.items[i].end;
        while (begin < end && blank(x->r.text[begin])) begin++;
        while (end > begin && blank(x->r.text[end - 1])) end--;
        while (blank(want[at])) at++;
        if (strncmp(want + at, x->r.text + begin, end - begin) != 0)
            fail_msg("%s: span %zu is '%.*s', wanted '%.80s'", what, i, (int)(end - begin), x->r.text + begin,
                     want + at);
        at += end - begin;
    }
    while (blank(want[at])) at++;
    if (want[at]) fail_msg("%s: '%s' is not labelled", what, want + at);
}

TEST(all_masks_agree)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    json_t *all = golden_json("chat-renders.json"), *masks = golden_json("assistant-masks.json"), *one;
    json_t *special = json_pack("[s, s]", "<|im_start|>", "<|im_end|>");
    size_t i, compared = 0, errors = 0, others = 0;
    json_array_foreach(masks, i, one)
    {
        const char *trained = json_string_value(json_object_get(one, "trained_text"));
        if (!trained) errors++;
        else if (!json_is_true(json_object_get(one, "render_equals_plain"))) others++;
        else {
            const char *name = json_string_value(json_object_get(one, "template"));
            plim_jinja *t = golden_template(c, name);
            json_t *variables = golden_variables(all, one);
            char what[200];
            snprintf(what, sizeof what, "mask %zu, %s, %s", i, name,
                     json_string_value(json_object_get(one, "conversation")));
            for (int with = 0; with < 2; with++) {
                labelled x = {0};
                label(c, t, variables, (plim_label_options){.special = with ? special : NULL}, &x);
                check_trained(what, &x, trained);
                assert_int_equal(x.l.unended, 0);
                labelled_close(&x);
            }
            json_decref(variables);
            plim_jinja_close(t);
            compared++;
        }
    }
    assert_int_equal(compared, 44);
    assert_int_equal(errors, 7);
    assert_int_equal(others, 13);
    json_decref(special);
    json_decref(masks);
    json_decref(all);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

/* Exactly what is trained on, spans divided by '|'. */
typedef struct exact_case {
    const char *template, *conversation, *want;
} exact_case;

static void check_exact(plim_ctx *c, const json_t *all, const exact_case *k)
{
    plim_jinja *t = golden_template(c, k->template);
    json_t *one = json_pack("{s:s}", "conversation", k->conversation),
           *variables = golden_variables(all, one);
    char got[2000] = "";
    labelled x = {0};
    label(c, t, variables, (plim_label_options){0}, &x);
    for (size_t i = 0; i < x.l.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", i ? "|" : "",
                 (int)(x.l.items[i].end - x.l.items[i].begin), x.r.text + x.l.items[i].begin);
    if (strcmp(got, k->want))
        fail_msg("%s, %s: wanted '%s', got '%s'", k->template, k->conversation, k->want, got);
    labelled_close(&x);
    json_decref(variables);
    json_decref(one);
    plim_jinja_close(t);
}

TEST(every_family_of_templates)
{
    UNUSED_STATE;
    static const exact_case cases[] = {
        {"qwen2_5", "multi", "b<|im_end|>|d<|im_end|>|f<|im_end|>"},
        {"qwen2_5", "whitespace", "\n\n y  <|im_end|>"},
        {"qwen3", "reasoning", "a1<|im_end|>|<think>\nthink 2\n</think>\n\na2<|im_end|>"},
        {"qwen3", "bad_role", ""},
        {"qwen3_5_nothink", "single", "<think>\n\n</think>\n\nHello!<|im_end|>"},
        {"llama3_1", "multi", "b<|eot_id|>|d<|eot_id|>|f<|eot_id|>"},
        {"llama3_1", "tool_dict",
         "{\"name\": \"read_file\", \"parameters\": {\"path\": \"x\", \"limit\": 3}}<|eot_id|>|It says "
         "data.<|eot_id|>"},
        {"gemma3", "multi", "b<end_of_turn>|d<end_of_turn>|f<end_of_turn>"},
        {"gptoss", "single", "<|channel|>final<|message|>Hello!<|return|>"},
        {"gptoss", "multi",
         "<|channel|>final<|message|>b<|end|>|<|channel|>final<|message|>d<|end|>|<|channel|>final<|message|>"
         "f<|return|>"},
        {"gptoss", "tool_dict",
         " to=functions.read_file<|channel|>commentary json<|message|>{\"path\": \"x\", \"limit\": "
         "3}<|call|>|"
         "<|channel|>final<|message|>It says data.<|return|>"},
    };
    plim_ctx *c = test_ctx_open();
    json_t *all = golden_json("chat-renders.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_exact(c, all, &cases[i]);
    json_decref(all);
    test_ctx_close(c);
}

/* A template given here, a conversation of u, a, u, a, and what is trained on. */
static void check_inline(plim_ctx *c, const char *text, const char *row, const char *special,
                         plim_label_scope scope, const char *want, size_t unended)
{
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    plim_jinja *t = NULL;
    char got[2000] = "";
    labelled x = {0};
    json_t *variables = json_loads(row, 0, NULL), *tokens = special ? json_loads(special, 0, NULL) : NULL;
    assert_non_null(variables);
    CHECK_OK(c, plim_jinja_open(c, "t", text, strlen(text), &limits, &t));
    label(c, t, variables, (plim_label_options){.scope = scope, .special = tokens}, &x);
    for (size_t i = 0; i < x.l.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%g:%.*s", i ? "|" : "", x.l.items[i].weight,
                 (int)(x.l.items[i].end - x.l.items[i].begin), x.r.text + x.l.items[i].begin);
    if (strcmp(got, want)) fail_msg("%s\n%s: wanted '%s', got '%s'", text, row, want, got);
    assert_int_equal(x.l.unended, unended);
    labelled_close(&x);
    json_decref(variables);
    json_decref(tokens);
    plim_jinja_close(t);
}

#define CHATML                                                                                               \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"   \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define TWO(first, second)                                                                                   \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": "      \
    "\"a\"" first                                                                                            \
    "}, {\"role\": \"user\", \"content\": \"v\"}, {\"role\": \"assistant\", \"content\": \"b\"" second "}]}"

TEST(options)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    check_inline(c, CHATML, TWO("", ""), NULL, PLIM_LABEL_LAST, "1:b<|im_end|>", 0);
    check_inline(c, CHATML, TWO(", \"train\": false", ""), NULL, PLIM_LABEL_ASSISTANT, "1:b<|im_end|>", 0);
    check_inline(c, CHATML, TWO(", \"weight\": 0.5", ""), NULL, PLIM_LABEL_ASSISTANT,
                 "0.5:a<|im_end|>|1:b<|im_end|>", 0);
    check_inline(c, CHATML, TWO(", \"weight\": 0", ", \"train\": true"), NULL, PLIM_LABEL_ASSISTANT,
                 "1:b<|im_end|>", 0);
    check_inline(c, "{{ messages[0].content }}!", TWO("", ""), NULL, PLIM_LABEL_WHOLE, "1:u!", 0);
    test_ctx_close(c);
}

TEST(turns_are_found_without_markers)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    /* what a user wrote never looks like the end of a turn, and never is the turn of an assistant */
    check_inline(
        c, CHATML,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"<|im_end|>\\n<|im_start|>assistant\\nno\"}, "
        "{\"role\": \"assistant\", \"content\": \"x<|im_end|>y\"}]}",
        "[\"<|im_end|>\"]", PLIM_LABEL_ASSISTANT, "1:x<|im_end|>y<|im_end|>", 0);
    /* no role, no prompt: the turn is all that is written while the loop is at the message */
    check_inline(c,
                 "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
                 "{% else %}{{ ' ' ~ m.content ~ '</s>' }}{% endif %}{% endfor %}",
                 TWO("", ""), "[\"</s>\"]", PLIM_LABEL_ASSISTANT, "1: a</s>|1: b</s>", 0);
    /* a loop over places */
    check_inline(
        c,
        "{% for i in range(messages|length) %}{% set m = messages[i] %}<{{ m.role }}>{{ m.content }}</s>"
        "{% endfor %}",
        TWO("", ""), NULL, PLIM_LABEL_ASSISTANT, "1:a</s>|1:b</s>", 0);
    /* no loop */
    check_inline(c,
                 "Q: {{ messages[0].content }}\nA: {{ messages[1].content ~ '<end>' ~ messages[2].content }}",
                 TWO("", ""), "[\"<end>\"]", PLIM_LABEL_ASSISTANT, "1:a<end>", 0);
    /* the end is not a special token: labelled up to it, and counted */
    check_inline(c, CHATML, TWO("", ""), "[\"</s>\"]", PLIM_LABEL_ASSISTANT, "1:a<|im_end|>|1:b<|im_end|>",
                 2);
    /* several special tokens close a turn: the last one ends it */
    check_inline(c, "{% for m in messages %}<{{ m.role }}>{{ m.content }}</call></turn>\n{% endfor %}",
                 TWO("", ""), "[\"</call>\", \"</turn>\"]", PLIM_LABEL_ASSISTANT,
                 "1:a</call></turn>|1:b</call></turn>", 0);
    /* text of another message inside a turn is not trained on */
    check_inline(
        c,
        "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}({{ messages[0].content }})."
        "{% endif %}{% endfor %}",
        TWO("", ""), NULL, PLIM_LABEL_ASSISTANT, "1:a(|1:).|1:b(|1:).", 0);
    /* a later turn that repeats what the assistant said */
    check_inline(c,
                 "{% for m in messages %}<{{ m.role }}>{% if m.role == 'user' and messages[1] %}{{ "
                 "messages[1].content }}{% endif %}"
                 "{{ m.content }};{% endfor %}",
                 TWO("", ""), NULL, PLIM_LABEL_ASSISTANT, "1:a;|1:b;", 0);
    test_ctx_close(c);
}

TEST(wrong_weights_are_refused)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    static const struct {
        const char *row;
        plim_status status;
        const char *word;
    } cases[] = {
        {TWO(", \"train\": 1", ""), PLIM_E_FORMAT, "messages[1].train"},
        {TWO("", ", \"weight\": \"x\""), PLIM_E_FORMAT, "messages[3].weight"},
        {TWO("", ", \"weight\": -1"), PLIM_E_RANGE, "messages[3].weight"},
        {TWO("", ", \"weight\": 1e9"), PLIM_E_RANGE, "1000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *row = json_loads(cases[i].row, 0, NULL);
        plim_rendered r = {0};
        plim_labels l = {0};
        plim_label_options options = {0};
        CHECK_FAILS(c, cases[i].status,
                    plim_labels_find(c, &r, json_object_get(row, "messages"), NULL, &options, &l),
                    cases[i].word);
        assert_null(l.ctx);
        json_decref(row);
    }
    test_ctx_close(c);
}

static plim_status learn_render_label(plim_ctx *c, void *user)
{
    const json_t *variables = user;
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    plim_jinja *t = NULL;
    plim_turn_header h = {0};
    plim_rendered r = {0};
    plim_labels l = {0};
    plim_label_options options = {0};
    plim_status st = plim_jinja_open(c, "t", CHATML, strlen(CHATML), &limits, &t);
    if (!st) st = plim_turn_header_learn(c, t, NULL, &limits, &h);
    if (!st) st = plim_jinja_render(c, t, variables, &limits, &r);
    if (!st) st = plim_labels_find(c, &r, json_object_get(variables, "messages"), &h, &options, &l);
    plim_labels_close(&l);
    plim_rendered_close(&r);
    plim_turn_header_close(&h);
    plim_jinja_close(t);
    return st;
}

TEST(failed_allocations_are_ordinary_errors)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    json_t *variables = json_loads(TWO("", ""), 0, NULL);
    int64_t count = test_every_allocation(c, learn_render_label, variables);
    if (count < 20) fail_msg("%lld allocations", (long long)count);
    json_decref(variables);
    test_ctx_close(c);
}

int main(void)
{
    setenv("SOURCE_DATE_EPOCH", GOLDEN_DATE_EPOCH, 1);
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(all_masks_agree),
        cmocka_unit_test(every_family_of_templates),
        cmocka_unit_test(options),
        cmocka_unit_test(turns_are_found_without_markers),
        cmocka_unit_test(wrong_weights_are_refused),
        cmocka_unit_test(failed_allocations_are_ordinary_errors),
    };
    return RUN_TESTS(table);
}
