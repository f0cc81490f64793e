/* The Jinja interpreter: a table of templates with what they give, limits, the sandbox, and where text comes
 * from. */
#include "text/chat_golden.h"

static plim_status render(plim_ctx *c, const char *text, const json_t *variables,
                          const plim_jinja_limits *limits, plim_rendered *out)
{
    plim_jinja *t = NULL;
    plim_status st = plim_jinja_open(c, "t", text, strlen(text), limits, &t);
    if (!st) st = plim_jinja_render(c, t, variables, limits, out);
    plim_jinja_close(t);
    return st;
}

TEST(table_of_templates)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *all = golden_json("jinja-cases.json"), *variables = json_object_get(all, "variables"), *one;
    size_t i, wrong = 0;
    json_array_foreach(json_object_get(all, "cases"), i, one)
    {
        const char *text = json_string_value(json_array_get(one, 0)),
                   *how = json_string_value(json_array_get(one, 1));
        const char *want = json_string_value(json_array_get(one, 2));
        plim_rendered r = {0};
        plim_status st = render(c, text, variables, &limits, &r);
        bool good = !strcmp(how, "text") ? st == PLIM_OK && !strcmp(r.text, want)
                                         : st != PLIM_OK && strstr(plim_ctx_message(c), want);
        if (!good) {
            print_error("%s\n  wanted %s %s\n  got    %s\n", text, how, want,
                        st ? plim_ctx_message(c) : r.text);
            wrong++;
        }
        plim_ctx_clear(c);
        plim_rendered_close(&r);
    }
    assert_int_equal(wrong, 0);
    assert_true(i > 1500);
    json_decref(all);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(what_is_not_known_is_refused_with_its_place)
{
    UNUSED_STATE;
    static const struct {
        const char *text;
        plim_status status;
        const char *words[2];
    } cases[] = {
        {"a\n {{ x | nope }}", PLIM_E_UNSUPPORTED, {"t:2:9", "nope"}},
        {"{{ x is nope }}", PLIM_E_UNSUPPORTED, {"t:1:9", "nope"}},
        {"\n\n{% nope %}", PLIM_E_UNSUPPORTED, {"t:3:4", "nope"}},
        {"{{ nope() }}", PLIM_E_FORMAT, {"t:1:4", "'nope' is undefined"}},
        {"{{ 'x'.encode() }}", PLIM_E_UNSUPPORTED, {"t:1:4", "encode"}},
        {"{{ 'x'.nope() }}", PLIM_E_FORMAT, {"t:1:4", "has no attribute 'nope'"}},
        {"{% include 'x' %}", PLIM_E_UNSUPPORTED, {"t:1:4", "include"}},
        {"{% import 'x' as y %}", PLIM_E_UNSUPPORTED, {"t:1:4", "import"}},
        {"{% for x in y recursive %}{% endfor %}", PLIM_E_UNSUPPORTED, {"t:1:4", "recursive"}},
        {"{% break %}", PLIM_E_FORMAT, {"t:1:4", "outside a loop"}},
        {"{{ 99999999999999999999 }}", PLIM_E_RANGE, {"t:1:4", "64 bits"}},
        {"{{ 9223372036854775807 + 1 }}", PLIM_E_RANGE, {"t:1:4", "64 bits"}},
        {"{{ 2 ** 63 }}", PLIM_E_RANGE, {"t:1:4", "64 bits"}},
        {"{{ '\\ud800' }}", PLIM_E_FORMAT, {"t:1:5", "no character"}},
        {"{{ '%s' % 1 }}", PLIM_E_UNSUPPORTED, {"t:1:4", "~"}},
        {"{% set x = 1 %", PLIM_E_FORMAT, {"t:1:1", ""}},
        {"{# x", PLIM_E_FORMAT, {"t:1:1", "#}"}},
        {"{% raw %} x", PLIM_E_FORMAT, {"t:1:1", "endraw"}},
        {"{{ [1 }}", PLIM_E_FORMAT, {"t:1:7", "]"}},
        {"{{ strftime_now('%Q') }}", PLIM_E_UNSUPPORTED, {"t:1:4", "%Q"}},
        {"\xff", PLIM_E_FORMAT, {"t:1:1", "UTF-8"}},
        {"{{ range }}", PLIM_E_UNSUPPORTED, {"t:1:4", "()"}},
    };
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *none = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_rendered r = {0};
        const char *const words[] = {cases[i].words[0], cases[i].words[1], NULL};
        test_check_fails(c, cases[i].status, render(c, cases[i].text, none, &limits, &r), cases[i].text,
                         words);
        assert_null(r.ctx);
    }
    json_decref(none);
    test_ctx_close(c);
}

