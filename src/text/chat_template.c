/* chat_template.c - decides where a chat template is read from and which variables every render of it has. */
#include "text/chat_template.h"

#include <string.h>

#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"

static plim_status no_memory(plim_ctx *c)
{
    return plim_fail_alloc(c, sizeof(json_t), "the variables of a chat template");
}

/* ---- tokenizer_config.json
 * ------------------------------------------------------------------------------------ */

/* A token is written "<s>" or {"content": "<s>", ...}. */
static const char *token_text(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static bool listed(const json_t *special, const char *text)
{
    size_t i;
    json_t *have;
    json_array_foreach((json_t *)(uintptr_t)special, i,
                       have) if (!strcmp(json_string_value(have), text)) return true;
    return false;
}

static plim_status add_special(plim_ctx *c, json_t *special, const char *text)
{
    if (!text || !*text || listed(special, text)) return PLIM_OK;
    return json_array_append_new(special, json_string(text)) ? no_memory(c) : PLIM_OK;
}

static plim_status read_tokens(plim_ctx *c, const json_t *config, plim_chat_template *t)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const char *id;
    json_t *token, *list = json_object_get(config, "added_tokens_decoder");
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = token_text(json_object_get(config, names[i]));
        if (!text) continue;
        if (json_object_set_new(t->variables, names[i], json_string(text))) return no_memory(c);
        TRY(add_special(c, t->special, text));
    }
    json_object_foreach(list, id, token)
    {
        if (json_is_true(json_object_get(token, "special")))
            TRY(add_special(c, t->special, token_text(token)));
    }
    json_array_foreach(json_object_get(config, "additional_special_tokens"), i, token)
        TRY(add_special(c, t->special, token_text(token)));
    return PLIM_OK;
}

/* The text in "chat_template"; NULL: none. */
static const char *template_text(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template"), *first = json_array_get(value, 0);
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)(uintptr_t)value, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default")) first = one;
    }
    return json_string_value(json_is_array(value) ? json_object_get(first, "template") : value);
}

static plim_status open_text(plim_ctx *c, const char *path, const char *text, size_t bytes,
                             plim_chat_template *t)
{
    t->hash = plim_fnv1a64_bytes(text, bytes);
    return plim_jinja_open(c, path, text, bytes, &t->limits, &t->jinja);
}

static plim_status open_file(plim_ctx *c, const char *path, plim_chat_template *t)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = open_text(c, path, f.data, f.bytes, t);
    plim_file_unmap(&f);
    return st;
}

/* The template beside a config, if there is one. */
static plim_status open_beside(plim_ctx *c, const char *path, plim_chat_template *t)
{
    char folder[PLIM_PATH_BYTES], beside[PLIM_PATH_BYTES];
    TRY(plim_path_folder(c, folder, sizeof folder, path));
    TRY(plim_path_join(c, beside, sizeof beside, folder, "chat_template.jinja"));
    return plim_path_is_file(beside) ? open_file(c, beside, t) : PLIM_OK;
}

/* own: the template is looked for here as well. */
static plim_status read_config(plim_ctx *c, const char *path, const plim_file *f, bool own,
                               plim_chat_template *t)
{
    plim_json config = {0};
    TRY(plim_json_parse(c, path, f->data, f->bytes, PLIM_JSON_CAP_BYTES, &config));
    plim_status st = PLIM_OK;
    t->special = json_array();
    if (!t->special) st = no_memory(c);
    if (!st) st = read_tokens(c, config.root, t);
    const char *text = own ? template_text(config.root) : NULL;
    if (!st && text) st = open_text(c, path, text, strlen(text), t);
    else if (!st && own) st = open_beside(c, path, t);
    plim_json_close(&config);
    if (!st && !json_array_size(t->special)) {
        json_decref(t->special);
        t->special = NULL;
    }
    return st;
}

static plim_status assemble(plim_ctx *c, const char *config_path, const char *template_path,
                            plim_chat_template *t)
{
    plim_file f = {0};
    t->variables = json_object();
    if (!t->variables) return no_memory(c);
    if (config_path) {
        TRY(plim_file_map(c, config_path, &f));
        plim_status st = read_config(c, config_path, &f, !template_path, t);
        plim_file_unmap(&f);
        if (st) return st;
    }
    if (template_path) TRY(open_file(c, template_path, t));
    return t->jinja ? plim_turn_header_learn(c, t->jinja, t->variables, &t->limits, &t->header) : PLIM_OK;
}

plim_status plim_chat_template_assemble(plim_ctx *c, const char *config_path, const char *template_path,
                                        plim_chat_template *out)
{
    plim_chat_template t = {.ctx = c, .limits = plim_jinja_limits_defaults()};
    plim_status st = assemble(c, config_path, template_path, &t);
    if (st) plim_chat_template_close(&t);
    else *out = t;
    return st;
}

plim_status plim_chat_template_load(plim_ctx *c, const char *path, plim_chat_template *out)
{
    size_t n = strlen(path);
    bool config = n > 5 && !strcmp(path + n - 5, ".json");
    plim_chat_template t = {0};
    TRY(plim_chat_template_assemble(c, config ? path : NULL, config ? NULL : path, &t));
    if (!t.jinja) {
        plim_chat_template_close(&t);
        return plim_fail(c, PLIM_E_FORMAT, "%s: no chat_template in it, and no chat_template.jinja beside it",
                         path);
    }
    *out = t;
    return PLIM_OK;
}

void plim_chat_template_close(plim_chat_template *t)
{
    if (!t || !t->ctx) return;
    plim_turn_header_close(&t->header);
    plim_jinja_close(t->jinja);
    json_decref(t->variables);
    json_decref(t->special);
    *t = (plim_chat_template){0};
}

/* ---- rendering
 * ---------------------------------------------------------------------------------------------------- */

static plim_status variables_of(plim_ctx *c, const plim_chat_template *t, const json_t *row, json_t *out)
{
    if (json_object_set_new(out, "tools", json_null()) ||
        json_object_set_new(out, "documents", json_null()) ||
        json_object_set_new(out, "add_generation_prompt", json_false()) ||
        json_object_update(out, t->variables) || json_object_update(out, (json_t *)(uintptr_t)row))
        return no_memory(c);
    return PLIM_OK;
}

plim_status plim_chat_render(plim_ctx *c, const plim_chat_template *t, const json_t *row, plim_rendered *out)
{
    if (!json_is_array(json_object_get(row, "messages")))
        return plim_fail(c, PLIM_E_FORMAT,
                         "the row has no \"messages\", a list of messages with role and content");
    json_t *variables = json_object();
    if (!variables) return no_memory(c);
    plim_status st = variables_of(c, t, row, variables);
    if (!st) st = plim_jinja_render(c, t->jinja, variables, &t->limits, out);
    json_decref(variables);
    return st;
}
