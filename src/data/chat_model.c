/* chat_model.c - decides which files of a model's folder count, and which of its tokens are special. */
#include "data/chat_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/fnv.h"

typedef struct paths {
    char tokenizer[PLIM_PATH_BYTES], config[PLIM_PATH_BYTES], chat_template[PLIM_PATH_BYTES]; /* "": none */
} paths;

/* folder/name, or "" when there is no such file. */
static plim_status look(plim_ctx *c, const char *folder, const char *name, char out[PLIM_PATH_BYTES])
{
    TRY(plim_path_join(c, out, PLIM_PATH_BYTES, folder, name));
    if (!plim_path_is_file(out)) out[0] = 0;
    return PLIM_OK;
}

static plim_status find(plim_ctx *c, const char *folder, const char *tokenizer, const char *chat_template,
                        paths *p)
{
    if (folder) {
        if (!plim_path_is_folder(folder))
            return plim_fail(c, PLIM_E_IO, "%s: is no folder; name the folder of a model", folder);
        TRY(plim_path_join(c, p->tokenizer, sizeof p->tokenizer, folder, "tokenizer.json"));
        TRY(look(c, folder, "tokenizer_config.json", p->config));
        TRY(look(c, folder, "chat_template.jinja", p->chat_template));
    }
    /* an empty folder leaves a path as it is, and checks its length */
    if (tokenizer) TRY(plim_path_join(c, p->tokenizer, sizeof p->tokenizer, "", tokenizer));
    if (chat_template) TRY(plim_path_join(c, p->chat_template, sizeof p->chat_template, "", chat_template));
    if (!p->tokenizer[0])
        return plim_fail(c, PLIM_E_USAGE,
                         "no tokenizer is named; a model's folder or a tokenizer.json would work");
    return PLIM_OK;
}

static plim_status name_tokenizer(plim_ctx *c, const char *path, char out[64])
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    snprintf(out, 64, "tokenizer.json fnv1a64:%016" PRIx64, plim_fnv1a64_bytes(f.data, f.bytes));
    plim_file_unmap(&f);
    return PLIM_OK;
}

static bool lists(const json_t *special, const char *text)
{
    for (size_t i = 0; i < json_array_size(special); i++)
        if (!strcmp(json_string_value(json_array_get(special, i)), text)) return true;
    return false;
}

static plim_status add_special(plim_ctx *c, plim_chat_model *m, const char *text)
{
    plim_added_token token = {.text = (char *)(uintptr_t)text, .bytes = strlen(text), .special = true};
    if (json_array_append_new(m->special, json_string(text))) return plim_fail_alloc(c, 1, "special tokens");
    return plim_added_set_add(c, &m->typed, token);
}

static plim_status collect_special(plim_ctx *c, plim_chat_model *m)
{
    m->special = json_array();
    if (!m->special) return plim_fail_alloc(c, 1, "special tokens");
    for (size_t i = 0; i < json_array_size(m->chat.special); i++) {
        /* one the tokenizer does not have is ordinary text to it */
        const char *text = json_string_value(json_array_get(m->chat.special, i));
        if (plim_tokenizer_id(m->tokenizer, text) >= 0) TRY(add_special(c, m, text));
    }
    size_t named = json_array_size(m->special);
    for (int64_t id = 0; id < plim_tokenizer_size(m->tokenizer); id++) {
        if (!plim_tokenizer_is_special(m->tokenizer, (int32_t)id)) continue;
        const char *text = plim_tokenizer_text(m->tokenizer, (int32_t)id);
        if (text && *text && !(named && lists(m->special, text))) TRY(add_special(c, m, text));
    }
    return plim_added_set_sort(&m->typed);
}

static plim_status find_end(plim_ctx *c, const paths *p, plim_chat_model *m)
{
    const char *text = json_string_value(json_object_get(m->chat.variables, "eos_token"));
    if (!text) return PLIM_OK;
    m->end = plim_tokenizer_id(m->tokenizer, text);
    if (m->end < 0)
        return plim_fail(c, PLIM_E_FORMAT, "%s: the eos_token %.80s is not in %s", p->config, text,
                         p->tokenizer);
    TRY(plim_alloc(c, strlen(text) + 1, 1, "the end token", &m->end_text));
    strcpy(m->end_text, text);
    return PLIM_OK;
}

static plim_status open_model(plim_ctx *c, const paths *p, plim_chat_model *m)
{
    TRY(plim_tokenizer_load(c, p->tokenizer, &m->tokenizer));
    TRY(name_tokenizer(c, p->tokenizer, m->tokenizer_name));
    TRY(plim_chat_template_assemble(c, p->config[0] ? p->config : NULL,
                                    p->chat_template[0] ? p->chat_template : NULL, &m->chat));
    if (m->chat.jinja)
        snprintf(m->template_name, sizeof m->template_name, "chat_template fnv1a64:%016" PRIx64,
                 m->chat.hash);
    TRY(find_end(c, p, m));
    return collect_special(c, m);
}

plim_status plim_chat_model_open(plim_ctx *c, const char *folder, const char *tokenizer,
                                 const char *chat_template, plim_chat_model *out)
{
    plim_chat_model m = {.ctx = c, .end = -1};
    paths *p = NULL;
    TRY(plim_alloc(c, 1, sizeof *p, "paths of a model", &p));
    plim_status st = find(c, folder, tokenizer, chat_template, p);
    if (!st) st = open_model(c, p, &m);
    plim_release(c, p);
    if (st) plim_chat_model_close(&m);
    else *out = m;
    return st;
}

void plim_chat_model_close(plim_chat_model *m)
{
    if (!m->ctx) return;
    plim_release(m->ctx, m->end_text);
    plim_added_set_close(&m->typed);
    json_decref(m->special);
    plim_chat_template_close(&m->chat);
    plim_tokenizer_close(m->tokenizer);
    *m = (plim_chat_model){0};
}