TEST(limits_end_what_does_not_end)
{
    UNUSED_STATE;
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        {"{% set ns = namespace(x='ab') %}{% for a in range(99999) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
         "%}",
         "memory|bytes|steps"},
        {"{{ 'a' * 1000000000000 }}", "memory"},
        {"{{ 'a' * 60000000 }}", "bytes|steps"},
        {"{{ [1] * 1000000000000 }}", "memory"},
        {"{{ [[1] * 1000000] * 100000 }}", "bytes|steps"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeper"},
        {"{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}", "deeper"},
        {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "deeper"},
        {"{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
         "}}",
         "deeper"},
        {"{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
         "== [ns.x] }}",
         "deeper"},
        {"{% for a in range(99999) %}{{ 'x' * 10000 }}{% endfor %}", "rendered text|bytes|steps"},
        {"{{ 'x'|center(1000000000000) }}", "memory"},
        {"{{ 'x'|indent(100000000) }}", "width"},
        {"{{ range(100001) }}", "Range too big"},
        {"{{ range(-9223372036854775807, 9223372036854775807) }}", "Range too big"},
        {"{{ 10 ** 10 ** 10 }}", "64 bits"},
        {"{{ [1]|map('list')|list }}", "not iterable"},
    };
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = {
        .steps = 2000000, .depth = 300, .output_bytes = 1 << 20, .memory_bytes = 64 << 20};
    json_t *none = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_rendered r = {0};
        bool found = false;
        char words[100];
        assert_true(render(c, cases[i].text, none, &limits, &r) != PLIM_OK);
        snprintf(words, sizeof words, "%s", cases[i].word);
        for (char *rest = words, *word; (word = strsep(&rest, "|"));)
            found = found || strstr(plim_ctx_message(c), word);
        if (!found) fail_msg("%s: %s", cases[i].text, plim_ctx_message(c));
        plim_ctx_clear(c);
    }
    char nested[5000] = "{{ ";
    memset(nested + 3, '(', 4000);
    plim_rendered r = {0};
    assert_true(render(c, nested, none, &limits, &r) != PLIM_OK);
    plim_ctx_clear(c);
    memset(nested + 3, '-', 4000);
    memcpy(nested + 4003, "1 }}", 5);
    CHECK_FAILS(c, PLIM_E_RANGE, render(c, nested, none, &limits, &r), "nested deeper");
    json_decref(none);
    assert_int_equal(test_live_allocations(), 1);
    test_ctx_close(c);
}

TEST(the_sandbox_keeps_values_as_they_are)
{
    UNUSED_STATE;
    static const char *const cases[] = {
        "{{ l.append(1) }}", "{{ l.pop() }}",          "{{ l.sort() }}", "{{ d.update({}) }}",
        "{{ d.clear() }}",   "{{ d.pop('a') }}",       "{{ l.append }}", "{{ d.setdefault('x', 1) }}",
        "{{ s.__class__ }}", "{{ l['extend']([1]) }}",
    };
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *v = json_loads("{\"l\": [2, 1], \"d\": {\"a\": 1}, \"s\": \"x\"}", 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_rendered r = {0};
        const char *const words[] = {"is unsafe", NULL};
        test_check_fails(c, PLIM_E_FORMAT, render(c, cases[i], v, &limits, &r), cases[i], words);
    }
    json_decref(v);
    test_ctx_close(c);
}

