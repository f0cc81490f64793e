/* chat_golden.h - the conversations, renders and templates under tests/data/text, for the tests of this
 * room. */
#ifndef PLIM_TESTS_CHAT_GOLDEN_H
#define PLIM_TESTS_CHAT_GOLDEN_H

#include "support/test.h"

#include <jansson.h>
#include <stdlib.h>

#include "text/jinja.h"

#define GOLDEN_TEXT       PLIM_TEST_DATA "/text/"
#define GOLDEN_DATE_EPOCH "1796126400" /* 2026-12-01, the day the renders were made */

static inline json_t *golden_json(const char *name)
{
    char path[1024];
    json_error_t e;
    snprintf(path, sizeof path, GOLDEN_TEXT "%s", name);
    json_t *j = json_load_file(path, 0, &e);
    if (!j) fail_msg("%s: %s", path, e.text);
    return j;
}

static inline plim_jinja *golden_template(plim_ctx *c, const char *name)
{
    char path[1024];
    size_t bytes = 0;
    plim_jinja *t = NULL;
    plim_jinja_limits limits = plim_jinja_limits_defaults();
    snprintf(path, sizeof path, GOLDEN_TEXT "templates/%s.jinja", name);
    char *text = test_read(path, &bytes);
    CHECK_OK(c, plim_jinja_open(c, name, text, bytes, &limits, &t));
    free(text);
    return t;
}

/* What a template is rendered with for one case: conversation and the case's own variables. */
static inline json_t *golden_variables(const json_t *all, const json_t *one)
{
    const char *conversation = json_string_value(json_object_get(one, "conversation"));
    json_t *v = json_pack("{s:O, s:n, s:n, s:b}", "messages",
                          json_object_get(json_object_get(all, "conversations"), conversation), "tools",
                          "documents", "add_generation_prompt", 0);
    static const char *const names[] = {"tools", "add_generation_prompt", "enable_thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(one, names[i]);
        if (value) json_object_set(v, names[i], value);
    }
    return v;
}

#endif
