/* bpe.c - decides which symbols a piece of text starts as, and remembers short pieces. */
#include "text/bpe.h"

#include <stdio.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/unicode.h"

plim_status plim_bpe_open(plim_ctx *c, const plim_vocabulary *v, size_t count, plim_bpe *out)
{
    plim_bpe b = {.ctx = c, .vocabulary = v, .slot_count = 64, .shift = 58, .unknown = PLIM_BPE_NO_UNKNOWN};
    while (b.slot_count < 2 * count + 2) {
        b.slot_count *= 2;
        b.shift--;
    }
    TRY(plim_alloc(c, b.slot_count, sizeof *b.merges, "merges", &b.merges));
    for (size_t i = 0; i < b.slot_count; i++) b.merges[i].key = UINT64_MAX;
    *out = b;
    return PLIM_OK;
}

void plim_bpe_add_merge(plim_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> b->shift);
    while (b->merges[at].key != UINT64_MAX && b->merges[at].key != key) at = (at + 1) & (b->slot_count - 1);
    b->merges[at] = (plim_merge){key, rank, id};
}

void plim_bpe_index(plim_bpe *b)
{
    char text[16];
    for (int i = 0; i < 256; i++) {
        size_t n = plim_utf8_put(text, plim_byte_level_char((unsigned char)i));
        b->byte_ids[i] = plim_vocabulary_find(b->vocabulary, text, n);
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        b->fallback_ids[i] = plim_vocabulary_find(b->vocabulary, text, 6);
    }
    for (int i = 0; i < 128; i++) {
        text[0] = (char)i;
        b->ascii_ids[i] = plim_vocabulary_find(b->vocabulary, text, 1);
    }
}

void plim_bpe_close(plim_bpe *b)
{
    plim_release(b->ctx, b->merges);
    plim_release(b->ctx, b->prefix);
    plim_release(b->ctx, b->suffix);
    *b = (plim_bpe){0};
}

plim_status plim_bpe_scratch_open(plim_ctx *c, plim_bpe_scratch *out)
{
    plim_bpe_scratch s = {.ctx = c};
    TRY(plim_alloc(c, PLIM_BPE_CACHE_SLOTS, sizeof *s.cache, "a tokenizer's cache", &s.cache));
    *out = s;
    return PLIM_OK;
}

void plim_bpe_scratch_close(plim_bpe_scratch *s)
{
    plim_release(s->ctx, s->symbols);
    plim_release(s->ctx, s->heap);
    plim_release(s->ctx, s->text);
    plim_release(s->ctx, s->cache);
    *s = (plim_bpe_scratch){0};
}

/* ---- first symbols ------------------------------------------------------------------------------------- */

/* Walks the characters of a piece. */
typedef struct starter {
    const plim_bpe *b;
    plim_bpe_scratch *s;
    const char *text;
    size_t bytes;
    plim_symbol unknown; /* begin == end: none is waiting */
} starter;

static void add(plim_bpe_scratch *s, int32_t id, size_t begin, size_t end)
{
    s->symbols[s->count++] = (plim_symbol){.id = id, .begin = (uint32_t)begin, .end = (uint32_t)end};
}

static void flush_unknown(starter *w)
{
    if (w->unknown.end > w->unknown.begin) w->s->symbols[w->s->count++] = w->unknown;
    w->unknown.end = w->unknown.begin = 0;
}

/* A character with what stands before and behind it in the vocabulary, in s->text; its bytes. */
static plim_status affixed(starter *w, const char *character, size_t n, bool first, bool last,
                           size_t *out_bytes)
{
    const char *prefix = !first && w->b->prefix ? w->b->prefix : "";
    const char *suffix = last && w->b->suffix ? w->b->suffix : "";
    size_t before = strlen(prefix), behind = strlen(suffix);
    *out_bytes = before + n + behind;
    TRY(plim_grow(w->s->ctx, &w->s->text, &w->s->text_cap, *out_bytes + 1, 1, "a character's token"));
    memcpy(w->s->text, prefix, before);
    memcpy(w->s->text + before, character, n);
    memcpy(w->s->text + before + n, suffix, behind);
    return PLIM_OK;
}

