/* added_tokens.c - decides where an added token begins and ends. */
#include "text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

plim_status plim_added_set_add(plim_ctx *c, plim_added_set *a, plim_added_token t)
{
    char *own = NULL;
    a->ctx = c;
    if (!t.bytes) return PLIM_OK; /* nothing to find */
    if (t.bytes > PLIM_ADDED_TOKEN_MAX_BYTES)
        return plim_fail(c, PLIM_E_UNSUPPORTED,
                         "the added token \"%.60s...\" has %zu bytes; at most %d are searched for", t.text,
                         t.bytes, PLIM_ADDED_TOKEN_MAX_BYTES);
    TRY(plim_grow(c, &a->tokens, &a->cap, a->count + 1, sizeof *a->tokens, "added tokens"));
    TRY(plim_alloc(c, t.bytes + 1, 1, "an added token", &own));
    memcpy(own, t.text, t.bytes);
    t.text = own;
    a->tokens[a->count++] = t;
    return PLIM_OK;
}

static int compare_text(const plim_added_token *a, const plim_added_token *b)
{
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = memcmp(a->text, b->text, n);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* qsort is not stable, so the order of adding goes along. */
typedef struct ranked {
    plim_added_token token;
    size_t rank;
} ranked;

static int compare(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int order = compare_text(&x->token, &y->token);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

plim_status plim_added_set_sort(plim_added_set *a)
{
    ranked *r = NULL;
    size_t kept = 0;
    if (a->count) TRY(plim_alloc(a->ctx, a->count, sizeof *r, "added tokens", &r));
    for (size_t i = 0; i < a->count; i++) r[i] = (ranked){a->tokens[i], i};
    if (r) qsort(r, a->count, sizeof *r, compare);
    for (size_t i = 0; i < a->count; i++) {
        if (kept && !compare_text(&a->tokens[kept - 1], &r[i].token)) plim_release(a->ctx, r[i].token.text);
        else a->tokens[kept++] = r[i].token;
    }
    plim_release(a->ctx, r);
    a->count = kept;
    for (size_t b = 0, i = 0; b <= 256; b++) {
        while (i < kept && (unsigned char)a->tokens[i].text[0] < b) i++;
        a->first[b] = (uint32_t)i;
    }
    return PLIM_OK;
}

void plim_added_set_close(plim_added_set *a)
{
    for (size_t i = 0; i < a->count; i++) plim_release(a->ctx, a->tokens[i].text);
    plim_release(a->ctx, a->tokens);
    *a = (plim_added_set){0};
}

/* The longest token text begins with, NULL if there is none.  The tokens that agree with its first bytes are
 * neighbours; a byte more narrows them down. */
static const plim_added_token *longest(const plim_added_set *a, const char *text, size_t bytes)
{
    const plim_added_token *found = NULL;
    size_t low = a->first[(unsigned char)*text], high = a->first[(unsigned char)*text + 1];
    for (size_t n = 1; low < high; n++) {
        if (a->tokens[low].bytes == n) found = &a->tokens[low++];
        if (n == bytes) break;
        unsigned char b = (unsigned char)text[n];
        size_t from = low, to = high;
        while (from < to) { /* the first with at least b at n; all left are longer than n */
            size_t middle = from + (to - from) / 2;
            if ((unsigned char)a->tokens[middle].text[n] < b) from = middle + 1;
            else to = middle;
        }
        low = from;
        for (to = high; from < to;) {
            size_t middle = from + (to - from) / 2;
            if ((unsigned char)a->tokens[middle].text[n] <= b) from = middle + 1;
            else to = middle;
        }
        high = from;
    }
    return found;
}

static bool stands_alone(const plim_added_walk *w, size_t begin, size_t end)
{
    uint32_t c;
    if (begin > 0 && plim_unicode_is_word(plim_utf8_last(w->text, begin))) return false;
    if (end == w->bytes) return true;
    plim_utf8_read(w->text + end, &c);
    return !plim_unicode_is_word(c);
}

static size_t space_before(const plim_added_walk *w, size_t begin)
{
    while (begin > w->taken) {
        uint32_t c = plim_utf8_last(w->text, begin);
        if (!plim_unicode_is_space(c)) break;
        while (plim_utf8_continues(w->text[--begin])) {
        }
    }
    return begin > w->taken ? begin : w->taken;
}

static size_t space_behind(const plim_added_walk *w, size_t end)
{
    uint32_t c;
    if (end <= w->taken) return w->taken; /* inside the space the token before took */
    while (end < w->bytes) {
        size_t n = plim_utf8_read(w->text + end, &c);
        if (!plim_unicode_is_space(c)) break;
        end += n;
    }
    return end;
}

const plim_added_token *plim_added_next(plim_added_walk *w, size_t *begin, size_t *end)
{
    const plim_added_set *a = w->set;
    while (a->count && w->at < w->bytes) {
        unsigned char b = (unsigned char)w->text[w->at];
        const plim_added_token *t = NULL;
        if (a->first[b] < a->first[b + 1]) t = longest(a, w->text + w->at, w->bytes - w->at);
        if (!t) {
            w->at++;
            continue;
        }
        size_t from = w->at, to = from + t->bytes;
        w->at = to;
        if (t->single_word && !stands_alone(w, from, to)) continue;
        *begin = t->lstrip ? space_before(w, from) : from;
        *end = t->rstrip ? space_behind(w, to) : to;
        if (*end < *begin) *end = *begin;
        w->taken = *end;
        return t;
    }
    return NULL;
}
