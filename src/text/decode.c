/* decode.c - decides what each step of a decoder makes of the strings of tokens. */
#include "text/decode.h"

#include <string.h>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/unicode.h"

void plim_decoder_close(plim_decoder *d)
{
    for (size_t i = 0; i < d->count; i++) {
        plim_release(d->ctx, d->steps[i].content);
        plim_pattern_close(&d->steps[i].pattern);
    }
    *d = (plim_decoder){0};
}

static plim_status append(plim_strings *s, const char *text, size_t bytes)
{
    TRY(plim_grow(s->ctx, &s->text, &s->cap, s->bytes + bytes + 1, 1, "decoded text"));
    if (bytes) memcpy(s->text + s->bytes, text, bytes);
    s->bytes += bytes;
    return PLIM_OK;
}

static plim_status end_string(plim_strings *s)
{
    TRY(plim_grow(s->ctx, &s->ends, &s->ends_cap, s->count + 1, sizeof *s->ends, "decoded text"));
    s->ends[s->count++] = s->bytes;
    return PLIM_OK;
}

plim_status plim_strings_add(plim_strings *s, const char *text, size_t bytes)
{
    TRY(append(s, text, bytes));
    return end_string(s);
}

void plim_strings_close(plim_strings *s)
{
    plim_release(s->ctx, s->text);
    plim_release(s->ctx, s->ends);
    *s = (plim_strings){0};
}

/* ---- bytes to characters ------------------------------------------------------------------------------- */

/* Bytes at p (n >= 1) that begin a character and could still become one, but do not. */
static size_t broken_bytes(const unsigned char *p, size_t n)
{
    if (p[0] < 0xc2 || p[0] > 0xf4) return 1;
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (n < 2 || p[1] < low || p[1] > high) return 1;
    if (p[0] < 0xf0 || n < 3 || (p[2] & 0xc0) != 0x80) return 2;
    return 3;
}

/* Appends bytes as UTF-8: U+FFFD for each longest part of a character that does not become one.
 * Source: the Unicode Standard, section 3.9, "substitution of maximal subparts". */
static plim_status append_lossy(plim_strings *out, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t good = plim_utf8_first_invalid(bytes + at, n - at);
        TRY(append(out, bytes + at, good));
        at += good;
        if (at == n) break;
        TRY(append(out, PLIM_UTF8_REPLACEMENT, 3));
        at += broken_bytes((const unsigned char *)bytes + at, n - at);
    }
    return PLIM_OK;
}

/* A token's bytes in the alphabet, or the token as it is where a character is none of the alphabet's. */
static plim_status append_alphabet(plim_strings *raw, const char *text, size_t bytes)
{
    size_t mark = raw->bytes;
    for (size_t at = 0; at < bytes;) {
        uint32_t c;
        at += plim_utf8_read(text + at, &c);
        int b = plim_byte_level_byte(c);
        if (b < 0) {
            raw->bytes = mark;
            return append(raw, text, bytes);
        }
        char byte = (char)b;
        TRY(append(raw, &byte, 1));
    }
    return PLIM_OK;
}

static plim_status decode_byte_level(const plim_strings *in, plim_strings *out)
{
    plim_strings raw = {.ctx = in->ctx};
    plim_status st = PLIM_OK;
    for (size_t i = 0, at = 0; !st && i < in->count; at = in->ends[i++])
        st = append_alphabet(&raw, in->text + at, in->ends[i] - at);
    if (!st) st = append_lossy(out, raw.text, raw.bytes);
    if (!st) st = end_string(out);
    plim_strings_close(&raw);
    return st;
}

static int hex_digit(char h)
{
    if (h >= '0' && h <= '9') return h - '0';
    if (h >= 'A' && h <= 'F') return h - 'A' + 10;
    return h >= 'a' && h <= 'f' ? h - 'a' + 10 : -1;
}

