/* tokenizer.c - decides the way of a text through a tokenizer: added tokens, normaliser, added tokens again,
 * pre-tokeniser, model. */
#include "text/tokenizer_parts.h"

#include <string.h>

#include "text/unicode.h"

struct plim_tokenizer_scratch {
    plim_ctx *ctx;
    const plim_tokenizer *t;
    plim_matcher matcher;
    plim_bpe_scratch bpe;
    plim_normalizer_scratch normalizer;
    plim_pretokenizer_scratch pretokenizer;
    plim_stage original; /* the text at hand */
    plim_tokens *out;
};

int64_t plim_tokenizer_size(const plim_tokenizer *t)
{
    return (int64_t)t->vocabulary.size;
}

const char *plim_tokenizer_text(const plim_tokenizer *t, int32_t id)
{
    const plim_vocabulary_entry *e = plim_vocabulary_at(&t->vocabulary, id);
    return e ? plim_vocabulary_text(&t->vocabulary, e) : NULL;
}

bool plim_tokenizer_is_special(const plim_tokenizer *t, int32_t id)
{
    const plim_vocabulary_entry *e = plim_vocabulary_at(&t->vocabulary, id);
    return e && e->special;
}

int32_t plim_tokenizer_id(const plim_tokenizer *t, const char *text)
{
    size_t bytes = strlen(text);
    int32_t id = plim_vocabulary_find(&t->vocabulary, text, bytes);
    for (size_t i = 0; id < 0 && i < t->vocabulary.size;
         i++) { /* tokens beside the model's are few, but not indexed */
        const plim_vocabulary_entry *e = &t->vocabulary.entries[i];
        if (e->known && e->bytes == bytes && !memcmp(plim_vocabulary_text(&t->vocabulary, e), text, bytes))
            id = (int32_t)i;
    }
    return id;
}

void plim_tokens_close(plim_tokens *k)
{
    plim_release(k->ctx, k->ids);
    plim_release(k->ctx, k->ranges);
    *k = (plim_tokens){0};
}

plim_status plim_tokenizer_scratch_open(plim_ctx *c, const plim_tokenizer *t, plim_tokenizer_scratch **out)
{
    plim_tokenizer_scratch *s = NULL;
    TRY(plim_alloc(c, 1, sizeof *s, "a tokenizer's working memory", &s));
    s->ctx = c;
    s->t = t;
    plim_status st = plim_matcher_open(c, &s->matcher);
    if (!st) st = plim_bpe_scratch_open(c, &s->bpe);
    if (st) plim_tokenizer_scratch_close(s);
    else *out = s;
    return st;
}

