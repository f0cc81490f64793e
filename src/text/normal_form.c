/* normal_form.c - decides where a text must be rewritten, and rewrites only there.
 * utf8proc's own loop sorts combining characters by exchange, which is quadratic in a long run of them, so
 * the characters are decomposed and composed by utf8proc and sorted here. */
#include "text/normal_form.h"

#include <string.h>
#include <utf8proc.h>

#include "text/normal_form_later.h"
#include "text/unicode.h"

#define SHORT_RUN 24 /* combining characters sorted by insertion */

static bool is_jamo(uint32_t c)
{
    return c >= 0x1100 && c <= 0x11ff;
}

bool plim_normal_form_is_later(uint32_t c)
{
    size_t low = 0, high = sizeof plim_normal_form_later / sizeof *plim_normal_form_later;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (plim_normal_form_later[middle][1] < c) low = middle + 1;
        else high = middle;
    }
    return low < sizeof plim_normal_form_later / sizeof *plim_normal_form_later &&
           plim_normal_form_later[low][0] <= c;
}

static bool is_mark(const utf8proc_property_t *p)
{
    return p->combining_class != 0 || p->category == UTF8PROC_CATEGORY_MN ||
           p->category == UTF8PROC_CATEGORY_MC || p->category == UTF8PROC_CATEGORY_ME;
}

bool plim_normal_form_starts_anew(uint32_t c)
{
    if (c < 0x300) return true;
    if (c >= 0x1160 && c <= 0x11ff) return false; /* vowels and finals */
    if ((c >= 0x3131 && c <= 0x318e) || (c >= 0xff9e && c <= 0xffdc))
        return false;                           /* become such, or marks */
    if (c == 0xe33 || c == 0xeb3) return false; /* a mark and a vowel, in the compatibility forms */
    return !is_mark(utf8proc_get_property((utf8proc_int32_t)c)) || plim_normal_form_is_later(c);
}

/* Whether c may have to be rewritten. */
static bool may_change(plim_normal_form f, uint32_t c)
{
    if (c < 0x80 || (f == PLIM_NFC && c < 0x300)) return false;
    if (c >= 0xac00 && c <= 0xd7a3) return f == PLIM_NFD || f == PLIM_NFKD;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    return (p->decomp_seqindex != UINT16_MAX || is_jamo(c) || is_mark(p)) && !plim_normal_form_is_later(c);
}

static uint8_t combining_class(int32_t c)
{
    uint8_t k = (uint8_t)utf8proc_get_property(c)->combining_class;
    return k && plim_normal_form_is_later((uint32_t)c) ? 0 : k;
}

/* Stable, by combining class; scratch holds as many. */
static void sort_marks(int32_t *marks, size_t count, int32_t *scratch)
{
    if (count <= SHORT_RUN) {
        for (size_t i = 1; i < count; i++) {
            int32_t c = marks[i];
            size_t k = i;
            for (; k > 0 && combining_class(marks[k - 1]) > combining_class(c); k--) marks[k] = marks[k - 1];
            marks[k] = c;
        }
        return;
    }
    size_t place[257] = {0};
    for (size_t i = 0; i < count; i++) place[combining_class(marks[i]) + 1]++;
    for (size_t k = 1; k < 257; k++) place[k] += place[k - 1];
    for (size_t i = 0; i < count; i++) scratch[place[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, count * sizeof *marks);
}

static void order(int32_t *chars, size_t count, int32_t *scratch)
{
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        if (!combining_class(chars[i])) continue;
        while (end < count && combining_class(chars[end])) end++;
        sort_marks(chars + i, end - i, scratch);
    }
}

static utf8proc_option_t options_of(plim_normal_form f)
{
    int kind = f == PLIM_NFC || f == PLIM_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    int compat = f == PLIM_NFKC || f == PLIM_NFKD ? UTF8PROC_COMPAT : 0;
    return (utf8proc_option_t)(kind | compat | UTF8PROC_STABLE);
}

/* Characters of text, decomposed, into w->chars. */
static plim_status decompose(utf8proc_option_t options, plim_normal_scratch *w, const char *text,
                             size_t bytes, size_t *count)
{
    int boundary = 0;
    *count = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t c;
        at += plim_utf8_read(text + at, &c);
        TRY(plim_grow(w->ctx, &w->chars, &w->chars_cap, *count + 32, sizeof *w->chars, "a normal form"));
        if (plim_normal_form_is_later(c)) {
            w->chars[(*count)++] = (int32_t)c;
            continue;
        }
        utf8proc_ssize_t n =
            utf8proc_decompose_char((utf8proc_int32_t)c, w->chars + *count, 32, options, &boundary);
        if (n < 0 || n > 32)
            return plim_fail(w->ctx, PLIM_E_RANGE, "U+%04X has no decomposition of at most 32 characters", c);
        *count += (size_t)n;
    }
    return PLIM_OK;
}

