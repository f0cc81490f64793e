/* chat.c - decides which tokens of a row are trained on, and with what weight. */
#include "data/chat.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"

struct plim_chat_coder {
    plim_ctx *c;
    const plim_chat_model *m;
    plim_chat_options options;
    plim_tokenizer_scratch *scratch;
    plim_tokens tokens;
    char *joined; /* prompt and completion */
    size_t joined_cap;
};

/* ---- special tokens somebody typed -------------------------------------------------------------------- */

static void note_typed(const plim_chat_model *m, const char *text, const char *path, plim_chat_sample *out)
{
    plim_added_walk walk = {.set = &m->typed, .text = text, .bytes = strlen(text)};
    size_t begin, end;
    for (const plim_added_token *t; (t = plim_added_next(&walk, &begin, &end));) {
        if (out->typed++ == 0)
            snprintf(out->first_typed, sizeof out->first_typed, "%s: %.80s", path, t->text);
    }
}

static void note_typed_messages(const plim_chat_model *m, const json_t *messages, plim_chat_sample *out)
{
    static const char *const fields[] = {"content", "reasoning_content", "reasoning", "thinking"};
    char path[64];
    for (size_t i = 0; i < json_array_size(messages); i++) {
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            const char *text = json_string_value(json_object_get(json_array_get(messages, i), fields[k]));
            if (!text) continue;
            snprintf(path, sizeof path, "messages[%zu].%s", i, fields[k]);
            note_typed(m, text, path, out);
        }
    }
}

/* ---- tokens ------------------------------------------------------------------------------------------- */

/* The tokens of text into out, weightless, with room for one more. */
static plim_status tokenise(plim_chat_coder *k, const char *text, size_t bytes, bool special,
                            plim_chat_sample *out)
{
    plim_encode_options options = {.offsets = true, .special = special};
    TRY(plim_tokenizer_encode(k->scratch, text, bytes, options, &k->tokens));
    size_t n = k->tokens.count;
    TRY(plim_grow(k->c, &out->tokens, &out->tokens_cap, n + 1, sizeof *out->tokens, "tokens of a row"));
    TRY(plim_grow(k->c, &out->weights, &out->weights_cap, n + 1, sizeof *out->weights, "weights of a row"));
    if (n) memcpy(out->tokens, k->tokens.ids, n * sizeof *out->tokens);
    memset(out->weights, 0, n * sizeof *out->weights);
    out->count = n;
    return PLIM_OK;
}

/* Both in order, apart; ranges never go back. */
static void weigh(const plim_chat_coder *k, const plim_label *spans, size_t span_count, double row_weight,
                  plim_chat_sample *out)
{
    size_t first = 0;
    for (size_t i = 0; i < out->count; i++) {
        plim_token_range r = k->tokens.ranges[i];
        double weight = 0;
        while (first < span_count && spans[first].end <= r.begin) first++;
        if (r.begin == r.end) continue;
        for (size_t s = first; s < span_count && spans[s].begin < r.end; s++)
            if (spans[s].weight > weight) weight = spans[s].weight;
        out->weights[i] = (float)(weight * row_weight);
    }
}

/* Ends a text: with one end token, or with none.  A tokenizer's post-processor may have put one there. */
static void end_text(const plim_chat_coder *k, double row_weight, plim_chat_sample *out)
{
    int32_t end = k->m->end;
    bool there = end >= 0 && out->count && out->tokens[out->count - 1] == end;
    if (k->options.no_end) {
        plim_token_range r = there ? k->tokens.ranges[out->count - 1] : (plim_token_range){0, 1};
        out->count -= r.begin == r.end;
        return;
    }
    if (!there) out->tokens[out->count++] = end;
    out->weights[out->count - 1] = (float)row_weight;
    out->ended = true;
}

/* ---- kinds of rows ------------------------------------------------------------------------------------ */

static plim_status encode_plain(plim_chat_coder *k, const plim_row_content *row, plim_chat_sample *out)
{
    size_t before = row->prompt ? strlen(row->prompt) : 0, bytes = strlen(row->text);
    if (k->m->end < 0 && !k->options.no_end)
        return plim_fail(
            k->c, PLIM_E_USAGE,
            "texts end with the model's eos_token, and no tokenizer_config.json names one; --no-end "
            "leaves it out");
    if (row->prompt) note_typed(k->m, row->prompt, "prompt", out);
    note_typed(k->m, row->text, row->prompt ? "completion" : "text", out);
    TRY(plim_grow(k->c, &k->joined, &k->joined_cap, before + bytes + 1, 1, "a text"));
    if (before) memcpy(k->joined, row->prompt, before);
    memcpy(k->joined + before, row->text, bytes + 1);
    TRY(tokenise(k, k->joined, before + bytes, true, out));
    plim_label span = {
        .begin = k->options.scope == PLIM_LABEL_WHOLE ? 0 : before, .end = before + bytes, .weight = 1};
    weigh(k, &span, span.begin < span.end, row->weight, out);
    end_text(k, row->weight, out);
    return PLIM_OK;
}