/* One token a byte for a character without one of its own; false: the vocabulary does not have them all. */
static plim_status fall_back(starter *w, const char *token, size_t n, size_t begin, size_t end, bool *done)
{
    plim_bpe_scratch *s = w->s;
    for (size_t i = 0; i < n; i++)
        if (w->b->fallback_ids[(unsigned char)token[i]] < 0) return PLIM_OK;
    TRY(plim_grow(s->ctx, &s->symbols, &s->cap, s->count + n + 1 + (w->bytes - end), sizeof *s->symbols,
                  "tokens of a piece"));
    for (size_t i = 0; i < n; i++) {
        size_t from = begin + i < end ? begin + i : end - 1; /* an affix has more bytes than the text */
        add(s, w->b->fallback_ids[(unsigned char)token[i]], from, from + 1);
    }
    *done = true;
    return PLIM_OK;
}

static plim_status add_unknown(starter *w, size_t begin, size_t end)
{
    const plim_bpe *b = w->b;
    if (b->unknown == PLIM_BPE_NO_UNKNOWN) return PLIM_OK;
    if (b->unknown < 0)
        return plim_fail(
            w->s->ctx, PLIM_E_MISMATCH,
            "byte %zu of a piece of text has no token, and the tokenizer's unk_token is not in its "
            "vocabulary",
            begin);
    if (b->fuse_unknown && w->unknown.end > w->unknown.begin) {
        w->unknown.end = (uint32_t)end;
        return PLIM_OK;
    }
    flush_unknown(w);
    w->unknown = (plim_symbol){.id = b->unknown, .begin = (uint32_t)begin, .end = (uint32_t)end};
    return PLIM_OK;
}

static plim_status start_character(starter *w, const char *character, size_t n, size_t begin, size_t end)
{
    const plim_bpe *b = w->b;
    bool done = false;
    int32_t id;
    if (b->prefix || b->suffix) {
        TRY(affixed(w, character, n, begin == 0, end == w->bytes, &n));
        character = w->s->text;
        id = plim_vocabulary_find(b->vocabulary, character, n);
    } else if (b->byte_level) {
        id = b->byte_ids[(unsigned char)w->text[begin]];
    } else {
        id = n == 1 ? b->ascii_ids[(unsigned char)*character]
                    : plim_vocabulary_find(b->vocabulary, character, n);
    }
    if (id >= 0) {
        flush_unknown(w);
        add(w->s, id, begin, end);
        return PLIM_OK;
    }
    if (b->byte_fallback) TRY(fall_back(w, character, n, begin, end, &done));
    return done ? PLIM_OK : add_unknown(w, begin, end);
}

static plim_status start(const plim_bpe *b, plim_bpe_scratch *s, const char *text, size_t bytes)
{
    starter w = {.b = b, .s = s, .text = text, .bytes = bytes};
    char mapped[PLIM_UTF8_MAX_BYTES];
    s->count = 0;
    /* a character gives at most a symbol a byte, but for affixes, and one unknown waits */
    TRY(plim_grow(s->ctx, &s->symbols, &s->cap, bytes + 1, sizeof *s->symbols, "tokens of a piece"));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = b->byte_level ? 1 : plim_utf8_size(text[at]);
        if (b->byte_level) {
            size_t m = plim_utf8_put(mapped, plim_byte_level_char((unsigned char)text[at]));
            TRY(start_character(&w, mapped, m, at, at + 1));
        } else {
            TRY(start_character(&w, text + at, n, at, at + n));
        }
    }
    flush_unknown(&w);
    return PLIM_OK;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

