/* tokenizer_steps.c - decides which normalisers, decoders and post-processors of a tokenizer.json are
 * known. */
#include <string.h>

#include "text/tokenizer_parts.h"

static plim_status too_many(const plim_json *j, const char *path)
{
    return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "more than %d steps one after the other",
                          PLIM_TOKENIZER_MAX_STEPS);
}

static plim_status copy_member(const plim_json *j, const json_t *component, const char *path, const char *key,
                               char **out)
{
    const char *text = NULL;
    TRY(plim_json_string(j, component, path, key, &text));
    return plim_tokenizer_copy(j->ctx, text, out);
}

/* ---- normalisers --------------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    plim_normalizer_step step;
} simple_normalizers[] = {
    {"NFC", {.kind = PLIM_NORMALIZE_FORM, .form = PLIM_NFC}},
    {"NFD", {.kind = PLIM_NORMALIZE_FORM, .form = PLIM_NFD}},
    {"NFKC", {.kind = PLIM_NORMALIZE_FORM, .form = PLIM_NFKC}},
    {"NFKD", {.kind = PLIM_NORMALIZE_FORM, .form = PLIM_NFKD}},
    {"Lowercase", {.kind = PLIM_NORMALIZE_CHARACTERS, .rule = plim_rule_lower}},
    {"StripAccents", {.kind = PLIM_NORMALIZE_CHARACTERS, .rule = plim_rule_strip_accents}},
    {"Nmt", {.kind = PLIM_NORMALIZE_CHARACTERS, .rule = plim_rule_nmt}},
};

static plim_status read_normalizer(const plim_json *j, const json_t *o, const char *path, const char *type,
                                   plim_tokenizer *t)
{
    plim_normalizer *n = &t->normalizer;
    if (n->count == PLIM_TOKENIZER_MAX_STEPS) return too_many(j, path);
    plim_normalizer_step *s =
        &n->steps[n->count++]; /* counted at once: closing releases what it holds so far */
    for (size_t i = 0; i < sizeof simple_normalizers / sizeof *simple_normalizers; i++) {
        if (strcmp(type, simple_normalizers[i].type) != 0) continue;
        *s = simple_normalizers[i].step;
        return PLIM_OK;
    }
    if (!strcmp(type, "Strip")) {
        s->kind = PLIM_NORMALIZE_STRIP;
        TRY(plim_json_bool(j, o, path, "strip_left", &s->left));
        return plim_json_bool(j, o, path, "strip_right", &s->right);
    }
    if (!strcmp(type, "Prepend")) {
        s->kind = PLIM_NORMALIZE_PREPEND;
        return copy_member(j, o, path, "prepend", &s->content);
    }
    if (!strcmp(type, "Replace")) {
        s->kind = PLIM_NORMALIZE_REPLACE;
        TRY(copy_member(j, o, path, "content", &s->content));
        return plim_tokenizer_read_pattern(j, o, path, &s->pattern);
    }
    return plim_tokenizer_unknown(
        j, path, "normalizer", type,
        "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Nmt, Strip, Prepend, Replace and Sequence");
}

plim_status plim_tokenizer_read_normalizer(const plim_json *j, plim_tokenizer *t)
{
    t->normalizer.ctx = j->ctx;
    return plim_tokenizer_read_component(j, "normalizer", "normalizers", read_normalizer, t);
}

/* ---- decoders ------------------------------------------------------------------------------------------ */

static plim_status read_metaspace(const plim_json *j, const json_t *o, const char *path, plim_decoder_step *s)
{
    const char *scheme = "always";
    bool prefix = true;
    s->kind = PLIM_DECODE_METASPACE;
    TRY(plim_json_bool_opt(j, o, path, "add_prefix_space", &prefix));
    TRY(plim_json_string_opt(j, o, path, "prepend_scheme", &scheme));
    s->strip = prefix && strcmp(scheme, "never") != 0;
    return copy_member(j, o, path, "replacement", &s->content);
}

static plim_status read_decoder(const plim_json *j, const json_t *o, const char *path, const char *type,
                                plim_tokenizer *t)
{
    plim_decoder *d = &t->decoder;
    if (d->count == PLIM_TOKENIZER_MAX_STEPS) return too_many(j, path);
    plim_decoder_step *s = &d->steps[d->count++];
    if (!strcmp(type, "ByteLevel")) s->kind = PLIM_DECODE_BYTE_LEVEL;
    else if (!strcmp(type, "ByteFallback")) s->kind = PLIM_DECODE_BYTE_FALLBACK;
    else if (!strcmp(type, "Fuse")) s->kind = PLIM_DECODE_FUSE;
    else if (!strcmp(type, "Metaspace")) return read_metaspace(j, o, path, s);
    else if (!strcmp(type, "Replace")) {
        s->kind = PLIM_DECODE_REPLACE;
        TRY(copy_member(j, o, path, "content", &s->content));
        return plim_tokenizer_read_pattern(j, o, path, &s->pattern);
    } else if (!strcmp(type, "Strip")) {
        s->kind = PLIM_DECODE_STRIP;
        TRY(copy_member(j, o, path, "content", &s->content));
        if (!*s->content) return plim_json_fail(j, path, PLIM_E_FORMAT, "its content is empty");
        TRY(plim_json_i64(j, o, path, "start", 0, INT32_MAX, &s->start));
        return plim_json_i64(j, o, path, "stop", 0, INT32_MAX, &s->stop);
    } else {
        return plim_tokenizer_unknown(
            j, path, "decoder", type,
            "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip and Sequence");
    }
    return PLIM_OK;
}