TEST(the_date_is_the_one_that_outputs_are_dated_with)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *none = json_object();
    plim_rendered r = {0};
    CHECK_OK(
        c, render(c, "{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %j %p %I %y %-d %e %U %W %u %w %%') }}",
                  none, &limits, &r));
    assert_string_equal(r.text, "2026-12-01 12:00:00 Tue Tuesday Dec December 335 PM 12 26 1  1 48 48 2 2 %");
    plim_rendered_close(&r);
    json_decref(none);
    test_ctx_close(c);
}

TEST(generation_blocks_are_recorded)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *none = json_object();
    plim_rendered r = {0};
    CHECK_OK(c, render(c,
                       "ab{% generation %}cd{% endgeneration %}{% for i in [1, 2] %}{%- generation -%} x "
                       "{%- endgeneration %}{% endfor %}",
                       none, &limits, &r));
    assert_string_equal(r.text, "abcdxx");
    assert_int_equal(r.marked_count, 3);
    static const size_t want[][2] = {{2, 4}, {4, 5}, {5, 6}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r.marked[i].begin, want[i][0]);
        assert_int_equal(r.marked[i].end, want[i][1]);
    }
    plim_rendered_close(&r);
    json_decref(none);
    test_ctx_close(c);
}

/* ---- where text comes from ----------------------------------------------------------------------------- */

#define ROW                                                                                                  \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"One two\", \"name\": \"bob\"}, "                    \
    "{\"role\": \"assistant\", \"content\": \" Big\\nWord \", \"reasoning_content\": \"why\", "              \
    "\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"k\": \"v\\n\", \"n\": 3}}]}], \"tools\": [\"T\"]}"

/* Runs as letters, one a byte: t template, v variable, m/r/c/w/l of a message by origin, upper case for
 * message 1. */
static void letters(const plim_rendered *r, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < r->run_count; i++)
        for (size_t at = r->runs[i].begin; at < r->runs[i].end && n + 1 < cap; at++) {
            char letter = "tvmrcwl"[r->runs[i].origin];
            out[n++] = r->runs[i].message == 1 ? (char)(letter - 32) : letter;
        }
    out[n] = 0;
}

TEST(text_keeps_its_origin)
{
    UNUSED_STATE;
    static const struct {
        const char *template, *text, *origins;
    } cases[] = {
        {"{{ messages[0].content }}", "One two", "ccccccc"},
        {"<{{ messages[0].role + ':' + messages[0].name }}>", "<user:bob>", "trrrrtmmmt"},
        {"{{ messages[0].content.upper() ~ messages[1].reasoning_content | upper }}", "ONE TWOWHY",
         "cccccccWWW"},
        {"{{ messages[1].content | trim }}", "Big\nWord", "CCCCCCCC"},
        {"{{ (messages[0].content ~ '-' ~ messages[1].content)[2:10] }}", "e two- B", "ccccctCC"},
        {"{{ (messages[0].content ~ '-' ~ messages[1].content)[9:5:-1] }}", "B -o", "CCtc"},
        {"{{ messages[0].content.replace('One', 'xx') }}", "xx two", "ttcccc"},
        {"{{ messages[0].content.split(' ') | join(', ') }}", "One, two", "cccttccc"},
        {"{{ messages[0].content.split(' ')[-1] }}", "two", "ccc"},
        {"{{ tools[0] ~ messages[1].reasoning_content }}", "Twhy", "vWWW"},
        {"{{ messages[1].tool_calls[0].arguments | tojson }}", "{\"k\": \"v\\n\", \"n\": 3}",
         "LLLLLLLLLLLLLLLLLLLL"},
        {"{{ messages[1].tool_calls[0].arguments.n }}{{ messages[1].tool_calls[0].arguments.n + 1 }}", "34",
         "Lt"},
        {"{{ messages[0].content | tojson }}", "\"One two\"", "ccccccccc"},
        {"{% set x %}<{{ messages[0].name }}>{% endset %}{{ x }}", "<bob>", "tmmmt"},
        {"{% macro f(s) %}[{{ s }}]{% endmacro %}{{ f(messages[0].content[:3]) | lower }}", "[one]", "tccct"},
        {"{{ messages[0].content | indent(2, true) }}", "  One two", "ttccccccc"},
        {"{{ messages[0].content | list | last }}", "o", "c"},
        {"{{ messages[0].content.title().swapcase() }}", "oNE tWO", "ccccccc"},
        {"{% for k, v in messages[1].tool_calls[0].arguments | items %}{{ k }}={{ v }};{% endfor %}",
         "k=v\n;n=3;", "LtLLtLtLt"},
        {"{% filter upper %}a{{ messages[0].content }}{% endfilter %}", "AONE TWO", "tccccccc"},
        {"{{ messages[0].content if true }}{{ messages[5] | default('q') }}", "One twoq", "ccccccct"},
        {"{{ ('<' ~ messages[0].content) | e }}", "&lt;One two", "ttttccccccc"},
        {"{{ messages[0].content.center(11, '*') }}", "**One two**", "ttccccccctt"},
        {"{{ [messages[0].name] }}", "['bob']", "tmmmmmt"},
    };
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *v = json_loads(ROW, 0, NULL);
    assert_non_null(v);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plim_rendered r = {0};
        char got[200];
        CHECK_OK(c, render(c, cases[i].template, v, &limits, &r));
        letters(&r, got, sizeof got);
        if (strcmp(r.text, cases[i].text) || strcmp(got, cases[i].origins))
            fail_msg("%s\n  wanted %s\n         %s\n  got    %s\n         %s", cases[i].template,
                     cases[i].text, cases[i].origins, r.text, got);
        plim_rendered_close(&r);
    }
    json_decref(v);
    test_ctx_close(c);
}

