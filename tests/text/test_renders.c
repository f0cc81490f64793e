/* Chat templates as models ship them: every render byte for byte, every error with the template's own
 * message. */
#include "text/chat_golden.h"

static void check_text(const char *what, const plim_rendered *r, const char *want)
{
    size_t n = strlen(want), at = 0;
    while (at < n && at < r->bytes && r->text[at] == want[at]) at++;
    if (at < n || r->bytes != n)
        fail_msg("%s: byte %zu differs: wanted '%.60s', got '%.60s'", what, at, want + at, r->text + at);
}

/* Runs cover the text without gaps, and what they call a message's content stands in that message. */
static void check_runs(const char *what, const plim_rendered *r, const json_t *messages)
{
    size_t at = 0;
    for (size_t i = 0; i < r->run_count; i++) {
        const plim_text_run *run = &r->runs[i];
        if (run->begin != at || run->end <= at)
            fail_msg("%s: run %zu is %zu .. %zu after %zu", what, i, run->begin, run->end, at);
        at = run->end;
        if (run->origin != PLIM_ORIGIN_CONTENT) continue;
        const char *content =
            json_string_value(json_object_get(json_array_get(messages, (size_t)run->message), "content"));
        if (!content) continue; /* a list of parts, or text that tojson made */
        char *piece = strndup(r->text + run->begin, run->end - run->begin);
        bool quoted = piece[0] == '"';
        if (!quoted && !strstr(content, piece))
            fail_msg("%s: '%s' is not in message %d", what, piece, run->message);
        free(piece);
    }
    assert_int_equal(at, r->bytes);
}

TEST(all_renders_match)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *all = golden_json("chat-renders.json"), *one;
    size_t i, errors = 0, texts = 0;
    plim_jinja *t = NULL;
    char opened[64] = "";
    json_array_foreach(json_object_get(all, "renders"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "template"));
        const char *error = json_string_value(json_object_get(one, "error"));
        json_t *variables = golden_variables(all, one);
        plim_rendered r = {0};
        char what[200];
        snprintf(what, sizeof what, "render %zu, %s, %s", i, name,
                 json_string_value(json_object_get(one, "conversation")));
        if (strcmp(opened, name)) {
            plim_jinja_close(t);
            t = golden_template(c, name);
            snprintf(opened, sizeof opened, "%s", name);
        }
        plim_status st = plim_jinja_render(c, t, variables, &limits, &r);
        if (error) {
            const char *words[] = {strstr(error, ": ") + 2, name, NULL};
            test_check_fails(c, PLIM_E_FORMAT, st, what, words);
            errors++;
        } else {
            if (st) fail_msg("%s: %s", what, plim_ctx_message(c));
            check_text(what, &r, json_string_value(json_object_get(one, "text")));
            check_runs(what, &r, json_object_get(variables, "messages"));
            texts++;
        }
        plim_rendered_close(&r);
        json_decref(variables);
    }
    assert_int_equal(errors, 72);
    assert_int_equal(texts, 440);
    plim_jinja_close(t);
    json_decref(all);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

typedef struct whole {
    const json_t *variables;
    const char *text;
    size_t bytes;
} whole;

static plim_status open_and_render(plim_ctx *c, void *user)
{
    whole *w = user;
    plim_jinja *t = NULL;
    plim_rendered r = {0};
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    plim_status st = plim_jinja_open(c, "t", w->text, w->bytes, &limits, &t);
    if (!st) st = plim_jinja_render(c, t, w->variables, &limits, &r);
    plim_rendered_close(&r);
    plim_jinja_close(t);
    return st;
}

TEST(failed_allocations_are_ordinary_errors)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    json_t *all = golden_json("chat-renders.json");
    json_t *one =
        json_pack("{s:s, s:O}", "conversation", "tool_two_calls", "tools", json_object_get(all, "tools"));
    json_t *variables = golden_variables(all, one);
    whole w = {.variables = variables};
    char *text = test_read(GOLDEN_TEXT "templates/qwen3_6.jinja", &w.bytes);
    w.text = text;
    int64_t count = test_every_allocation(c, open_and_render, &w);
    if (count < 5) fail_msg("%lld allocations in a whole render", (long long)count);
    free(text);
    json_decref(variables);
    json_decref(one);
    json_decref(all);
    test_ctx_close(c);
}

int main(void)
{
    setenv("SOURCE_DATE_EPOCH", GOLDEN_DATE_EPOCH, 1);
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(all_renders_match),
        cmocka_unit_test(failed_allocations_are_ordinary_errors),
    };
    return RUN_TESTS(table);
}