static plim_status label(plim_chat_coder *k, const plim_row_content *row, const plim_rendered *r,
                         plim_chat_sample *out)
{
    plim_label_options how = {.scope = k->options.scope, .special = k->m->special};
    plim_labels l = {0};
    TRY(plim_labels_find(k->c, r, json_object_get(row->chat, "messages"), &k->m->chat.header, &how, &l));
    plim_status st = tokenise(k, r->text, r->bytes, false, out);
    if (!st) weigh(k, l.items, l.count, row->weight, out);
    out->unended = (int64_t)l.unended;
    plim_labels_close(&l);
    return st;
}

static plim_status encode_chat(plim_chat_coder *k, const plim_row_content *row, plim_chat_sample *out)
{
    plim_rendered r = {0};
    if (!k->m->chat.jinja)
        return plim_fail(k->c, PLIM_E_USAGE,
                         "a conversation wants a chat template, and the model has none; "
                         "--template FILE names one");
    note_typed_messages(k->m, json_object_get(row->chat, "messages"), out);
    TRY(plim_chat_render(k->c, &k->m->chat, row->chat, &r));
    plim_status st = label(k, row, &r, out);
    plim_rendered_close(&r);
    return st;
}

static plim_status nothing(const plim_chat_coder *k, const plim_row_content *row, const plim_chat_sample *out)
{
    const json_t *messages = json_object_get(row->chat, "messages");
    bool spoke = row->kind != PLIM_ROW_CHAT;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        spoke |= role && !strcmp(role, "assistant");
    }
    return plim_fail(k->c, PLIM_E_FORMAT, "nothing in the row is trained on: %s",
                     !spoke            ? "no message is the assistant's"
                     : out->count <= 1 ? "it has at most one token"
                     : row->chat       ? "train, weight and --turns leave no assistant message"
                                       : "the completion is empty");
}

int64_t plim_chat_labelled(const plim_chat_sample *s, size_t count)
{
    int64_t labelled = 0;
    for (size_t i = 1; i < count; i++) labelled += s->weights[i] > 0;
    return labelled;
}

plim_status plim_chat_encode(plim_chat_coder *k, const plim_row_content *row, plim_chat_sample *out)
{
    out->ctx = k->c;
    out->count = 0;
    out->labelled = out->unended = out->typed = 0;
    out->first_typed[0] = 0;
    out->ended = false;
    TRY(row->kind == PLIM_ROW_CHAT ? encode_chat(k, row, out) : encode_plain(k, row, out));
    if (out->count) out->weights[0] = 0; /* nothing predicts it */
    out->labelled = plim_chat_labelled(out, out->count);
    return out->labelled || row->weight == 0 ? PLIM_OK : nothing(k, row, out);
}

/* ---- means -------------------------------------------------------------------------------------------- */

plim_status plim_chat_coder_open(plim_ctx *c, const plim_chat_model *m, const plim_chat_options *options,
                                 plim_chat_coder **out)
{
    plim_chat_coder *k = NULL;
    TRY(plim_alloc(c, 1, sizeof *k, "a thread's tokenizer", &k));
    k->c = c;
    k->m = m;
    k->options = *options;
    plim_status st = plim_tokenizer_scratch_open(c, m->tokenizer, &k->scratch);
    if (st) plim_chat_coder_close(k);
    else *out = k;
    return st;
}

void plim_chat_coder_close(plim_chat_coder *k)
{
    if (!k) return;
    plim_tokens_close(&k->tokens);
    plim_tokenizer_scratch_close(k->scratch);
    plim_release(k->c, k->joined);
    plim_release(k->c, k);
}

void plim_chat_sample_close(plim_chat_sample *s)
{
    if (!s->ctx) return;
    plim_release(s->ctx, s->tokens);
    plim_release(s->ctx, s->weights);
    *s = (plim_chat_sample){0};
}
