/* row_kinds.c - decides what the columns of a row mean. */
#include "data/row_kinds.h"

#include <string.h>

#include "base/context.h"
#include "base/fnv.h"
#include "base/json_text.h"
#include "text/chat_template.h"

#define PATH_BYTES 160

static plim_status no_memory(plim_ctx *c)
{
    return plim_fail_alloc(c, sizeof(json_t), "a row");
}

/* A column that says something; NULL: absent or null. */
static json_t *column(const json_t *row, const char *key)
{
    json_t *value = json_object_get(row, key);
    return json_is_null(value) ? NULL : value;
}

/* ---- content ------------------------------------------------------------------------------------------ */

/* The texts of parts, one behind the other. */
typedef struct joined {
    plim_ctx *c;
    char *text;
    size_t bytes, cap;
} joined;

static plim_status join(joined *all, const char *text)
{
    size_t n = strlen(text);
    TRY(plim_grow(all->c, &all->text, &all->cap, all->bytes + n + 1, 1, "the parts of a content"));
    memcpy(all->text + all->bytes, text, n + 1);
    all->bytes += n;
    return PLIM_OK;
}

static plim_status join_part(const plim_json *j, const json_t *part, const char *path, joined *all)
{
    if (json_is_string(part)) return join(all, json_string_value(part));
    if (!json_is_object(part))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "a part of a content is an object with type and text");
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    if (type && strcmp(type, "text") != 0)
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED,
                              "a part of type \"%.40s\"; parts of type \"text\" alone are trained on", type);
    if (!json_is_string(text))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "a part of type \"text\" wants a string \"text\"");
    return join(all, json_string_value(text));
}

static plim_status join_parts(plim_ctx *c, const plim_json *j, json_t *message, const json_t *parts,
                              const char *path)
{
    char at[PATH_BYTES + 40];
    joined all = {.c = c};
    plim_status st = join(&all, "");
    for (size_t i = 0; !st && i < json_array_size(parts); i++) {
        snprintf(at, sizeof at, "%s.content[%zu]", path, i);
        st = join_part(j, json_array_get(parts, i), at, &all);
    }
    if (!st && json_object_set_new(message, "content", json_stringn(all.text, all.bytes))) st = no_memory(c);
    plim_release(c, all.text);
    return st;
}

/* ---- messages ----------------------------------------------------------------------------------------- */

static plim_status check_message(plim_ctx *c, const plim_json *j, json_t *message, const char *path)
{
    const char *role = NULL;
    const json_t *calls = NULL;
    if (!json_is_object(message))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "a message is an object with role and content");
    TRY(plim_json_string(j, message, path, "role", &role));
    TRY(plim_json_array_opt(j, message, path, "tool_calls", &calls));
    for (size_t i = 0; i < json_array_size(calls); i++)
        if (!json_is_object(json_array_get(calls, i)))
            return plim_json_fail(j, path, PLIM_E_FORMAT, "tool_calls[%zu] is no object", i);
    const json_t *content = column(message, "content");
    if (!content || json_is_string(content)) return PLIM_OK;
    if (json_is_array(content)) return join_parts(c, j, message, content, path);
    return plim_json_fail(j, path, PLIM_E_FORMAT, "content is neither a string, a list of parts nor null");
}

static plim_status check_messages(plim_ctx *c, const plim_json *j, const json_t *list, const char *path)
{
    char at[PATH_BYTES];
    if (!json_is_array(list)) return plim_json_fail(j, path, PLIM_E_FORMAT, "a list of messages is wanted");
    if (!json_array_size(list)) return plim_json_fail(j, path, PLIM_E_FORMAT, "there is no message in it");
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(at, sizeof at, "%s[%zu]", path, i);
        TRY(check_message(c, j, json_array_get(list, i), at));
    }
    return PLIM_OK;
}

/* ---- ShareGPT ----------------------------------------------------------------------------------------- */

#define CALL "function_call"

static const struct {
    const char *from, *role;
} speakers[] = {
    {"human", "user"},    {"user", "user"}, {"gpt", "assistant"},    {"assistant", "assistant"},
    {"system", "system"}, {"tool", "tool"}, {"observation", "tool"}, {CALL, "assistant"},
};

static const char *role_of(const char *from)
{
    for (size_t i = 0; i < sizeof speakers / sizeof *speakers; i++)
        if (!strcmp(speakers[i].from, from)) return speakers[i].role;
    return NULL;
}

/* The calls a value holds: one {"name", "arguments"} or a list of them, as an object or as JSON in a string.
 */
