/* tokenizer_load.c - decides in which order a tokenizer.json is read, and how its components are walked. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_parts.h"

const char *plim_tokenizer_path(char buf[PLIM_TOKENIZER_PATH_BYTES], const char *path, const char *key)
{
    int n = snprintf(buf, PLIM_TOKENIZER_PATH_BYTES, "%s%s%s", path, *path ? "." : "", key);
    if (n < 0 || n >= PLIM_TOKENIZER_PATH_BYTES) snprintf(buf, PLIM_TOKENIZER_PATH_BYTES, "%.300s", path);
    return buf;
}

plim_status plim_tokenizer_copy(plim_ctx *c, const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;
    TRY(plim_alloc(c, bytes, 1, "a string of a tokenizer", out));
    memcpy(*out, text, bytes);
    return PLIM_OK;
}

plim_status plim_tokenizer_failed(const plim_json *j, const char *path, plim_status st)
{
    char message[1024];
    if (!st || st == PLIM_E_OOM_HOST) return st;
    snprintf(message, sizeof message, "%s", plim_ctx_message(j->ctx));
    plim_ctx_clear(j->ctx);
    return plim_json_fail(j, path, st, "%s", message);
}

plim_status plim_tokenizer_unknown(const plim_json *j, const char *path, const char *kind, const char *type,
                                   const char *known)
{
    return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "the %s \"%.100s\" is not supported; known are %s",
                          kind, type, known);
}

plim_status plim_tokenizer_read_pattern(const plim_json *j, const json_t *component, const char *path,
                                        plim_pattern *out)
{
    char place[PLIM_TOKENIZER_PATH_BYTES];
    const json_t *pattern = NULL;
    const char *regex = NULL, *string = NULL;
    plim_tokenizer_path(place, path, "pattern");
    TRY(plim_json_object(j, component, path, "pattern", &pattern));
    TRY(plim_json_string_opt(j, pattern, place, "Regex", &regex));
    TRY(plim_json_string_opt(j, pattern, place, "String", &string));
    if (!regex == !string)
        return plim_json_fail(j, place, PLIM_E_FORMAT,
                              "a pattern is either {\"Regex\": ...} or {\"String\": ...}");
    plim_status st = regex ? plim_pattern_regex(j->ctx, regex, out)
                           : plim_pattern_string(j->ctx, string, strlen(string), out);
    return plim_tokenizer_failed(j, place, st);
}

/* ---- components ---------------------------------------------------------------------------------------- */

static plim_status walk(const plim_json *j, const json_t *component, const char *path, const char *list,
                        plim_component_read read, int depth, plim_tokenizer *t)
{
    char place[PLIM_TOKENIZER_PATH_BYTES], item[PLIM_TOKENIZER_PATH_BYTES + 32];
    const char *type = NULL;
    const json_t *members = NULL, *member = NULL;
    TRY(plim_json_string(j, component, path, "type", &type));
    if (strcmp(type, "Sequence") != 0) return read(j, component, path, type, t);
    if (depth == 8)
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "sequences are nested deeper than 8 levels");
    TRY(plim_json_array(j, component, path, list, &members));
    plim_tokenizer_path(place, path, list);
    for (size_t i = 0; i < json_array_size(members); i++) {
        TRY(plim_json_at_object(j, members, place, i, &member));
        snprintf(item, sizeof item, "%s[%zu]", place, i);
        TRY(walk(j, member, item, list, read, depth + 1, t));
    }
    return PLIM_OK;
}

plim_status plim_tokenizer_read_component(const plim_json *j, const char *member, const char *list,
                                          plim_component_read read, plim_tokenizer *t)
{
    const json_t *component = NULL;
    TRY(plim_json_object_opt(j, j->root, "", member, &component));
    return component ? walk(j, component, member, list, read, 0, t) : PLIM_OK;
}

/* ---- added tokens -------------------------------------------------------------------------------------- */

static plim_status read_flags(const plim_json *j, const json_t *o, const char *path, plim_added_token *t,
                              bool *normalized)
{
    TRY(plim_json_bool_opt(j, o, path, "special", &t->special));
    TRY(plim_json_bool_opt(j, o, path, "single_word", &t->single_word));
    TRY(plim_json_bool_opt(j, o, path, "lstrip", &t->lstrip));
    TRY(plim_json_bool_opt(j, o, path, "rstrip", &t->rstrip));
    *normalized = !t->special;
    return plim_json_bool_opt(j, o, path, "normalized", normalized);
}

