/* normalize.c - decides what each step of a normaliser makes of a text. */
#include "text/normalize.h"

#include <string.h>

#include "text/unicode.h"

void plim_normalizer_close(plim_normalizer *n)
{
    for (size_t i = 0; i < n->count; i++) {
        plim_release(n->ctx, n->steps[i].content);
        plim_pattern_close(&n->steps[i].pattern);
    }
    *n = (plim_normalizer){0};
}

void plim_normalizer_scratch_close(plim_normalizer_scratch *s)
{
    for (size_t i = 0; i < PLIM_TOKENIZER_MAX_STEPS; i++) plim_stage_close(&s->stages[i]);
    plim_normal_scratch_close(&s->form);
}

/* ---- rules for single characters ----------------------------------------------------------------------- */

size_t plim_rule_lower(uint32_t c, uint32_t out[2])
{
    return plim_unicode_lower(c, out);
}

size_t plim_rule_strip_accents(uint32_t c, uint32_t out[2])
{
    out[0] = c;
    return plim_unicode_is_mark(c) && !plim_normal_form_is_later(c) ? 0 : 1;
}

size_t plim_rule_nmt(uint32_t c, uint32_t out[2])
{
    out[0] = c;
    if ((c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f ||
        c == 0x9f)
        return 0;
    if (c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
        out[0] = ' ';
    return 1;
}

static plim_status apply_rule(plim_ctx *c, plim_character_rule rule, plim_stage *st, plim_span source,
                              plim_span *out)
{
    const char *text = plim_span_text(source);
    size_t bytes = plim_span_bytes(source), kept = 0;
    bool started = false;
    for (size_t at = 0, n; at < bytes; at += n) {
        uint32_t character, becomes[2];
        char utf8[2 * PLIM_UTF8_MAX_BYTES];
        size_t wrote = 0;
        n = plim_utf8_read(text + at, &character);
        size_t count = rule(character, becomes);
        if (count == 1 && becomes[0] == character) continue;
        for (size_t i = 0; i < count; i++) wrote += plim_utf8_put(utf8 + wrote, becomes[i]);
        if (!started) plim_stage_start(st, c, source);
        started = true;
        TRY(plim_stage_keep(st, text + kept, at - kept));
        TRY(plim_stage_put(st, utf8, wrote, source.begin + at, source.begin + at + n));
        kept = at + n;
    }
    *out = source;
    if (!started) return PLIM_OK;
    TRY(plim_stage_keep(st, text + kept, bytes - kept));
    *out = plim_stage_span(st);
    return PLIM_OK;
}

/* ---- whole texts --------------------------------------------------------------------------------------- */

static plim_span strip(plim_span s, bool left, bool right)
{
    uint32_t c;
    while (left && s.begin < s.end) {
        size_t n = plim_utf8_read(plim_span_text(s), &c);
        if (!plim_unicode_is_space(c)) break;
        s.begin += n;
    }
    while (right && s.begin < s.end) {
        c = plim_utf8_last(plim_span_text(s), plim_span_bytes(s));
        if (!plim_unicode_is_space(c)) break;
        char utf8[PLIM_UTF8_MAX_BYTES];
        s.end -= plim_utf8_put(utf8, c);
    }
    return s;
}

plim_status plim_prepend(plim_ctx *c, const char *content, size_t content_bytes, plim_stage *st,
                         plim_span source, plim_span *out)
{
    size_t first = source.begin + plim_utf8_size(*plim_span_text(source));
    plim_stage_start(st, c, source);
    TRY(plim_stage_put(st, content, content_bytes, source.begin, first));
    TRY(plim_stage_put(st, plim_span_text(source), first - source.begin, source.begin, first));
    TRY(plim_stage_keep(st, source.stage->text + first, source.end - first));
    *out = plim_stage_span(st);
    return PLIM_OK;
}

plim_status plim_replace(plim_ctx *c, const plim_pattern *p, const char *content, size_t content_bytes,
                         plim_matcher *m, plim_stage *st, plim_span source, plim_span *out)
{
    plim_pattern_walk w;
    const char *text = plim_span_text(source);
    size_t kept = 0, begin, end;
    bool found, started = false;
    *out = source;
    if (source.begin == source.end) return PLIM_OK;
    plim_pattern_start(&w, p, m, text, plim_span_bytes(source));
    for (;;) {
        TRY(plim_pattern_next(&w, &found, &begin, &end));
        if (!found) break;
        if (!started) plim_stage_start(st, c, source);
        started = true;
        TRY(plim_stage_keep(st, text + kept, begin - kept));
        TRY(plim_stage_put(st, content, content_bytes, source.begin + begin, source.begin + end));
        kept = end;
    }
    if (!started) return PLIM_OK;
    TRY(plim_stage_keep(st, text + kept, plim_span_bytes(source) - kept));
    *out = plim_stage_span(st);
    return PLIM_OK;
}

plim_status plim_normalize(plim_ctx *c, const plim_normalizer *n, plim_normalizer_scratch *s, plim_matcher *m,
                           plim_span source, plim_span *out)
{
    plim_span now = source;
    s->form.ctx = c;
    for (size_t i = 0; i < n->count; i++) {
        const plim_normalizer_step *t = &n->steps[i];
        plim_stage *st = &s->stages[i];
        switch (t->kind) {
        case PLIM_NORMALIZE_FORM: TRY(plim_normal_form_apply(t->form, &s->form, now, st, &now)); break;
        case PLIM_NORMALIZE_CHARACTERS: TRY(apply_rule(c, t->rule, st, now, &now)); break;
        case PLIM_NORMALIZE_STRIP: now = strip(now, t->left, t->right); break;
        case PLIM_NORMALIZE_PREPEND:
            if (now.begin < now.end) TRY(plim_prepend(c, t->content, strlen(t->content), st, now, &now));
            break;
        case PLIM_NORMALIZE_REPLACE:
            TRY(plim_replace(c, &t->pattern, t->content, strlen(t->content), m, st, now, &now));
            break;
        }
    }
    *out = now;
    return PLIM_OK;
}
