/* tokenizer_model.c - decides what of a tokenizer.json's "model" is accepted: byte-pair encoding without
 * chance. */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer_parts.h"

static plim_status read_vocabulary(const plim_json *j, const json_t *model, plim_tokenizer *t)
{
    const json_t *vocab = NULL;
    const char *key;
    json_t *value;
    TRY(plim_json_object(j, model, "model", "vocab", &vocab));
    TRY(plim_vocabulary_open(j->ctx, json_object_size(vocab), &t->vocabulary));
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
    {
        if (!json_is_integer(value))
            return plim_json_fail(j, "model.vocab", PLIM_E_FORMAT, "the id of \"%.100s\" is no integer", key);
        plim_status st = plim_vocabulary_add(&t->vocabulary, key, strlen(key), json_integer_value(value));
        if (st) return plim_tokenizer_failed(j, "model.vocab", st);
    }
    return PLIM_OK;
}

/* A merge's two strings: an array of two, or one string with a blank between them. */
typedef struct pair {
    const char *left, *right;
    size_t left_bytes, right_bytes;
} pair;

static bool read_pair(const json_t *merge, pair *out)
{
    if (json_is_array(merge)) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_array_size(merge) != 2 || !json_is_string(left) || !json_is_string(right)) return false;
        *out = (pair){json_string_value(left), json_string_value(right), json_string_length(left),
                      json_string_length(right)};
        return true;
    }
    if (!json_is_string(merge)) return false;
    const char *text = json_string_value(merge), *blank = strchr(text, ' ');
    if (!blank || strchr(blank + 1, ' ')) return false;
    *out = (pair){text, blank + 1, (size_t)(blank - text), strlen(blank + 1)};
    return true;
}

/* The token a pair becomes: both strings, less the prefix of what continues a word. */
static plim_status find_joined(plim_tokenizer *t, const pair *p, char **text, size_t *cap, int32_t *out)
{
    size_t skip = t->bpe.prefix ? strlen(t->bpe.prefix) : 0;
    if (skip > p->right_bytes) skip = p->right_bytes;
    size_t bytes = p->left_bytes + p->right_bytes - skip;
    TRY(plim_grow(t->ctx, text, cap, bytes + 1, 1, "a merge"));
    memcpy(*text, p->left, p->left_bytes);
    memcpy(*text + p->left_bytes, p->right + skip, p->right_bytes - skip);
    *out = plim_vocabulary_find(&t->vocabulary, *text, bytes);
    return PLIM_OK;
}

static plim_status read_merge(const plim_json *j, const json_t *merge, size_t rank, plim_tokenizer *t,
                              char **text, size_t *cap)
{
    char path[64];
    pair p;
    int32_t joined;
    snprintf(path, sizeof path, "model.merges[%zu]", rank);
    if (!read_pair(merge, &p))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "a merge is [\"left\", \"right\"] or \"left right\"");
    int32_t left = plim_vocabulary_find(&t->vocabulary, p.left, p.left_bytes);
    int32_t right = plim_vocabulary_find(&t->vocabulary, p.right, p.right_bytes);
    TRY(find_joined(t, &p, text, cap, &joined));
    if (left < 0 || right < 0 || joined < 0)
        return plim_json_fail(j, path, PLIM_E_FORMAT,
                              "\"%.*s\" and \"%.*s\" are merged, but the vocabulary does not have %s",
                              (int)(p.left_bytes < 100 ? p.left_bytes : 100), p.left,
                              (int)(p.right_bytes < 100 ? p.right_bytes : 100), p.right,
                              left < 0    ? "the first"
                              : right < 0 ? "the second"
                                          : "what they become");
    plim_bpe_add_merge(&t->bpe, left, right, (uint32_t)rank, joined);
    return PLIM_OK;
}

static plim_status read_merges(const plim_json *j, const json_t *merges, plim_tokenizer *t)
{
    char *text = NULL;
    size_t cap = 0;
    plim_status st = PLIM_OK;
    for (size_t i = 0; !st && i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        /* a line of the old merges.txt, and no merge */
        if (json_is_string(merge) && !strncmp(json_string_value(merge), "#version", 8)) continue;
        st = read_merge(j, merge, i, t, &text, &cap);
    }
    plim_release(j->ctx, text);
    return st;
}

static plim_status read_affix(const plim_json *j, const json_t *model, const char *key, char **out)
{
    const char *text = "";
    TRY(plim_json_string_opt(j, model, "model", key, &text));
    return *text ? plim_tokenizer_copy(j->ctx, text, out) : PLIM_OK;
}

static plim_status read_options(const plim_json *j, const json_t *model, plim_tokenizer *t)
{
    double dropout = 0.0;
    const char *unknown = NULL;
    plim_bpe *b = &t->bpe;
    TRY(plim_json_double_opt(j, model, "model", "dropout", 0.0, 1.0, &dropout));
    if (dropout > 0.0)
        return plim_json_fail(j, "model.dropout", PLIM_E_UNSUPPORTED,
                              "tokens would be left to chance; set it to null");
    TRY(plim_json_bool_opt(j, model, "model", "fuse_unk", &b->fuse_unknown));
    TRY(plim_json_bool_opt(j, model, "model", "byte_fallback", &b->byte_fallback));
    TRY(plim_json_bool_opt(j, model, "model", "ignore_merges", &b->ignore_merges));
    TRY(plim_json_string_opt(j, model, "model", "unk_token", &unknown));
    if (unknown) b->unknown = plim_vocabulary_find(&t->vocabulary, unknown, strlen(unknown));
    if (unknown && b->unknown < 0) b->unknown = PLIM_BPE_UNKNOWN_MISSING;
    TRY(read_affix(j, model, "continuing_subword_prefix", &b->prefix));
    return read_affix(j, model, "end_of_word_suffix", &b->suffix);
}

plim_status plim_tokenizer_read_model(const plim_json *j, plim_tokenizer *t)
{
    const json_t *model = NULL, *merges = NULL;
    const char *type = "BPE"; /* old files do not say */
    TRY(plim_json_object(j, j->root, "", "model", &model));
    TRY(plim_json_string_opt(j, model, "model", "type", &type));
    if (strcmp(type, "BPE") != 0) return plim_tokenizer_unknown(j, "model.type", "model", type, "BPE");
    TRY(plim_json_array(j, model, "model", "merges", &merges));
    TRY(read_vocabulary(j, model, t));
    TRY(plim_bpe_open(j->ctx, &t->vocabulary, json_array_size(merges), &t->bpe));
    TRY(read_options(j, model, t));
    TRY(read_merges(j, merges, t));
    t->bpe.byte_level = t->pretokenizer.byte_level;
    plim_bpe_index(&t->bpe);
    return PLIM_OK;
}
