/* tokenizer_oracle.h - a tokenizer and what the fast tokenizer made of texts with it
 * (scripts/tokenizer-oracle). */
#ifndef PLIM_TESTS_TEXT_TOKENIZER_ORACLE_H
#define PLIM_TESTS_TEXT_TOKENIZER_ORACLE_H

#include <jansson.h>
#include <stdlib.h>

#include "support/test.h"

#include "base/context.h"
#include "text/tokenizer.h"

#define TOKENIZERS PLIM_TEST_DATA "/tokenizers/"

typedef struct oracle {
    plim_ctx *c;
    plim_tokenizer *t;
    plim_tokenizer_scratch *s;
    plim_tokens tokens;
} oracle;

static inline void oracle_open(oracle *o, const char *path)
{
    *o = (oracle){.c = test_ctx_open()};
    CHECK_OK(o->c, plim_tokenizer_load(o->c, path, &o->t));
    CHECK_OK(o->c, plim_tokenizer_scratch_open(o->c, o->t, &o->s));
}

static inline void oracle_close(oracle *o)
{
    plim_tokens_close(&o->tokens);
    plim_tokenizer_scratch_close(o->s);
    plim_tokenizer_close(o->t);
    test_ctx_close(o->c);
}

/* The same tokenizer from text in memory, which must be accepted. */
static inline void oracle_parse(oracle *o, const char *text)
{
    *o = (oracle){.c = test_ctx_open()};
    CHECK_OK(o->c, plim_tokenizer_parse(o->c, "t.json", text, strlen(text), &o->t));
    CHECK_OK(o->c, plim_tokenizer_scratch_open(o->c, o->t, &o->s));
}

static inline void check_ids(oracle *o, const char *text, size_t bytes, plim_encode_options how,
                             const json_t *want)
{
    CHECK_OK(o->c, plim_tokenizer_encode(o->s, text, bytes, how, &o->tokens));
    for (size_t i = 0; i < json_array_size(want) && i < o->tokens.count; i++)
        if (o->tokens.ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: token %zu is %d, not %lld", text, i, (int)o->tokens.ids[i],
                     (long long)json_integer_value(json_array_get(want, i)));
    if (o->tokens.count != json_array_size(want))
        fail_msg("%s: %zu tokens, not %zu", text, o->tokens.count, json_array_size(want));
}

static inline void check_decoded(oracle *o, bool skip_special, const json_t *want)
{
    char *text = NULL;
    size_t bytes = 0;
    CHECK_OK(o->c, plim_tokenizer_decode(o->s, o->tokens.ids, o->tokens.count, skip_special, &text, &bytes));
    if (bytes != json_string_length(want) || memcmp(text, json_string_value(want), bytes) != 0)
        fail_msg("decoded as '%s', not '%s'", text, json_string_value(want));
    plim_release(o->c, text);
}

/* Every row of ids_path: ids with and without special tokens, ranges where exact_offsets, decoding. Rows: how
 * many. */
static inline size_t check_oracle(const char *tokenizer, const char *ids_path, bool exact_offsets)
{
    oracle o;
    oracle_open(&o, tokenizer);
    json_t *rows = json_load_file(ids_path, 0, NULL);
    size_t count = json_array_size(rows);
    for (size_t r = 0; r < count; r++) {
        const json_t *row = json_array_get(rows, r), *text = json_object_get(row, "text");
        const char *at = json_string_value(text);
        size_t bytes = json_string_length(text);
        check_ids(&o, at, bytes, (plim_encode_options){.special = true}, json_object_get(row, "special"));
        check_ids(&o, at, bytes, (plim_encode_options){0}, json_object_get(row, "ids"));
        check_ids(&o, at, bytes, (plim_encode_options){.offsets = true}, json_object_get(row, "ids"));
        for (size_t i = 0; exact_offsets && i < o.tokens.count; i++) {
            const json_t *want = json_array_get(json_object_get(row, "offsets"), i);
            assert_int_equal(o.tokens.ranges[i].begin, json_integer_value(json_array_get(want, 0)));
            assert_int_equal(o.tokens.ranges[i].end, json_integer_value(json_array_get(want, 1)));
        }
        check_decoded(&o, false, json_object_get(row, "decoded"));
        check_decoded(&o, true, json_object_get(row, "skipped"));
    }
    json_decref(rows);
    oracle_close(&o);
    return count;
}

#endif
