/* jinja_text.c - decides how text and its origins stay together: strings, their parts, and building them. */
#include "text/jinja_tree.h"

#include <string.h>

uint32_t plim_utf8_decode(const char *text, size_t bytes, size_t *n)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t want = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (want > bytes) want = bytes;
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = p[0] & mask[want];
    for (size_t i = 1; i < want; i++) code = code << 6 | (p[i] & 0x3f);
    *n = want;
    return code;
}

size_t plim_utf8_encode(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

static size_t count_chars(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

size_t plim_js_offset(const plim_js *s, size_t character)
{
    if (s->chars == s->bytes || character >= s->chars) return character < s->chars ? character : s->bytes;
    size_t at = 0;
    for (; character; character--) do
            at++;
        while (((unsigned char)s->text[at] & 0xc0) == 0x80);
    return at;
}

bool plim_js_is(const plim_js *s, const char *word)
{
    return strlen(word) == s->bytes && memcmp(word, s->text, s->bytes) == 0;
}

bool plim_js_equal(const plim_js *a, const plim_js *b)
{
    return a->bytes == b->bytes && (a->text == b->text || memcmp(a->text, b->text, a->bytes) == 0);
}

int plim_js_order(const plim_js *a, const plim_js *b)
{
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

size_t plim_js_find(const plim_js *s, const plim_js *part, size_t from)
{
    if (from > s->bytes || part->bytes > s->bytes - from) return SIZE_MAX;
    if (!part->bytes) return from;
    const char *hit = memmem(s->text + from, s->bytes - from, part->text, part->bytes);
    return hit ? (size_t)(hit - s->text) : SIZE_MAX;
}

size_t plim_js_find_last(const plim_js *s, const plim_js *part, size_t end)
{
    if (part->bytes > end) return SIZE_MAX;
    for (size_t at = end - part->bytes + 1; at-- > 0;)
        if (!memcmp(s->text + at, part->text, part->bytes)) return at;
    return SIZE_MAX;
}

plim_jrun plim_js_run_at(const plim_js *s, size_t at)
{
    size_t begin = 0;
    for (size_t i = 0; i < s->run_count; i++) {
        plim_jrun run = s->runs[i];
        if (at < begin + run.bytes || i + 1 == s->run_count) {
            if (run.origin == PLIM_ORIGIN_TEMPLATE && at > begin) run.template_at += at - begin;
            return run;
        }
        begin += run.bytes;
    }
    return plim_jrun_template(0, -1);
}

/* ---- builder ------------------------------------------------------------------------------------------- */

static plim_status room(plim_jbuilder *b, size_t more)
{
    size_t need = b->bytes + more, cap = b->cap ? b->cap : 32;
    char *text = NULL;
    if (b->limit_bytes && need > b->limit_bytes)
        return plim_jinja_fail(
            b->pool->ctx, b->pool->t, b->pool->at_byte ? *b->pool->at_byte : 0, PLIM_E_RANGE,
            "the rendered text passes %zu bytes; the template prints too much, or the limit is too low",
            b->limit_bytes);
    if (need <= b->cap) return PLIM_OK;
    while (cap < need) cap *= 2;
    TRY(plim_pool_take(b->pool, cap, 1, &text));
    if (b->bytes) memcpy(text, b->text, b->bytes);
    b->text = text;
    b->cap = cap;
    return PLIM_OK;
}

static bool continues(const plim_jrun *a, const plim_jrun *b)
{
    if (a->origin != b->origin || a->message != b->message || a->turn != b->turn) return false;
    return a->origin != PLIM_ORIGIN_TEMPLATE || a->template_at + a->bytes == b->template_at;
}

plim_status plim_jbuilder_add(plim_jbuilder *b, const char *text, size_t bytes, plim_jrun run)
{
    if (!bytes) return PLIM_OK;
    TRY(plim_pool_step(b->pool, bytes));
    TRY(room(b, bytes));
    memcpy(b->text + b->bytes, text, bytes);
    b->bytes += bytes;
    run.bytes = bytes;
    if (b->run_count && continues(&b->runs[b->run_count - 1], &run)) {
        b->runs[b->run_count - 1].bytes += bytes;
        return PLIM_OK;
    }
    if (b->run_count == b->run_cap) {
        size_t cap = b->run_cap ? 2 * b->run_cap : 2;
        plim_jrun *runs = NULL;
        TRY(plim_pool_take(b->pool, cap, sizeof *runs, &runs));
        if (b->run_count) memcpy(runs, b->runs, b->run_count * sizeof *runs);
        b->runs = runs;
        b->run_cap = cap;
    }
    b->runs[b->run_count++] = run;
    return PLIM_OK;
}

plim_status plim_jbuilder_add_part(plim_jbuilder *b, const plim_js *s, size_t begin, size_t end)
{
    size_t at = 0;
    TRY(plim_pool_step(b->pool, 4 * s->run_count));
    for (size_t i = 0; i < s->run_count && at < end; i++) {
        plim_jrun run = s->runs[i];
        size_t from = at > begin ? at : begin, to = at + run.bytes < end ? at + run.bytes : end;
        if (from < to) {
            if (run.origin == PLIM_ORIGIN_TEMPLATE) run.template_at += from - at;
            TRY(plim_jbuilder_add(b, s->text + from, to - from, run));
        }
        at += s->runs[i].bytes;
    }
    return PLIM_OK;
}

plim_status plim_jbuilder_add_string(plim_jbuilder *b, const plim_js *s)
{
    return plim_jbuilder_add_part(b, s, 0, s->bytes);
}

plim_status plim_jbuilder_done(plim_jbuilder *b, bool markup, plim_jv *out)
{
    plim_js *s = NULL;
    TRY(plim_pool_take(b->pool, 1, sizeof *s, &s));
    *s = (plim_js){.text = b->text ? b->text : "",
                   .bytes = b->bytes,
                   .runs = b->runs,
                   .run_count = b->run_count,
                   .markup = markup};
    s->chars = count_chars(s->text, s->bytes);
    *out = plim_jv_string(s);
    return PLIM_OK;
}

/* ---- strings ------------------------------------------------------------------------------------------- */

plim_status plim_js_make(plim_pool *p, const char *text, size_t bytes, plim_jrun run, const plim_js **out)
{
    struct {
        plim_js s;
        plim_jrun run;
    } *made = NULL;
    TRY(plim_pool_take(p, 1, sizeof *made, &made));
    TRY(plim_pool_step(p, bytes));
    run.bytes = bytes;
    made->run = run;
    made->s = (plim_js){.text = text,
                        .bytes = bytes,
                        .chars = count_chars(text, bytes),
                        .runs = &made->run,
                        .run_count = bytes > 0};
    *out = &made->s;
    return PLIM_OK;
}

plim_status plim_js_part(plim_pool *p, const plim_js *s, size_t begin, size_t end, plim_jv *out)
{
    plim_js *part = NULL;
    plim_jrun *runs = NULL;
    size_t at = 0, first = 0, count = 0;
    if (end < begin) end = begin;
    if (begin == 0 && end == s->bytes) {
        *out = plim_jv_string(s);
        return PLIM_OK;
    }
    for (size_t i = 0; i < s->run_count && at < end; at += s->runs[i++].bytes)
        if (at + s->runs[i].bytes > begin && begin < end && count++ == 0) first = i;
    TRY(plim_pool_step(p, end - begin + 4 * s->run_count));
    TRY(plim_pool_take(p, 1, sizeof *part, &part));
    TRY(plim_pool_take(p, count ? count : 1, sizeof *runs, &runs));
    at = 0;
    for (size_t i = 0; i < first; i++) at += s->runs[i].bytes;
    for (size_t i = 0; i < count; i++) {
        plim_jrun run = s->runs[first + i];
        size_t from = at > begin ? at : begin, to = at + run.bytes < end ? at + run.bytes : end;
        if (run.origin == PLIM_ORIGIN_TEMPLATE) run.template_at += from - at;
        at += run.bytes;
        run.bytes = to - from;
        runs[i] = run;
    }
    *part = (plim_js){
        .text = s->text + begin, .bytes = end - begin, .runs = runs, .run_count = count, .markup = s->markup};
    part->chars = s->chars == s->bytes ? part->bytes : count_chars(part->text, part->bytes);
    *out = plim_jv_string(part);
    return PLIM_OK;
}

plim_status plim_js_join2(plim_pool *p, const plim_js *a, const plim_js *b, bool markup, plim_jv *out)
{
    plim_jbuilder made = {.pool = p};
    TRY(room(&made, a->bytes + b->bytes));
    TRY(plim_jbuilder_add_string(&made, a));
    TRY(plim_jbuilder_add_string(&made, b));
    return plim_jbuilder_done(&made, markup, out);
}
