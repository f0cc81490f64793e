/* pretokenize.c - decides where a text is split before the model sees it. */
#include "text/pretokenize.h"

#include <string.h>

void plim_pretokenizer_close(plim_pretokenizer *p)
{
    for (size_t i = 0; i < p->count; i++) {
        plim_release(p->ctx, p->steps[i].replacement);
        plim_pattern_close(&p->steps[i].pattern);
    }
    *p = (plim_pretokenizer){0};
}

void plim_pretokenizer_scratch_close(plim_pretokenizer_scratch *s)
{
    for (size_t i = 0; i < PLIM_TOKENIZER_MAX_STEPS; i++) {
        plim_stage_close(&s->blanks[i]);
        plim_stage_close(&s->prefixed[i]);
    }
}

typedef struct walk {
    plim_ctx *c;
    const plim_pretokenizer *p;
    plim_pretokenizer_scratch *s;
    plim_matcher *m;
    plim_piece piece;
    void *user;
} walk;

static plim_status run(const walk *w, size_t step, plim_span source);

/* A piece that may still grow by what follows it. */
typedef struct pending {
    const walk *w;
    size_t step;
    plim_span source;
    bool any, last_matched;
    size_t begin, end;
} pending;

static plim_status flush(pending *d)
{
    if (!d->any || d->begin == d->end) return PLIM_OK;
    plim_span piece = {d->source.stage, d->source.begin + d->begin, d->source.begin + d->end};
    return run(d->w, d->step + 1, piece);
}

static bool joins(plim_split behavior, const pending *d, bool matched)
{
    switch (behavior) {
    case PLIM_SPLIT_CONTIGUOUS: return d->last_matched == matched;
    case PLIM_SPLIT_MERGED_WITH_PREVIOUS: return matched && !d->last_matched;
    case PLIM_SPLIT_MERGED_WITH_NEXT: return !matched && d->last_matched;
    default: return false;
    }
}

/* The next part of the source, which matched or not. */
static plim_status take(pending *d, size_t begin, size_t end, bool matched)
{
    const plim_pretokenizer_step *t = &d->w->p->steps[d->step];
    if (t->invert) matched = !matched;
    if (t->behavior == PLIM_SPLIT_REMOVED && matched) return PLIM_OK;
    if (d->any && joins(t->behavior, d, matched)) {
        d->end = end;
    } else {
        TRY(flush(d));
        d->begin = begin;
        d->end = end;
        d->any = true;
    }
    d->last_matched = matched;
    return PLIM_OK;
}

static plim_status split(const walk *w, size_t step, plim_span source)
{
    pending d = {.w = w, .step = step, .source = source};
    plim_pattern_walk matches;
    size_t at = 0, begin, end, bytes = plim_span_bytes(source);
    bool found;
    plim_pattern_start(&matches, &w->p->steps[step].pattern, w->m, plim_span_text(source), bytes);
    for (;;) {
        TRY(plim_pattern_next(&matches, &found, &begin, &end));
        if (!found) break;
        if (at < begin) TRY(take(&d, at, begin, false));
        TRY(take(&d, begin, end, true));
        at = end;
    }
    if (at < bytes) TRY(take(&d, at, bytes, false));
    return flush(&d);
}

static plim_status prefix(const walk *w, size_t step, plim_span *source)
{
    const plim_pretokenizer_step *t = &w->p->steps[step];
    const char *with = t->replacement ? t->replacement : " ";
    size_t n = strlen(with);
    if (t->prefix == PLIM_PREFIX_NEVER || (t->prefix == PLIM_PREFIX_FIRST && !plim_span_is_first(*source)))
        return PLIM_OK;
    if (plim_span_bytes(*source) >= n && !memcmp(plim_span_text(*source), with, n)) return PLIM_OK;
    return plim_prepend(w->c, with, n, &w->s->prefixed[step], *source, source);
}

static plim_status run(const walk *w, size_t step, plim_span source)
{
    if (step == w->p->count) return w->piece(w->user, source);
    const plim_pretokenizer_step *t = &w->p->steps[step];
    if (t->replacement) {
        plim_pattern blank = {.kind = PLIM_PATTERN_STRING, .string = (char[]){" "}, .string_bytes = 1};
        TRY(plim_replace(w->c, &blank, t->replacement, strlen(t->replacement), w->m, &w->s->blanks[step],
                         source, &source));
    }
    TRY(prefix(w, step, &source));
    if (!t->splits) return run(w, step + 1, source);
    return split(w, step, source);
}

plim_status plim_pretokenize(plim_ctx *c, const plim_pretokenizer *p, plim_pretokenizer_scratch *s,
                             plim_matcher *m, plim_span source, plim_piece piece, void *user)
{
    walk w = {c, p, s, m, piece, user};
    return source.begin < source.end ? run(&w, 0, source) : PLIM_OK;
}
