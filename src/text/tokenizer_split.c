/* tokenizer_split.c - decides which pre-tokenisers of a tokenizer.json are known, and what they split at. */
#include <string.h>

#include "text/tokenizer_parts.h"
#include "text/unicode.h"

/* What ByteLevel splits at.  Source: the GPT-2 encoder. */
#define GPT2_REGEX "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* What Whitespace keeps: words, and runs of neither words nor white space.  Its words have the joiners. */
#define WORDS_REGEX "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+"

static plim_status read_behavior(const plim_json *j, const json_t *o, const char *path, plim_split *out)
{
    static const char *const names[PLIM_SPLIT_COUNT] = {
#define NAME(name, key) key,
        PLIM_SPLIT_MAP(NAME)
#undef NAME
    };
    const char *name = NULL;
    TRY(plim_json_string_opt(j, o, path, "behavior", &name));
    if (!name) return PLIM_OK;
    for (int i = 0; i < PLIM_SPLIT_COUNT; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (plim_split)i;
        return PLIM_OK;
    }
    return plim_tokenizer_unknown(j, path, "behavior", name,
                                  "Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

static plim_status split_at_class(plim_pretokenizer_step *s, bool (*is_in)(uint32_t), plim_split behavior)
{
    s->splits = true;
    s->behavior = behavior;
    plim_pattern_class(is_in, &s->pattern);
    return PLIM_OK;
}

static plim_status read_split(const plim_json *j, const json_t *o, const char *path,
                              plim_pretokenizer_step *s)
{
    const char *behavior = NULL;
    s->splits = true;
    TRY(plim_json_string(j, o, path, "behavior", &behavior));
    TRY(read_behavior(j, o, path, &s->behavior));
    TRY(plim_json_bool_opt(j, o, path, "invert", &s->invert));
    return plim_tokenizer_read_pattern(j, o, path, &s->pattern);
}

static plim_status read_byte_level(const plim_json *j, const json_t *o, const char *path,
                                   plim_pretokenizer_step *s, plim_tokenizer *t)
{
    bool prefix = true;
    s->splits = true;
    s->behavior = PLIM_SPLIT_ISOLATED;
    t->pretokenizer.byte_level = true;
    TRY(plim_json_bool_opt(j, o, path, "add_prefix_space", &prefix));
    TRY(plim_json_bool_opt(j, o, path, "use_regex", &s->splits));
    s->prefix = prefix ? PLIM_PREFIX_ALWAYS : PLIM_PREFIX_NEVER;
    return s->splits ? plim_pattern_regex(j->ctx, GPT2_REGEX, &s->pattern) : PLIM_OK;
}

static plim_status read_scheme(const plim_json *j, const json_t *o, const char *path, plim_prefix *out)
{
    static const char *const names[] = {"never", "first", "always"};
    const char *scheme = NULL;
    bool prefix = true;
    TRY(plim_json_bool_opt(j, o, path, "add_prefix_space", &prefix));
    TRY(plim_json_string_opt(j, o, path, "prepend_scheme", &scheme));
    *out = prefix ? PLIM_PREFIX_ALWAYS : PLIM_PREFIX_NEVER; /* files before there was a scheme */
    if (!scheme) return PLIM_OK;
    for (int i = 0; i < 3; i++) {
        if (strcmp(scheme, names[i]) != 0) continue;
        *out = (plim_prefix)i;
        return PLIM_OK;
    }
    return plim_tokenizer_unknown(j, path, "prepend_scheme", scheme, "never, first and always");
}

static plim_status read_metaspace(const plim_json *j, const json_t *o, const char *path,
                                  plim_pretokenizer_step *s)
{
    const char *replacement = NULL;
    s->splits = true;
    s->behavior = PLIM_SPLIT_MERGED_WITH_NEXT;
    TRY(plim_json_string(j, o, path, "replacement", &replacement));
    if (!*replacement || plim_utf8_size(*replacement) != strlen(replacement))
        return plim_json_fail(j, path, PLIM_E_FORMAT, "the replacement \"%.40s\" is not one character",
                              replacement);
    TRY(plim_tokenizer_copy(j->ctx, replacement, &s->replacement));
    TRY(read_scheme(j, o, path, &s->prefix));
    TRY(plim_json_bool_opt(j, o, path, "split", &s->splits));
    return s->splits ? plim_pattern_string(j->ctx, replacement, strlen(replacement), &s->pattern) : PLIM_OK;
}

static plim_status read_delimiter(const plim_json *j, const json_t *o, const char *path,
                                  plim_pretokenizer_step *s)
{
    const char *delimiter = NULL;
    s->splits = true;
    s->behavior = PLIM_SPLIT_REMOVED;
    TRY(plim_json_string(j, o, path, "delimiter", &delimiter));
    return plim_pattern_string(j->ctx, delimiter, strlen(delimiter), &s->pattern);
}

static plim_status read_digits(const plim_json *j, const json_t *o, const char *path,
                               plim_pretokenizer_step *s)
{
    bool individual = false;
    TRY(plim_json_bool_opt(j, o, path, "individual_digits", &individual));
    return split_at_class(s, plim_unicode_is_numeric,
                          individual ? PLIM_SPLIT_ISOLATED : PLIM_SPLIT_CONTIGUOUS);
}

static plim_status read_punctuation(const plim_json *j, const json_t *o, const char *path,
                                    plim_pretokenizer_step *s)
{
    plim_split behavior = PLIM_SPLIT_ISOLATED;
    TRY(read_behavior(j, o, path, &behavior));
    return split_at_class(s, plim_unicode_is_punctuation, behavior);
}

static plim_status read_words(const plim_json *j, plim_pretokenizer_step *s)
{
    s->splits = s->invert = true;
    s->behavior = PLIM_SPLIT_REMOVED;
    return plim_pattern_regex(j->ctx, WORDS_REGEX, &s->pattern);
}

static plim_status read_step(const plim_json *j, const json_t *o, const char *path, const char *type,
                             plim_tokenizer *t)
{
    plim_pretokenizer *p = &t->pretokenizer;
    if (p->byte_level)
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED,
                              "%.60s comes after ByteLevel, which must be the last step", type);
    if (p->count + 2 > PLIM_TOKENIZER_MAX_STEPS)
        return plim_json_fail(j, path, PLIM_E_UNSUPPORTED, "more than %d steps one after the other",
                              PLIM_TOKENIZER_MAX_STEPS - 2);
    plim_pretokenizer_step *s =
        &p->steps[p->count++]; /* counted at once: closing releases what it holds so far */
    if (!strcmp(type, "Split")) return read_split(j, o, path, s);
    if (!strcmp(type, "ByteLevel")) return read_byte_level(j, o, path, s, t);
    if (!strcmp(type, "Metaspace")) return read_metaspace(j, o, path, s);
    if (!strcmp(type, "Digits")) return read_digits(j, o, path, s);
    if (!strcmp(type, "Punctuation")) return read_punctuation(j, o, path, s);
    if (!strcmp(type, "Whitespace")) return read_words(j, s);
    if (!strcmp(type, "WhitespaceSplit")) return split_at_class(s, plim_unicode_is_space, PLIM_SPLIT_REMOVED);
    if (!strcmp(type, "CharDelimiterSplit")) return read_delimiter(j, o, path, s);
    if (!strcmp(type, "BertPreTokenizer")) {
        split_at_class(s, plim_unicode_is_space, PLIM_SPLIT_REMOVED);
        return split_at_class(&p->steps[p->count++], plim_unicode_is_punctuation, PLIM_SPLIT_ISOLATED);
    }
    return plim_tokenizer_unknown(
        j, path, "pre_tokenizer", type,
        "Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
        "CharDelimiterSplit, BertPreTokenizer and Sequence");
}

plim_status plim_tokenizer_read_pretokenizer(const plim_json *j, plim_tokenizer *t)
{
    t->pretokenizer.ctx = j->ctx;
    return plim_tokenizer_read_component(j, "pre_tokenizer", "pretokenizers", read_step, t);
}