static plim_status read_calls(plim_ctx *c, const plim_json *j, const char *path, json_t *message)
{
    const json_t *value = json_object_get(message, "content");
    plim_json parsed = {0};
    json_t *list = json_array();
    if (!list) return no_memory(c);
    plim_status st = PLIM_OK;
    if (json_is_string(value)) {
        char name[PATH_BYTES + sizeof ".value"];
        snprintf(name, sizeof name, "%s.value", path);
        st = plim_json_parse(c, name, json_string_value(value), json_string_length(value),
                             PLIM_JSON_CAP_BYTES, &parsed);
        value = parsed.root;
    }
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; !st && i < count; i++) {
        json_t *call = json_is_array(value) ? json_array_get(value, i) : (json_t *)(uintptr_t)value;
        if (!json_is_string(json_object_get(call, "name")))
            st = plim_json_fail(j, path, PLIM_E_FORMAT,
                                "a function_call holds {\"name\": ..., \"arguments\": ...}");
        else if (json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function", "function", call)))
            st = no_memory(c);
    }
    if (!st && json_object_set(message, "tool_calls", list)) st = no_memory(c);
    if (!st) json_object_del(message, "content");
    json_decref(list);
    plim_json_close(&parsed);
    return st;
}

static plim_status convert_turn(plim_ctx *c, const plim_json *j, const json_t *turn, const char *path,
                                json_t *messages)
{
    static const char *const kept[] = {"train", "weight"};
    const char *from = NULL;
    if (!json_is_object(turn))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "a turn is an object with from and value");
    TRY(plim_json_string(j, turn, path, "from", &from));
    const char *role = role_of(from);
    json_t *value = column(turn, "value");
    if (!role)
        return plim_json_fail(j, path, PLIM_E_FORMAT,
                              "from \"%.40s\" is not known; human, gpt, system, tool, observation and "
                              "function_call are",
                              from);
    if (!value) return plim_json_fail(j, path, PLIM_E_FORMAT, "the turn has no value");
    json_t *message = json_pack("{s:s, s:O}", "role", role, "content", value);
    if (!message || json_array_append_new(messages, message)) return no_memory(c); /* which takes it */
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *said = column(turn, kept[i]);
        if (said && json_object_set(message, kept[i], said)) return no_memory(c);
    }
    return strcmp(from, CALL) ? PLIM_OK : read_calls(c, j, path, message);
}

static plim_status convert_turns(plim_ctx *c, const plim_json *j, const json_t *turns, json_t *messages)
{
    char at[PATH_BYTES];
    const char *system = NULL;
    if (!json_is_array(turns))
        return plim_json_fail(j, "conversations", PLIM_E_FORMAT, "a list of turns is wanted");
    TRY(plim_json_string_opt(j, j->root, "", "system", &system));
    if (system && *system &&
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system)))
        return no_memory(c);
    for (size_t i = 0; i < json_array_size(turns); i++) {
        snprintf(at, sizeof at, "conversations[%zu]", i);
        TRY(convert_turn(c, j, json_array_get(turns, i), at, messages));
    }
    return check_messages(c, j, messages, "conversations");
}

/* ---- a conversation ----------------------------------------------------------------------------------- */

/* tools may be a list, or JSON in a string. */
static plim_status add_tools(plim_ctx *c, const plim_json *j, json_t *chat)
{
    plim_json parsed = {0};
    json_t *tools = column(j->root, "tools");
    if (!tools) return PLIM_OK;
    plim_status st = PLIM_OK;
    if (json_is_string(tools)) {
        if (!json_string_length(tools)) return PLIM_OK;
        st = plim_json_parse(c, "tools", json_string_value(tools), json_string_length(tools),
                             PLIM_JSON_CAP_BYTES, &parsed);
        tools = parsed.root;
    }
    if (!st && !json_is_array(tools)) st = plim_json_fail(j, "tools", PLIM_E_FORMAT, "tools is no list");
    if (!st && json_array_size(tools) && json_object_set(chat, "tools", tools)) st = no_memory(c);
    plim_json_close(&parsed);
    return st;
}

static plim_status add_variables(plim_ctx *c, const plim_json *j, json_t *chat)
{
    const json_t *extra = NULL, *documents = NULL;
    TRY(add_tools(c, j, chat));
    TRY(plim_json_array_opt(j, j->root, "", "documents", &documents));
    if (documents && json_object_set(chat, "documents", (json_t *)(uintptr_t)documents)) return no_memory(c);
    TRY(plim_json_object_opt(j, j->root, "", "chat_template_kwargs", &extra));
    if (!extra) return PLIM_OK;
    if (json_object_get(extra, "messages") || json_object_get(extra, "add_generation_prompt"))
        return plim_json_fail(j, "chat_template_kwargs", PLIM_E_FORMAT,
                              "messages and add_generation_prompt are not for a row to set");
    return json_object_update(chat, (json_t *)(uintptr_t)extra) ? no_memory(c) : PLIM_OK;
}

