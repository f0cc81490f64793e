/* labels.c - decides which bytes are trained on, from where every byte came from.  docs/labels.md states the
 * rule that is followed here, step by step. */
#include "text/labels.h"

#include <stdlib.h>
#include <string.h>

typedef struct finder {
    plim_ctx *c;
    const plim_rendered *r;
    const plim_turn_header *h;
    const json_t *special;
    plim_labels labels;
    size_t cap;
} finder;

/* ---- messages ------------------------------------------------------------------------------------------ */

static bool is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "assistant");
}

/* 0: not trained on. */
static plim_status weight_of(plim_ctx *c, const json_t *message, size_t i, double *out)
{
    const json_t *train = json_object_get(message, "train"), *weight = json_object_get(message, "weight");
    if (train && !json_is_null(train) && !json_is_boolean(train))
        return plim_fail(c, PLIM_E_FORMAT, "messages[%zu].train: true or false is wanted", i);
    if (weight && !json_is_null(weight) && !json_is_number(weight))
        return plim_fail(c, PLIM_E_FORMAT, "messages[%zu].weight: a number is wanted, as 0.5", i);
    double w = json_is_number(weight) ? json_number_value(weight) : 1;
    if (!(w >= 0 && w <= 1000))
        return plim_fail(c, PLIM_E_RANGE, "messages[%zu].weight: %g is outside 0 .. 1000", i, w);
    *out = json_is_false(train) ? 0 : w;
    return PLIM_OK;
}

/* ---- spans --------------------------------------------------------------------------------------------- */

static plim_status add(finder *f, size_t begin, size_t end, double weight, int32_t message)
{
    plim_labels *l = &f->labels;
    if (begin >= end) return PLIM_OK;
    if (l->count && l->items[l->count - 1].message == message && l->items[l->count - 1].end == begin) {
        l->items[l->count - 1].end = end;
        return PLIM_OK;
    }
    TRY(plim_grow(f->c, &l->items, &f->cap, l->count + 1, sizeof *l->items, "labels"));
    l->items[l->count++] = (plim_label){begin, end, weight, message};
    return PLIM_OK;
}

/* begin .. end, which lies in the runs first .. last - 1, without what other messages said. */
static plim_status add_without_others(finder *f, size_t first, size_t last, size_t begin, size_t end,
                                      double weight, int32_t message)
{
    for (size_t i = first; i < last; i++) {
        const plim_text_run *run = &f->r->runs[i];
        if (run->end <= begin || run->begin >= end) continue;
        if (run->message >= 0 && run->message != message) continue;
        TRY(add(f, run->begin > begin ? run->begin : begin, run->end < end ? run->end : end, weight,
                message));
    }
    return PLIM_OK;
}

static bool is_own(const plim_text_run *run, int32_t message)
{
    return run->message == message &&
           (run->origin == PLIM_ORIGIN_CONTENT || run->origin == PLIM_ORIGIN_REASONING ||
            run->origin == PLIM_ORIGIN_TOOL_CALLS);
}

static bool blank(char b)
{
    return b == ' ' || b == '\t' || b == '\n' || b == '\r';
}

static size_t without_blanks(const char *text, size_t begin, size_t end)
{
    while (end > begin && blank(text[end - 1])) end--;
    return end;
}

/* Place of word in text[begin .. end), SIZE_MAX: none. */
static size_t place_of(const char *text, size_t begin, size_t end, const char *word)
{
    size_t n = strlen(word);
    const char *hit = n && end > begin ? memmem(text + begin, end - begin, word, n) : NULL;
    return hit ? (size_t)(hit - text) : SIZE_MAX;
}

/* ---- header -------------------------------------------------------------------------------------------- */

/* Where the role ends in begin .. end, which is template text before the message's own: SIZE_MAX, not
 * there. */
static size_t role_end(const finder *f, size_t first, size_t last, int32_t message, size_t begin, size_t end)
{
    size_t at = SIZE_MAX, hit;
    for (size_t i = first; i < last && f->r->runs[i].begin < end; i++)
        if (f->r->runs[i].message == message && f->r->runs[i].origin == PLIM_ORIGIN_ROLE)
            at = f->r->runs[i].end;
    if (at != SIZE_MAX) return at;
    hit = place_of(f->r->text, begin, end, "assistant");
    return hit == SIZE_MAX ? SIZE_MAX : hit + strlen("assistant");
}

/* The first byte after the header of a turn whose lead is begin .. end. */
static size_t header_end(const finder *f, size_t first, size_t last, int32_t message, size_t begin,
                         size_t end)
{
    const char *text = f->r->text, *prompt = f->h && f->h->prompt ? f->h->prompt : "";
    const char *behind = f->h && f->h->behind ? f->h->behind : "";
    size_t by_prompt = SIZE_MAX, by_role = role_end(f, first, last, message, begin, end), n = strlen(behind);
    if (*prompt) {
        size_t whole = place_of(text, begin, end, prompt), same = 0;
        while (begin + same < end && prompt[same] && text[begin + same] == prompt[same]) same++;
        by_prompt = whole != SIZE_MAX ? whole + strlen(prompt) : begin + same;
    }
    if (by_role != SIZE_MAX && n && end - by_role >= n && !memcmp(text + by_role, behind, n)) by_role += n;
    if (by_role == SIZE_MAX && by_prompt == SIZE_MAX) return begin;
    return by_role < by_prompt ? by_role : by_prompt;
}

/* ---- end ----------------------------------------------------------------------------------------------- */