/* The byte of "<0xNN>", or -1. */
static int fallback_byte(const char *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The bytes of a run: the characters they spell, or U+FFFD for each byte. */
static plim_status end_run(plim_strings *run, plim_strings *out)
{
    if (!run->bytes) return PLIM_OK;
    bool good = plim_utf8_first_invalid(run->text, run->bytes) == run->bytes;
    if (good) TRY(plim_strings_add(out, run->text, run->bytes));
    for (size_t i = 0; !good && i < run->bytes; i++) TRY(plim_strings_add(out, PLIM_UTF8_REPLACEMENT, 3));
    run->bytes = 0;
    return PLIM_OK;
}

static plim_status decode_runs(const plim_strings *in, plim_strings *run, plim_strings *out)
{
    for (size_t i = 0, at = 0; i < in->count; at = in->ends[i++]) {
        const char *text = in->text + at;
        int byte = fallback_byte(text, in->ends[i] - at);
        char b = (char)byte;
        if (byte >= 0) {
            TRY(append(run, &b, 1));
            continue;
        }
        TRY(end_run(run, out));
        TRY(plim_strings_add(out, text, in->ends[i] - at));
    }
    return end_run(run, out);
}

static plim_status decode_byte_fallback(const plim_strings *in, plim_strings *out)
{
    plim_strings run = {.ctx = in->ctx};
    plim_status st = decode_runs(in, &run, out);
    plim_strings_close(&run);
    return st;
}

/* ---- string by string ---------------------------------------------------------------------------------- */

static plim_status append_metaspace(const plim_decoder_step *t, bool first, const char *text, size_t bytes,
                                    plim_strings *out)
{
    size_t n = strlen(t->content);
    for (size_t at = 0; at < bytes;) {
        if (bytes - at >= n && !memcmp(text + at, t->content, n)) {
            if (!first || !t->strip) TRY(append(out, " ", 1));
            at += n;
            continue;
        }
        size_t size = plim_utf8_size(text[at]);
        TRY(append(out, text + at, size));
        at += size;
    }
    return end_string(out);
}

static plim_status append_stripped(const plim_decoder_step *t, const char *text, size_t bytes,
                                   plim_strings *out)
{
    size_t n = strlen(t->content), from = 0;
    for (int64_t i = 0; i < t->start && bytes - from >= n && !memcmp(text + from, t->content, n); i++)
        from += n;
    size_t to = bytes;
    for (int64_t i = 0; i < t->stop && to - from >= n && !memcmp(text + to - n, t->content, n); i++) to -= n;
    return plim_strings_add(out, text + from, to - from);
}

static plim_status append_replaced(const plim_decoder_step *t, plim_matcher *m, plim_stage *st,
                                   const char *text, size_t bytes, plim_strings *out)
{
    plim_stage root = {.ctx = out->ctx, .text = text, .bytes = bytes};
    plim_span now;
    TRY(plim_replace(out->ctx, &t->pattern, t->content, strlen(t->content), m, st, plim_stage_span(&root),
                     &now));
    return plim_strings_add(out, plim_span_text(now), plim_span_bytes(now));
}

static plim_status decode_strings(const plim_decoder_step *t, plim_matcher *m, const plim_strings *in,
                                  plim_strings *out)
{
    plim_stage stage = {.ctx = in->ctx};
    plim_status st = PLIM_OK;
    for (size_t i = 0, at = 0; !st && i < in->count; at = in->ends[i++]) {
        const char *text = in->text + at;
        size_t bytes = in->ends[i] - at;
        if (t->kind == PLIM_DECODE_METASPACE) st = append_metaspace(t, i == 0, text, bytes, out);
        else if (t->kind == PLIM_DECODE_STRIP) st = append_stripped(t, text, bytes, out);
        else st = append_replaced(t, m, &stage, text, bytes, out);
    }
    plim_stage_close(&stage);
    return st;
}

static plim_status decode_step(const plim_decoder_step *t, plim_matcher *m, const plim_strings *in,
                               plim_strings *out)
{
    switch (t->kind) {
    case PLIM_DECODE_BYTE_LEVEL: return decode_byte_level(in, out);
    case PLIM_DECODE_BYTE_FALLBACK: return decode_byte_fallback(in, out);
    case PLIM_DECODE_FUSE: return plim_strings_add(out, in->text, in->bytes);
    default: return decode_strings(t, m, in, out);
    }
}

plim_status plim_decode(const plim_decoder *d, plim_matcher *m, plim_strings *s)
{
    for (size_t i = 0; i < d->count; i++) {
        plim_strings next = {.ctx = s->ctx};
        plim_status st = decode_step(&d->steps[i], m, s, &next);
        if (st) {
            plim_strings_close(&next);
            return st;
        }
        plim_strings_close(s);
        *s = next;
    }
    return PLIM_OK;
}
