/* fuzz_tokenizer.c - a tokenizer.json, a zero byte, and a text: what is accepted has ranges inside the text,
 * gives the same ids with and without them, and its ids decode to UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_tokens(plim_ctx *c, plim_tokenizer_scratch *s, const char *text, size_t bytes)
{
    plim_tokens plain = {0}, ranged = {0};
    char *decoded = NULL;
    size_t decoded_bytes = 0;
    plim_status st = plim_tokenizer_encode(s, text, bytes, (plim_encode_options){0}, &plain);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (st == PLIM_OK) {
        require(plim_tokenizer_encode(s, text, bytes, (plim_encode_options){.offsets = true}, &ranged) ==
                PLIM_OK);
        require(plain.count == ranged.count);
        for (size_t i = 0; i < plain.count; i++) {
            require(plain.ids[i] == ranged.ids[i]);
            require(ranged.ranges[i].begin <= ranged.ranges[i].end && ranged.ranges[i].end <= bytes);
        }
        st = plim_tokenizer_decode(s, plain.ids, plain.count, false, &decoded, &decoded_bytes);
        require(st == PLIM_OK || st == PLIM_E_UNSUPPORTED);
        if (st == PLIM_OK) require(plim_utf8_first_invalid(decoded, decoded_bytes) == decoded_bytes);
    }
    plim_release(c, decoded);
    plim_tokens_close(&plain);
    plim_tokens_close(&ranged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_tokenizer *t = NULL;
    plim_tokenizer_scratch *s = NULL;
    const uint8_t *zero = bytes ? memchr(data, 0, bytes) : NULL;
    size_t json_bytes = zero ? (size_t)(zero - data) : bytes;
    const char *text = zero ? (const char *)zero + 1 : "ab<s> 12\xc3\xa9";
    size_t text_bytes = zero ? bytes - json_bytes - 1 : strlen(text);
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_tokenizer_parse(c, "tokenizer.json", (const char *)data, json_bytes, &t);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (st == PLIM_OK && plim_tokenizer_scratch_open(c, t, &s) == PLIM_OK)
        check_tokens(c, s, text, text_bytes);
    plim_tokenizer_scratch_close(s);
    plim_tokenizer_close(t);
    plim_ctx_close(c);
    return 0;
}