/* One piece in form f; its text and bytes lie in w. */
static plim_status normalise_piece(plim_normal_form f, plim_normal_scratch *w, const char *text, size_t bytes,
                                   size_t *out_bytes)
{
    utf8proc_option_t options = options_of(f);
    size_t count;
    TRY(decompose(options, w, text, bytes, &count));
    TRY(plim_grow(w->ctx, &w->sorted, &w->sorted_cap, count, sizeof *w->sorted, "a normal form"));
    order(w->chars, count, w->sorted);
    if (options & UTF8PROC_COMPOSE) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(w->chars, (utf8proc_ssize_t)count, options);
        if (n < 0) return plim_fail(w->ctx, PLIM_E_RANGE, "%zu combining characters in a row", count);
        count = (size_t)n;
    }
    TRY(plim_grow(w->ctx, &w->text, &w->text_cap, PLIM_UTF8_MAX_BYTES * count + 1, 1, "a normal form"));
    *out_bytes = 0;
    for (size_t i = 0; i < count; i++)
        *out_bytes += plim_utf8_put(w->text + *out_bytes, (uint32_t)w->chars[i]);
    return PLIM_OK;
}

/* The next piece of text at or after *at that may change: begin .. *at - 1.  anew is where the last character
 * that starts anew lay; false: there is none. */
static bool next_piece(plim_normal_form f, const char *text, size_t bytes, size_t *at, size_t *begin)
{
    size_t anew = *at;
    uint32_t c;
    for (size_t i = *at, n; i < bytes; i += n) {
        if ((unsigned char)text[i] < 0x80) {
            anew = i;
            n = 1;
            continue;
        }
        n = plim_utf8_read(text + i, &c);
        if (plim_normal_form_starts_anew(c)) anew = i;
        if (!may_change(f, c)) continue;
        for (i += n; i < bytes; i += n) {
            n = plim_utf8_read(text + i, &c);
            if (plim_normal_form_starts_anew(c)) break;
        }
        *begin = anew;
        *at = i;
        return true;
    }
    return false;
}

/* Whole characters both texts begin with, in bytes; and those both end with. */
static size_t common_head(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t n = 0;
    while (n < a_bytes && n < b_bytes && a[n] == b[n]) n++;
    while (n > 0 &&
           ((n < a_bytes && plim_utf8_continues(a[n])) || (n < b_bytes && plim_utf8_continues(b[n]))))
        n--;
    return n;
}

static size_t common_tail(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t n = 0;
    while (n < a_bytes && n < b_bytes && a[a_bytes - 1 - n] == b[b_bytes - 1 - n]) n++;
    while (n > 0 && plim_utf8_continues(a[a_bytes - n])) n--;
    return n;
}

plim_status plim_normal_form_apply(plim_normal_form f, plim_normal_scratch *w, plim_span source,
                                   plim_stage *st, plim_span *out)
{
    const char *text = plim_span_text(source);
    size_t bytes = plim_span_bytes(source), at = 0, begin, kept = 0, n = 0;
    bool started = false;
    while (next_piece(f, text, bytes, &at, &begin)) {
        TRY(normalise_piece(f, w, text + begin, at - begin, &n));
        size_t piece = at - begin;
        if (n == piece && !memcmp(w->text, text + begin, n)) continue;
        size_t head = common_head(w->text, n, text + begin, piece);
        size_t tail = common_tail(w->text + head, n - head, text + begin + head, piece - head);
        if (!started) plim_stage_start(st, w->ctx, source);
        started = true;
        TRY(plim_stage_keep(st, text + kept, begin + head - kept));
        TRY(plim_stage_put(st, w->text + head, n - head - tail, source.begin + begin + head,
                           source.begin + at - tail));
        TRY(plim_stage_keep(st, text + at - tail, tail));
        kept = at;
    }
    if (!started) {
        *out = source;
        return PLIM_OK;
    }
    TRY(plim_stage_keep(st, text + kept, bytes - kept));
    *out = plim_stage_span(st);
    return PLIM_OK;
}

void plim_normal_scratch_close(plim_normal_scratch *w)
{
    plim_release(w->ctx, w->chars);
    plim_release(w->ctx, w->sorted);
    plim_release(w->ctx, w->text);
    *w = (plim_normal_scratch){0};
}