void plim_tokenizer_scratch_close(plim_tokenizer_scratch *s)
{
    if (!s) return;
    plim_pretokenizer_scratch_close(&s->pretokenizer);
    plim_normalizer_scratch_close(&s->normalizer);
    plim_bpe_scratch_close(&s->bpe);
    plim_matcher_close(&s->matcher);
    plim_release(s->ctx, s);
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

static plim_status reserve(plim_tokenizer_scratch *s, size_t more)
{
    plim_tokens *k = s->out;
    TRY(plim_grow(s->ctx, &k->ids, &k->ids_cap, k->count + more, sizeof *k->ids, "token ids"));
    if (!s->original.tracked) return PLIM_OK;
    return plim_grow(s->ctx, &k->ranges, &k->ranges_cap, k->count + more, sizeof *k->ranges,
                     "offsets of tokens");
}

/* Where in the original a range came from, in whole characters. */
static plim_token_range origin(const plim_tokenizer_scratch *s, plim_span from)
{
    plim_token_range r;
    const char *text = s->original.text;
    plim_span_origin(from, &r.begin, &r.end);
    if (r.begin >= s->original.bytes) return r;
    while (plim_utf8_continues(text[r.begin])) r.begin--;
    while (r.end < s->original.bytes && plim_utf8_continues(text[r.end])) r.end++;
    return r;
}

/* Appends id for a range of one of the stages; there is room. */
static void append(plim_tokenizer_scratch *s, int32_t id, plim_span from)
{
    plim_tokens *k = s->out;
    if (s->original.tracked)
        k->ranges[k->count] =
            from.begin < from.end ? origin(s, from) : (plim_token_range){from.begin, from.end};
    k->ids[k->count++] = id;
}

static plim_status encode_piece(void *user, plim_span piece)
{
    plim_tokenizer_scratch *s = user;
    TRY(plim_bpe_encode(&s->t->bpe, &s->bpe, plim_span_text(piece), plim_span_bytes(piece)));
    TRY(reserve(s, s->bpe.count));
    if (!s->original.tracked) {
        int32_t *to = s->out->ids + s->out->count;
        for (size_t i = 0; i < s->bpe.count; i++) to[i] = s->bpe.symbols[i].id;
        s->out->count += s->bpe.count;
        return PLIM_OK;
    }
    for (size_t i = 0; i < s->bpe.count; i++) {
        const plim_symbol *y = &s->bpe.symbols[i];
        append(s, y->id, (plim_span){piece.stage, piece.begin + y->begin, piece.begin + y->end});
    }
    return PLIM_OK;
}

typedef plim_status (*between)(plim_tokenizer_scratch *s, plim_span span);

/* Cuts the tokens of set out of span, and hands what lies between them on. */
static plim_status cut(plim_tokenizer_scratch *s, const plim_added_set *set, plim_span span, between next)
{
    plim_added_walk w = {.set = set, .text = plim_span_text(span), .bytes = plim_span_bytes(span)};
    const plim_added_token *t;
    size_t at = 0, begin, end;
    while ((t = plim_added_next(&w, &begin, &end))) {
        if (at < begin) TRY(next(s, (plim_span){span.stage, span.begin + at, span.begin + begin}));
        TRY(reserve(s, 1));
        append(s, t->id, (plim_span){span.stage, span.begin + begin, span.begin + end});
        at = end;
    }
    return at < w.bytes ? next(s, (plim_span){span.stage, span.begin + at, span.end}) : PLIM_OK;
}

static plim_status split(plim_tokenizer_scratch *s, plim_span span)
{
    return plim_pretokenize(s->ctx, &s->t->pretokenizer, &s->pretokenizer, &s->matcher, span, encode_piece,
                            s);
}

static plim_status normalize(plim_tokenizer_scratch *s, plim_span span)
{
    plim_span now;
    TRY(plim_normalize(s->ctx, &s->t->normalizer, &s->normalizer, &s->matcher, span, &now));
    return cut(s, &s->t->normalized, now, split);
}

static plim_status append_around(plim_tokenizer_scratch *s, const int32_t *ids, size_t count, size_t at)
{
    TRY(reserve(s, count));
    for (size_t i = 0; i < count; i++) append(s, ids[i], (plim_span){&s->original, at, at});
    return PLIM_OK;
}

static plim_status encode(plim_tokenizer_scratch *s, bool special)
{
    const plim_postprocessor *p = &s->t->post;
    size_t valid = plim_utf8_first_invalid(s->original.text, s->original.bytes);
    if (valid < s->original.bytes)
        return plim_fail(s->ctx, PLIM_E_FORMAT,
                         "the text is not UTF-8: byte 0x%02X at offset %zu; convert it first",
                         (unsigned char)s->original.text[valid], valid);
    TRY(plim_grow(s->ctx, &s->out->ids, &s->out->ids_cap, 1, sizeof *s->out->ids, "token ids"));
    if (special) TRY(append_around(s, p->before, p->before_count, 0));
    TRY(cut(s, &s->t->plain, plim_stage_span(&s->original), normalize));
    return special ? append_around(s, p->after, p->after_count, s->original.bytes) : PLIM_OK;
}

plim_status plim_tokenizer_encode(plim_tokenizer_scratch *s, const char *text, size_t bytes,
                                  plim_encode_options options, plim_tokens *out)
{
    out->ctx = s->ctx;
    out->count = 0;
    s->out = out;
    s->original = (plim_stage){.ctx = s->ctx, .text = text, .bytes = bytes, .tracked = options.offsets};
    plim_status st = encode(s, options.special);
    if (st) out->count = 0;
    s->out = NULL;
    return st;
}

/* ---- decoding ------------------------------------------------------------------------------------------ */

static plim_status gather(const plim_tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
                          plim_strings *out)
{
    for (size_t i = 0; i < count; i++) {
        const plim_vocabulary_entry *e = plim_vocabulary_at(&t->vocabulary, ids[i]);
        if (!e)
            return plim_fail(out->ctx, PLIM_E_RANGE,
                             "token %zu is %d, an id without a token; ids go up to %zu", i, (int)ids[i],
                             t->vocabulary.size ? t->vocabulary.size - 1 : 0);
        if (e->special && skip_special) continue;
        if (!t->has_decoder && out->count) TRY(plim_strings_add(out, " ", 1));
        TRY(plim_strings_add(out, plim_vocabulary_text(&t->vocabulary, e), e->bytes));
    }
    return PLIM_OK;
}

plim_status plim_tokenizer_decode(plim_tokenizer_scratch *s, const int32_t *ids, size_t count,
                                  bool skip_special, char **out, size_t *out_bytes)
{
    plim_strings strings = {.ctx = s->ctx};
    plim_status st = gather(s->t, ids, count, skip_special, &strings);
    if (!st) st = plim_decode(&s->t->decoder, &s->matcher, &strings);
    if (!st) st = plim_grow(s->ctx, &strings.text, &strings.cap, strings.bytes + 1, 1, "decoded text");
    if (!st) {
        strings.text[strings.bytes] = 0;
        *out = strings.text;
        *out_bytes = strings.bytes;
        strings.text = NULL;
    }
    plim_strings_close(&strings);
    return st;
}