/* What a token looks like after the normaliser is what is searched for. */
static plim_status add_normalized(const plim_json *j, plim_tokenizer *t, plim_added_token token)
{
    plim_normalizer_scratch *w = NULL;
    plim_matcher m = {0};
    plim_stage root = {.ctx = j->ctx, .text = token.text, .bytes = token.bytes};
    plim_span now = {0};
    TRY(plim_alloc(j->ctx, 1, sizeof *w, "a normaliser", &w));
    plim_status st = plim_matcher_open(j->ctx, &m);
    if (!st) st = plim_normalize(j->ctx, &t->normalizer, w, &m, plim_stage_span(&root), &now);
    if (!st) {
        token.text = now.stage->own ? now.stage->own + now.begin : token.text + now.begin;
        token.bytes = plim_span_bytes(now);
        st = plim_added_set_add(j->ctx, &t->normalized, token);
    }
    plim_normalizer_scratch_close(w);
    plim_matcher_close(&m);
    plim_release(j->ctx, w);
    return st;
}

static plim_status read_added_token(const plim_json *j, const json_t *o, const char *path, bool special,
                                    plim_tokenizer *t)
{
    const char *content = NULL;
    plim_added_token token = {0};
    int64_t id;
    bool normalized;
    TRY(read_flags(j, o, path, &token, &normalized));
    if (token.special != special) return PLIM_OK;
    TRY(plim_json_i64(j, o, path, "id", 0, PLIM_VOCABULARY_MAX - 1, &id));
    TRY(plim_json_string(j, o, path, "content", &content));
    token.bytes = strlen(content);
    TRY(plim_tokenizer_failed(j, path,
                              plim_vocabulary_add_beside(&t->vocabulary, content, token.bytes, id, special)));
    token.id = (int32_t)id;
    token.text = (char *)(uintptr_t)content; /* copied, not written */
    plim_status st = normalized && t->normalizer.count
                         ? add_normalized(j, t, token)
                         : plim_added_set_add(j->ctx, normalized ? &t->normalized : &t->plain, token);
    return plim_tokenizer_failed(j, path, st);
}

plim_status plim_tokenizer_read_added_tokens(const plim_json *j, plim_tokenizer *t)
{
    const json_t *tokens = NULL, *token = NULL;
    char path[64];
    TRY(plim_json_array_opt(j, j->root, "", "added_tokens", &tokens));
    for (int special = 1; special >= 0; special--) /* of equal texts, the special token is found */
        for (size_t i = 0; i < json_array_size(tokens); i++) {
            TRY(plim_json_at_object(j, tokens, "added_tokens", i, &token));
            snprintf(path, sizeof path, "added_tokens[%zu]", i);
            TRY(read_added_token(j, token, path, special, t));
        }
    TRY(plim_added_set_sort(&t->plain));
    return plim_added_set_sort(&t->normalized);
}

/* ---- the whole file ------------------------------------------------------------------------------------ */

static plim_status read_parts(const plim_json *j, plim_tokenizer *t)
{
    const char *version = "1.0";
    if (!json_is_object(j->root)) return plim_json_fail(j, "", PLIM_E_FORMAT, "a tokenizer is a JSON object");
    TRY(plim_json_string_opt(j, j->root, "", "version", &version));
    if (strcmp(version, "1.0") != 0)
        return plim_json_fail(j, "version", PLIM_E_UNSUPPORTED, "version \"%.40s\" is not supported; 1.0 is",
                              version);
    TRY(plim_tokenizer_read_pretokenizer(j, t));
    TRY(plim_tokenizer_read_model(j, t));
    TRY(plim_tokenizer_read_normalizer(j, t));
    TRY(plim_tokenizer_read_decoder(j, t));
    TRY(plim_tokenizer_read_added_tokens(j, t));
    return plim_tokenizer_read_post_processor(j, t);
}

plim_status plim_tokenizer_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                 plim_tokenizer **out)
{
    plim_json j = {0};
    plim_tokenizer *t = NULL;
    TRY(plim_json_parse(c, name, text, bytes, PLIM_JSON_CAP_BYTES, &j));
    plim_status st = plim_alloc(c, 1, sizeof *t, "a tokenizer", &t);
    if (!st) {
        t->ctx = c;
        st = read_parts(&j, t);
    }
    plim_json_close(&j);
    if (st) plim_tokenizer_close(t);
    else *out = t;
    return st;
}

plim_status plim_tokenizer_load(plim_ctx *c, const char *path, plim_tokenizer **out)
{
    plim_file f = {0};
    TRY(plim_file_map(c, path, &f));
    plim_status st = plim_tokenizer_parse(c, path, f.data, f.bytes, out);
    plim_file_unmap(&f);
    return st;
}

void plim_tokenizer_close(plim_tokenizer *t)
{
    if (!t) return;
    plim_added_set_close(&t->plain);
    plim_added_set_close(&t->normalized);
    plim_release(t->ctx, t->post.before);
    plim_release(t->ctx, t->post.after);
    plim_decoder_close(&t->decoder);
    plim_pretokenizer_close(&t->pretokenizer);
    plim_normalizer_close(&t->normalizer);
    plim_bpe_close(&t->bpe);
    plim_vocabulary_close(&t->vocabulary);
    plim_release(t->ctx, t);
}
