/* chat_row.c - decides what a row of chat data means where people write it in more than one way. */
#include "base/json.h"
#include "text/chat_template.h"

#include <string.h>

/* Members that are null, other than those of tool arguments, say nothing. */
static void drop_nulls(json_t *message)
{
    void *it = json_object_iter(message);
    while (it) {
        const char *key = json_object_iter_key(it);
        bool null = json_is_null(json_object_iter_value(it));
        it = json_object_iter_next(message, it);
        if (null) json_object_del(message, key);
    }
}

static plim_status parse_arguments(plim_ctx *c, json_t *function, size_t message, size_t call)
{
    char name[100];
    plim_json parsed = {0};
    const json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_string(arguments)) return PLIM_OK;
    const char *text = json_string_value(arguments);
    if (!*text) text = "{}"; /* a call without arguments */
    snprintf(name, sizeof name, "messages[%zu].tool_calls[%zu].arguments", message, call);
    TRY(plim_json_parse(c, name, text, strlen(text), PLIM_JSON_CAP_BYTES, &parsed));
    plim_status st = PLIM_OK;
    if (!json_is_object(parsed.root))
        st = plim_json_fail(&parsed, "", PLIM_E_FORMAT, "the arguments are no object");
    else if (json_object_set(function, "arguments", parsed.root))
        st = plim_fail_alloc(c, strlen(text), "tool arguments");
    plim_json_close(&parsed);
    return st;
}

static plim_status normalise_message(plim_ctx *c, json_t *message, size_t i)
{
    size_t k;
    json_t *call;
    drop_nulls(message);
    json_array_foreach(json_object_get(message, "tool_calls"), k, call)
    {
        json_t *function = json_object_get(call, "function");
        TRY(parse_arguments(c, json_is_object(function) ? function : call, i, k));
    }
    return PLIM_OK;
}

plim_status plim_chat_row_normalise(plim_ctx *c, json_t *row)
{
    size_t i;
    json_t *message;
    json_array_foreach(json_object_get(row, "messages"), i, message)
    {
        if (json_is_object(message)) TRY(normalise_message(c, message, i));
    }
    return PLIM_OK;
}