TEST(template_text_knows_its_place_and_its_turn)
{
    UNUSED_STATE;
    static const char text[] =
        "ab{% for m in messages %}<{{ m.role ~ 'xyz'[1:] }}{% endfor %}end{{ 'abcd'[2:] }}";
    plim_ctx *c = test_ctx_open();
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    json_t *v = json_loads(ROW, 0, NULL);
    plim_rendered r = {0};
    CHECK_OK(c, render(c, text, v, &limits, &r));
    assert_string_equal(r.text, "ab<useryz<assistantyzendcd");
    for (size_t i = 0; i < r.run_count; i++) {
        const plim_text_run *run = &r.runs[i];
        if (run->origin == PLIM_ORIGIN_TEMPLATE)
            assert_memory_equal(text + run->template_at, r.text + run->begin, run->end - run->begin);
        int32_t turn = run->begin < 2 || run->begin >= 21 ? -1 : run->begin < 9 ? 0 : 1;
        assert_int_equal(run->turn, turn);
    }
    plim_rendered_close(&r);
    json_decref(v);
    test_ctx_close(c);
}

static plim_status many_things(plim_ctx *c, void *user)
{
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    plim_rendered r = {0};
    plim_status st =
        render(c,
               "{% set ns = namespace(x='') %}{% for i in range(300) %}{% set ns.x = ns.x ~ i ~ ', ' %}"
               "{% endfor %}{{ ns.x.split(', ')|map('int', 0)|sort(reverse=true)|join('-') }}"
               "{% generation %}{{ messages|tojson(indent=1) }}{% endgeneration %}",
               user, &limits, &r);
    plim_rendered_close(&r);
    return st;
}

TEST(failed_allocations_are_ordinary_errors)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    json_t *v = json_loads(ROW, 0, NULL);
    int64_t count = test_every_allocation(c, many_things, v);
    if (count < 8) fail_msg("%lld allocations", (long long)count);
    json_decref(v);
    test_ctx_close(c);
}

int main(void)
{
    setenv("SOURCE_DATE_EPOCH", GOLDEN_DATE_EPOCH, 1);
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(table_of_templates),
        cmocka_unit_test(what_is_not_known_is_refused_with_its_place),
        cmocka_unit_test(limits_end_what_does_not_end),
        cmocka_unit_test(the_sandbox_keeps_values_as_they_are),
        cmocka_unit_test(the_date_is_the_one_that_outputs_are_dated_with),
        cmocka_unit_test(generation_blocks_are_recorded),
        cmocka_unit_test(text_keeps_its_origin),
        cmocka_unit_test(template_text_knows_its_place_and_its_turn),
        cmocka_unit_test(failed_allocations_are_ordinary_errors),
    };
    return RUN_TESTS(table);
}