/* messages have been checked. */
static plim_status make_chat(plim_ctx *c, const plim_json *j, json_t *messages, plim_row_content *r)
{
    r->kind = PLIM_ROW_CHAT;
    r->chat = json_object();
    if (!r->chat || json_object_set(r->chat, "messages", messages)) return no_memory(c);
    TRY(add_variables(c, j, r->chat));
    return plim_chat_row_normalise(c, r->chat);
}

static plim_status read_turns(plim_ctx *c, const plim_json *j, const json_t *turns, plim_row_content *r)
{
    json_t *messages = json_array();
    if (!messages) return no_memory(c);
    plim_status st = convert_turns(c, j, turns, messages);
    if (!st) st = make_chat(c, j, messages, r);
    json_decref(messages);
    return st;
}

static plim_status read_message_pair(plim_ctx *c, const plim_json *j, json_t *prompt, json_t *completion,
                                     plim_row_content *r)
{
    TRY(check_messages(c, j, prompt, "prompt"));
    TRY(check_messages(c, j, completion, "completion"));
    for (size_t i = 0; i < json_array_size(prompt); i++)
        if (json_object_set_new(json_array_get(prompt, i), "train", json_false())) return no_memory(c);
    json_t *messages = json_array();
    if (!messages) return no_memory(c);
    plim_status st = PLIM_OK;
    if (json_array_extend(messages, prompt) || json_array_extend(messages, completion)) st = no_memory(c);
    if (!st) st = make_chat(c, j, messages, r);
    json_decref(messages);
    return st;
}

/* ---- a row -------------------------------------------------------------------------------------------- */

static plim_status read_pair(plim_ctx *c, const plim_json *j, json_t *prompt, plim_row_content *r)
{
    json_t *completion = column(j->root, "completion");
    if (!completion)
        return plim_json_fail(j, "", PLIM_E_FORMAT,
                              "a row with a prompt wants a completion, which is trained on");
    if (json_is_array(prompt) && json_is_array(completion))
        return read_message_pair(c, j, prompt, completion, r);
    if (!json_is_string(prompt) || !json_is_string(completion))
        return plim_json_fail(j, json_is_string(prompt) || json_is_array(prompt) ? "completion" : "prompt",
                              PLIM_E_FORMAT,
                              "prompt and completion are two strings or two lists of messages");
    r->kind = PLIM_ROW_COMPLETION;
    r->prompt = json_string_value(prompt);
    r->text = json_string_value(completion);
    return PLIM_OK;
}

static plim_status read_row(plim_ctx *c, const plim_json *j, plim_row_content *r)
{
    json_t *row = j->root, *value;
    if (!json_is_object(row)) return plim_json_fail(j, "", PLIM_E_FORMAT, "the row is no object");
    TRY(plim_json_string_opt(j, row, "", "class", &r->class_name));
    TRY(plim_json_double_opt(j, row, "", "weight", 0, PLIM_ROW_MAX_WEIGHT, &r->weight));
    if ((value = column(row, "messages"))) {
        TRY(check_messages(c, j, value, "messages"));
        return make_chat(c, j, value, r);
    }
    if ((value = column(row, "conversations"))) return read_turns(c, j, value, r);
    if ((value = column(row, "prompt"))) return read_pair(c, j, value, r);
    if (!column(row, "text"))
        return plim_json_fail(j, "", PLIM_E_FORMAT,
                              "the row has none of messages, conversations, prompt with completion, text");
    r->kind = PLIM_ROW_TEXT;
    return plim_json_string(j, row, "", "text", &r->text);
}

plim_status plim_row_read(plim_ctx *c, const plim_json *row, plim_row_content *out)
{
    plim_row_content r = {.weight = 1};
    plim_status st = read_row(c, row, &r);
    if (st) plim_row_content_close(&r);
    else *out = r;
    return st;
}

void plim_row_content_close(plim_row_content *r)
{
    json_decref(r->chat);
    *r = (plim_row_content){0};
}

plim_status plim_row_hash(plim_ctx *c, const plim_row_content *r, uint64_t *out)
{
    char *text = NULL;
    if (r->kind == PLIM_ROW_TEXT) {
        *out = plim_fnv1a64(r->text);
        return PLIM_OK;
    }
    json_t *pair = r->chat ? json_incref(r->chat) : json_pack("[s, s]", r->prompt, r->text);
    if (!pair) return no_memory(c);
    plim_status st = plim_json_text(c, pair, JSON_COMPACT | JSON_SORT_KEYS, &text);
    if (!st) *out = plim_fnv1a64(text);
    plim_release(c, text);
    json_decref(pair);
    return st;
}