/* The end of the last special token in begin .. end; SIZE_MAX: none. */
static size_t last_special(const finder *f, size_t begin, size_t end)
{
    size_t best = SIZE_MAX, i;
    json_t *token;
    json_array_foreach((json_t *)(uintptr_t)f->special, i, token)
    {
        const char *word = json_string_value(token);
        size_t n = word ? strlen(word) : 0;
        for (size_t at = begin; n && (at = place_of(f->r->text, at, end, word)) != SIZE_MAX; at++)
            if (best == SIZE_MAX || at + n > best) best = at + n;
    }
    return best;
}

static size_t turn_end(finder *f, size_t begin, size_t end, bool *ended)
{
    size_t at = f->special ? last_special(f, begin, end) : SIZE_MAX;
    *ended = !f->special || at != SIZE_MAX;
    return at != SIZE_MAX ? at : without_blanks(f->r->text, begin, end);
}

/* ---- turns --------------------------------------------------------------------------------------------- */

/* What is known of a message. */
typedef struct turn {
    double weight;      /* 0: not trained on */
    size_t first, last; /* runs of its own text outside any loop over messages; last 0: none */
    bool found, unended;
} turn;

/* Runs first .. last - 1 were written while the loop was at the message. */
static plim_status label_stretch(finder *f, size_t first, size_t last, int32_t message, turn *t)
{
    const plim_text_run *runs = f->r->runs;
    size_t begin = runs[first].begin, end = runs[last - 1].end, own_begin = end, own_end = SIZE_MAX;
    bool ended = true;
    for (size_t i = first; i < last; i++) {
        if (!is_own(&runs[i], message)) continue;
        if (own_end == SIZE_MAX) own_begin = runs[i].begin;
        own_end = runs[i].end;
    }
    size_t from = header_end(f, first, last, message, begin, own_begin);
    if (own_end == SIZE_MAX) own_end = from;
    end = turn_end(f, own_end, end, &ended);
    t->found = true;
    t->unended = !ended;
    return add_without_others(f, first, last, from, end, t->weight, message);
}

/* A message written outside any loop over messages: its own text, and the first piece of template text
 * behind. */
static plim_status label_loose(finder *f, int32_t message, turn *t)
{
    const plim_text_run *runs = f->r->runs;
    size_t end = runs[t->last - 1].end, behind = t->last;
    bool ended = !f->special;
    if (behind < f->r->run_count && runs[behind].message < 0)
        end = turn_end(f, end, runs[behind++].end, &ended);
    t->found = true;
    t->unended = !ended;
    return add_without_others(f, t->first, behind, runs[t->first].begin, end, t->weight, message);
}

static plim_status label_turns(finder *f, turn *turns, size_t count)
{
    const plim_text_run *runs = f->r->runs;
    for (size_t i = 0, last; i < f->r->run_count; i = last) {
        int32_t message = runs[i].turn;
        for (last = i + 1; last < f->r->run_count && runs[last].turn == message;) last++;
        if (message < 0 || (size_t)message >= count || !(turns[message].weight > 0)) continue;
        TRY(label_stretch(f, i, last, message, &turns[message]));
    }
    for (size_t i = 0; i < f->r->run_count; i++) {
        int32_t message = runs[i].message;
        if (runs[i].turn >= 0 || message < 0 || (size_t)message >= count || !is_own(&runs[i], message))
            continue;
        if (!turns[message].last) turns[message].first = i;
        turns[message].last = i + 1;
    }
    for (size_t i = 0; i < count; i++)
        if (turns[i].weight > 0 && !turns[i].found && turns[i].last)
            TRY(label_loose(f, (int32_t)i, &turns[i]));
    for (size_t i = 0; i < count; i++) {
        f->labels.turns += turns[i].found;
        f->labels.unended += turns[i].found && turns[i].unended;
    }
    return PLIM_OK;
}

static plim_status label_messages(finder *f, const json_t *messages, bool last_only)
{
    size_t count = json_array_size(messages), first = 0;
    turn *turns = NULL;
    if (last_only)
        for (size_t i = 0; i < count; i++)
            if (is_assistant(json_array_get(messages, i))) first = i;
    TRY(plim_alloc(f->c, count, sizeof *turns, "turns of a conversation", &turns));
    plim_status st = PLIM_OK;
    for (size_t i = first; i < count && !st; i++)
        if (is_assistant(json_array_get(messages, i)))
            st = weight_of(f->c, json_array_get(messages, i), i, &turns[i].weight);
    if (!st) st = label_turns(f, turns, count);
    plim_release(f->c, turns);
    return st;
}

static int by_place(const void *a, const void *b)
{
    const plim_label *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

plim_status plim_labels_find(plim_ctx *c, const plim_rendered *r, const json_t *messages,
                             const plim_turn_header *h, const plim_label_options *options, plim_labels *out)
{
    finder f = {.c = c, .r = r, .h = h, .special = options->special, .labels = {.ctx = c}};
    plim_status st;
    if (options->scope == PLIM_LABEL_WHOLE) st = add(&f, 0, r->bytes, 1, -1);
    else st = label_messages(&f, messages, options->scope == PLIM_LABEL_LAST);
    if (st) {
        plim_labels_close(&f.labels);
        return st;
    }
    /* a template may show messages in an order of its own */
    if (f.labels.count) qsort(f.labels.items, f.labels.count, sizeof *f.labels.items, by_place);
    *out = f.labels;
    return PLIM_OK;
}

void plim_labels_close(plim_labels *l)
{
    if (!l || !l->ctx) return;
    plim_release(l->ctx, l->items);
    *l = (plim_labels){0};
}