plim_status plim_tokenizer_read_decoder(const plim_json *j, plim_tokenizer *t)
{
    const json_t *decoder = NULL;
    t->decoder.ctx = j->ctx;
    TRY(plim_json_object_opt(j, j->root, "", "decoder", &decoder));
    t->has_decoder = decoder != NULL;
    return plim_tokenizer_read_component(j, "decoder", "decoders", read_decoder, t);
}

/* ---- post-processors ----------------------------------------------------------------------------------- */

static plim_status check_id(const plim_json *j, const plim_tokenizer *t, const char *path, int64_t id)
{
    if (id < PLIM_VOCABULARY_MAX && plim_vocabulary_at(&t->vocabulary, (int32_t)id)) return PLIM_OK;
    return plim_json_fail(j, path, PLIM_E_FORMAT, "id %lld is put around texts, but no token has it",
                          (long long)id);
}

/* Puts ids outside what stands there: a later post-processor wraps the earlier ones' work. */
static plim_status put_outside(plim_ctx *c, int32_t **list, size_t *cap, size_t *count, bool in_front,
                               const int32_t *ids, size_t n)
{
    if (!n) return PLIM_OK;
    TRY(plim_grow(c, list, cap, *count + n, sizeof **list, "a post-processor"));
    if (in_front) memmove(*list + n, *list, *count * sizeof **list);
    memcpy(*list + (in_front ? 0 : *count), ids, n * sizeof **list);
    *count += n;
    return PLIM_OK;
}

/* The ids a template's special token stands for, appended to w. */
static plim_status append_template_token(const plim_json *j, const json_t *o, const char *path,
                                         const char *name, plim_tokenizer *t, int32_t **ids, size_t *cap,
                                         size_t *count)
{
    const json_t *all = NULL, *one = NULL, *list = NULL;
    int64_t id;
    TRY(plim_json_object(j, o, path, "special_tokens", &all));
    TRY(plim_json_object(j, all, path, name, &one));
    TRY(plim_json_array(j, one, path, "ids", &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        TRY(plim_json_at_i64(j, list, path, i, 0, INT32_MAX, &id));
        TRY(check_id(j, t, path, id));
        int32_t narrow = (int32_t)id;
        TRY(put_outside(j->ctx, ids, cap, count, false, &narrow, 1));
    }
    return PLIM_OK;
}

/* The ids of a template before the text, in w's before, and behind it, in w's after. */
static plim_status read_template(const plim_json *j, const json_t *o, const char *path, plim_tokenizer *t,
                                 plim_postprocessor *w)
{
    const json_t *single = NULL, *item = NULL, *token = NULL, *sequence = NULL;
    const char *name = NULL;
    size_t texts = 0;
    TRY(plim_json_array(j, o, path, "single", &single));
    for (size_t i = 0; i < json_array_size(single); i++) {
        TRY(plim_json_at_object(j, single, path, i, &item));
        token = sequence = NULL;
        TRY(plim_json_object_opt(j, item, path, "SpecialToken", &token));
        TRY(plim_json_object_opt(j, item, path, "Sequence", &sequence));
        if (sequence) texts++;
        if (!token) continue;
        TRY(plim_json_string(j, token, path, "id", &name));
        if (texts) TRY(append_template_token(j, o, path, name, t, &w->after, &w->after_cap, &w->after_count));
        else TRY(append_template_token(j, o, path, name, t, &w->before, &w->before_cap, &w->before_count));
    }
    if (texts == 1) return PLIM_OK;
    return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "a template for one text has it %zu times", texts);
}

/* ["[SEP]", 102] */
static plim_status read_named_id(const plim_json *j, const json_t *o, const char *path, const char *key,
                                 const plim_tokenizer *t, int32_t *out)
{
    const json_t *pair = NULL;
    int64_t id;
    TRY(plim_json_array(j, o, path, key, &pair));
    if (json_array_size(pair) != 2)
        return plim_json_fail(j, path, PLIM_E_FORMAT, "%s is no [token, id]", key);
    TRY(plim_json_at_i64(j, pair, path, 1, 0, INT32_MAX, &id));
    TRY(check_id(j, t, path, id));
    *out = (int32_t)id;
    return PLIM_OK;
}

static plim_status wrap(const plim_json *j, plim_tokenizer *t, const plim_postprocessor *w)
{
    plim_postprocessor *p = &t->post;
    TRY(put_outside(j->ctx, &p->before, &p->before_cap, &p->before_count, true, w->before, w->before_count));
    return put_outside(j->ctx, &p->after, &p->after_cap, &p->after_count, false, w->after, w->after_count);
}

static plim_status read_post_processor(const plim_json *j, const json_t *o, const char *path,
                                       const char *type, plim_tokenizer *t)
{
    plim_postprocessor w = {.ctx = j->ctx};
    plim_status st = PLIM_OK;
    if (!strcmp(type, "ByteLevel")) return PLIM_OK; /* trims offsets; ours are of what a token came from */
    if (!strcmp(type, "TemplateProcessing")) {
        st = read_template(j, o, path, t, &w);
        if (!st) st = wrap(j, t, &w);
        plim_release(j->ctx, w.before);
        plim_release(j->ctx, w.after);
        return st;
    }
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")) {
        int32_t cls, sep;
        TRY(read_named_id(j, o, path, "cls", t, &cls));
        TRY(read_named_id(j, o, path, "sep", t, &sep));
        w = (plim_postprocessor){.before = &cls, .before_count = 1, .after = &sep, .after_count = 1};
        return wrap(j, t, &w);
    }
    return plim_tokenizer_unknown(
        j, path, "post-processor", type,
        "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and Sequence");
}

plim_status plim_tokenizer_read_post_processor(const plim_json *j, plim_tokenizer *t)
{
    t->post.ctx = j->ctx;
    return plim_tokenizer_read_component(j, "post_processor", "processors", read_post_processor, t);
}