/* The id of a piece that is a token as it stands, or -1. */
static plim_status find_whole(const plim_bpe *b, plim_bpe_scratch *s, const char *text, size_t bytes,
                              int32_t *out)
{
    size_t n = 0;
    if (!b->byte_level) {
        *out = plim_vocabulary_find(b->vocabulary, text, bytes);
        return PLIM_OK;
    }
    TRY(plim_grow(s->ctx, &s->text, &s->text_cap, 2 * bytes + 1, 1, "a piece of text"));
    for (size_t i = 0; i < bytes; i++)
        n += plim_utf8_put(s->text + n, plim_byte_level_char((unsigned char)text[i]));
    *out = plim_vocabulary_find(b->vocabulary, s->text, n);
    return PLIM_OK;
}

static plim_status encode(const plim_bpe *b, plim_bpe_scratch *s, const char *text, size_t bytes)
{
    int32_t id = -1;
    if (b->ignore_merges) TRY(find_whole(b, s, text, bytes, &id));
    if (id < 0) {
        TRY(start(b, s, text, bytes));
        return plim_bpe_merge(b, s);
    }
    TRY(plim_grow(s->ctx, &s->symbols, &s->cap, 1, sizeof *s->symbols, "tokens of a piece"));
    s->count = 0;
    add(s, id, 0, bytes);
    return PLIM_OK;
}

static uint64_t load(const char *text, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, text, bytes);
    return word;
}

static plim_bpe_cached *cache_slot(const plim_bpe_scratch *s, const char *text, size_t bytes)
{
    uint64_t hash = bytes;
    for (; bytes > 8; text += 8, bytes -= 8)
        hash = (hash ^ load(text, 8)) * UINT64_C(0x9E3779B97F4A7C15), hash ^= hash >> 32;
    hash = (hash ^ load(text, bytes)) * UINT64_C(0x9E3779B97F4A7C15);
    return &s->cache[(hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93) >> 48 & (PLIM_BPE_CACHE_SLOTS - 1)];
}

static void remember(const plim_bpe_scratch *s, plim_bpe_cached *slot, const char *text, size_t bytes)
{
    size_t count = s->count;
    if (!count || count > PLIM_BPE_CACHED_TOKENS) return;
    /* pieces with characters left out are rare, and not worth the bytes to say so */
    for (size_t i = 0; i < count; i++)
        if (s->symbols[i].begin != (i ? s->symbols[i - 1].end : 0)) return;
    if (s->symbols[count - 1].end != bytes) return;
    slot->bytes = (uint8_t)bytes;
    slot->count = (uint8_t)count;
    memcpy(slot->text, text, bytes);
    for (size_t i = 0; i < count; i++) {
        slot->end[i] = (uint8_t)s->symbols[i].end;
        slot->id[i] = s->symbols[i].id;
    }
}

static plim_status recall(plim_bpe_scratch *s, const plim_bpe_cached *slot)
{
    uint32_t begin = 0;
    TRY(plim_grow(s->ctx, &s->symbols, &s->cap, PLIM_BPE_CACHED_TOKENS, sizeof *s->symbols,
                  "tokens of a piece"));
    for (size_t i = 0; i < slot->count; i++) {
        s->symbols[i] = (plim_symbol){.id = slot->id[i], .begin = begin, .end = slot->end[i]};
        begin = slot->end[i];
    }
    s->count = slot->count;
    return PLIM_OK;
}

plim_status plim_bpe_encode(const plim_bpe *b, plim_bpe_scratch *s, const char *text, size_t bytes)
{
    if (bytes > PLIM_BPE_MAX_BYTES)
        return plim_fail(s->ctx, PLIM_E_RANGE,
                         "a piece of %zu bytes without a place to split it; at most %zu", bytes,
                         PLIM_BPE_MAX_BYTES);
    if (bytes > PLIM_BPE_CACHED_BYTES || !bytes) return encode(b, s, text, bytes);
    plim_bpe_cached *slot = cache_slot(s, text, bytes);
    if (slot->bytes == bytes && !memcmp(slot->text, text, bytes)) return recall(s, slot);
    TRY(encode(b, s, text, bytes));
    remember(s, slot, text, bytes);
    return PLIM_OK;
}
