/* table_json.c - decides how a plan looks as JSON.  Every key is documented in docs/plan-json.md.
 *
 * The tree is built blindly: a value that Jansson could not make is noticed where it is put, and reported
 * once. */
#include "plimsoll_table.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "base/utf8.h"

#define SCHEMA_VERSION 1
/* 15 digits bring a byte count back exactly from its GiB, and 0.92 out as 0.92. */
#define FLAGS (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

typedef struct builder {
    plim_ctx *ctx;
    const plim_table *t;
    bool failed;
} builder;

/* ---- values -------------------------------------------------------------------------------------------- */

/* Takes value over; NULL is one that memory did not suffice for.  false: it is gone. */
static bool put(builder *b, json_t *obj, const char *key, json_t *value)
{
    bool failed = json_object_set_new(obj, key, value) != 0;
    b->failed |= failed;
    return !failed;
}

static bool push(builder *b, json_t *arr, json_t *value)
{
    bool failed = json_array_append_new(arr, value) != 0;
    b->failed |= failed;
    return !failed;
}

/* An object or array that is filled after it was put, for the parent owns it.  NULL takes nothing in. */
static json_t *put_object(builder *b, json_t *obj, const char *key)
{
    json_t *v = json_object();
    return put(b, obj, key, v) ? v : NULL;
}

static json_t *put_array(builder *b, json_t *obj, const char *key)
{
    json_t *v = json_array();
    return put(b, obj, key, v) ? v : NULL;
}

static json_t *push_object(builder *b, json_t *arr)
{
    json_t *v = json_object();
    return push(b, arr, v) ? v : NULL;
}

static void put_i64(builder *b, json_t *obj, const char *key, int64_t n)
{
    put(b, obj, key, json_integer(n));
}

static void put_bytes(builder *b, json_t *obj, const char *key, size_t bytes)
{
    put(b, obj, key, json_integer((json_int_t)bytes));
}

/* JSON has no infinity: a number that is none is null. */
static void put_real(builder *b, json_t *obj, const char *key, double x)
{
    put(b, obj, key, isfinite(x) ? json_real(x) : json_null());
}

static void put_bool(builder *b, json_t *obj, const char *key, bool x)
{
    put(b, obj, key, json_boolean(x));
}

/* A path may hold any bytes; those that are not UTF-8 become U+FFFD. */
static void put_text(builder *b, json_t *obj, const char *key, const char *text)
{
    char *clean = NULL;
    size_t at = 0;
    if (plim_alloc(b->ctx, 3 * strlen(text) + 1, 1, "a JSON text", &clean)) {
        b->failed = true;
        return;
    }
    while (*text) {
        size_t n = plim_utf8_length(text), bytes = n ? n : 3;
        memcpy(clean + at, n ? text : PLIM_UTF8_REPLACEMENT, bytes);
        at += bytes;
        text += n ? n : 1;
    }
    put(b, obj, key, json_string(clean));
    plim_release(b->ctx, clean);
}

static void put_text_or_null(builder *b, json_t *obj, const char *key, const char *text)
{
    if (*text) put_text(b, obj, key, text);
    else put(b, obj, key, json_null());
}

static void put_usage(builder *b, json_t *obj, const char *key, const plim_usage *u)
{
    json_t *parts = put_object(b, obj, key);
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (u->component_bytes[m])
            put_bytes(b, parts, plim_component_key((plim_component)m), u->component_bytes[m]);
}

static const char *kernel_name(plim_attention_kernel k)
{
    switch (k) {
    case PLIM_ATTENTION_CPU: return "cpu";
    case PLIM_ATTENTION_CUDNN: return "cudnn";
    case PLIM_ATTENTION_OWN: return "own";
    }
    return "?";
}

/* ---- what was asked ------------------------------------------------------------------------------------ */

static void put_model(builder *b, json_t *root)
{
    const plim_table *t = b->t;
    json_t *model = put_object(b, root, "model");
    put_text(b, model, "name", t->request.model);
    put_i64(b, model, "parameters", t->counts.parameters);
    put_i64(b, model, "tensors", t->counts.tensors);
    put_i64(b, model, "lora_parameters", t->lora_parameters);
    put_i64(b, model, "vision_parameters", t->counts.vision_parameters);
    put_i64(b, model, "mtp_parameters", t->counts.mtp_parameters);
    put_i64(b, model, "lora_rank", t->request.base.lora_rank);
    json_t *targets = put_array(b, model, "targets");
    for (int i = 0; i < PLIM_TARGET_COUNT; i++)
        if (t->request.base.lora_targets & PLIM_TARGET_BIT(i))
            push(b, targets, json_string(plim_target_name((plim_target)i)));
}

static void put_workload(builder *b, json_t *root)
{
    const plim_workload *w = &b->t->request.workload;
    if (w->tokens <= 0) {
        put(b, root, "workload", json_null());
        return;
    }
    json_t *o = put_object(b, root, "workload");
    put_real(b, o, "tokens", w->tokens);
    if (w->labelled_share >= 0) put_real(b, o, "labelled_share", w->labelled_share);
    else put(b, o, "labelled_share", json_null());
    if (w->longest_tokens > 0) put_i64(b, o, "longest_tokens", w->longest_tokens);
    else put(b, o, "longest_tokens", json_null());
    json_t *lengths = put_array(b, o, "lengths");
    for (int64_t i = 0; i < w->lengths; i++) {
        json_t *bucket = push_object(b, lengths);
        put_i64(b, bucket, "seq_tokens", w->bucket_tokens[i]);
        put_real(b, bucket, "rows", w->bucket_rows[i]);
    }
}

static void put_cards(builder *b, json_t *root)
{
    const plim_table_request *r = &b->t->request;
    json_t *limits = put_object(b, root, "limits");
    put_real(b, limits, "usable_share", r->limits.usable_share);
    put_real(b, limits, "host_share", r->limits.host_share);
    json_t *cards = put_array(b, root, "cards");
    for (int64_t k = 0; k < r->card_count; k++) {
        const plim_card *card = r->cards[k];
        const char *missing;
        bool runnable = plim_card_runnable(r->spec, card, &missing);
        json_t *o = push_object(b, cards);
        put_text(b, o, "id", card->id);
        put_text(b, o, "name", card->name);
        put_i64(b, o, "cards", card->cards);
        put_i64(b, o, "memory_bytes", card->memory_bytes);
        put_i64(b, o, "usable_bytes", (int64_t)((double)card->memory_bytes * r->limits.usable_share));
        put_real(b, o, "usd_per_h", card->usd_per_h);
        put_text(b, o, "attention", kernel_name(card->attention));
        put_bool(b, o, "runnable", runnable);
        put_text_or_null(b, o, "missing", missing);
    }
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void put_row_components(builder *b, json_t *o, const plim_table_row *row)
{
    json_t *parts = put_object(b, o, "components_gib");
    if (b->t->request.trainer == PLIM_TRAINER_PLIMSOLL) {
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
            if (row->component_gib[m] > 0)
                put_real(b, parts, plim_component_key((plim_component)m), row->component_gib[m]);
        return;
    }
    put_real(b, parts, "weights", row->formula.weights_gib);
    put_real(b, parts, "lora", row->formula.lora_gib);
    put_real(b, parts, "checkpoints", row->formula.checkpoints_gib);
    put_real(b, parts, "recompute", row->formula.recompute_gib);
    put_real(b, parts, "loss", row->formula.loss_gib);
}

static void put_rows(builder *b, json_t *root)
{
    const plim_table *t = b->t;
    int64_t cards = t->request.card_count;
    json_t *rows = put_array(b, root, "rows");
    for (int64_t i = 0; i < t->request.seq_count * PLIM_ROWS_A_LENGTH; i++) {
        const plim_table_row *row = &t->rows[i];
        json_t *o = push_object(b, rows);
        put_i64(b, o, "seq_tokens", row->seq_tokens);
        put_text(b, o, "checkpoints", row->host_checkpoints ? "host" : "device");
        put_text(b, o, "loss", row->full_logits ? "full" : "chunked");
        put_real(b, o, "peak_gib", row->peak_gib);
        put_row_components(b, o, row);
        put_real(b, o, "host_gib", row->host_gib);
        json_t *verdicts = put_object(b, o, "verdicts");
        for (int64_t k = 0; k < cards; k++)
            put_text(b, verdicts, t->request.cards[k]->id, plim_verdict_name(t->verdicts[i * cards + k]));
    }
}

/* ---- best options -------------------------------------------------------------------------------------- */

static void put_options(builder *b, json_t *best, const plim_options *o)
{
    int64_t layers = b->t->request.spec->layers;
    json_t *v = put_object(b, best, "options");
    put_i64(b, v, "host_checkpoints", o->host_checkpoints < layers ? o->host_checkpoints : layers);
    put_i64(b, v, "kept_layers", o->kept_layers < layers ? o->kept_layers : layers);
    put_bool(b, v, "keep_attention_output", o->keep_attention_output);
    put_i64(b, v, "tile_tokens", o->tile_tokens);
    if (o->loss_rows == PLIM_FULL_LOGITS) put(b, v, "loss_rows", json_null());
    else put_i64(b, v, "loss_rows", o->loss_rows);
    put_bool(b, v, "embedding_on_host", o->embedding_on_host);
    put_i64(b, v, "kv_heads_per_call", o->kv_heads_per_call);
    put_text(b, v, "attention", kernel_name(o->attention));
    put_i64(b, v, "documents", o->documents);
    put_real(b, v, "labelled_share", o->labelled_share);
    put_real(b, v, "lora_dropout", o->lora_dropout);
    put_i64(b, v, "adam_bits", o->adam_bits);
}

static void put_step_parts(builder *b, json_t *best, const plim_step_time *time)
{
    json_t *v = put_object(b, best, "step_parts");
    put_real(b, v, "gemm_s", time->gemm_s);
    put_real(b, v, "attention_s", time->attention_s);
    put_real(b, v, "delta_s", time->delta_s);
    put_real(b, v, "elementwise_s", time->elementwise_s);
    put_real(b, v, "loss_s", time->loss_s);
    put_real(b, v, "recompute_s", time->recompute_s);
    put_real(b, v, "to_host_s", time->to_host_s);
    put_real(b, v, "from_host_s", time->from_host_s);
    put_real(b, v, "link_wait_s", time->link_wait_s);
}

static void put_choice(builder *b, json_t *o, const plim_choice *c)
{
    static const char *const short_of[] = {"", "device", "host"};
    const char *missing;
    put_text(b, o, "card", c->card->id);
    put_i64(b, o, "seq_tokens", c->options.seq_tokens);
    put_text(b, o, "verdict", plim_verdict_name(c->verdict));
    put_text_or_null(b, o, "short_of", short_of[c->shortage]);
    put_bool(b, o, "runnable", plim_card_runnable(b->t->request.spec, c->card, &missing));
    put_options(b, o, &c->options);
    put_bytes(b, o, "peak_bytes", c->footprint.device_peak.total_bytes);
    put_bytes(b, o, "budget_bytes", c->budget_bytes);
    put_usage(b, o, "components_bytes", &c->footprint.device_peak);
    put_bytes(b, o, "host_bytes", c->footprint.host_peak.total_bytes);
    put_bytes(b, o, "host_budget_bytes", c->host_budget_bytes);
    put_usage(b, o, "host_components_bytes", &c->footprint.host_peak);
    put_bytes(b, o, "load_peak_bytes", c->footprint.load_peak.total_bytes);
    put_bytes(b, o, "load_host_bytes", c->footprint.load_host_bytes);
    put_real(b, o, "step_seconds", c->time.step_s);
    put_step_parts(b, o, &c->time);
    put_real(b, o, "tokens_per_s", c->time.tokens_per_s);
    put_real(b, o, "usd_per_million_tokens", c->usd_per_million_tokens);
}

static void put_best(builder *b, json_t *root)
{
    const plim_table *t = b->t;
    json_t *best = put_array(b, root, "best");
    for (int64_t i = 0; t->best && i < t->request.seq_count * t->request.card_count; i++)
        put_choice(b, push_object(b, best), &t->best[i]);
}

/* ---- runs, load line, timeline, next ------------------------------------------------------------------- */

static void put_runs(builder *b, json_t *root)
{
    json_t *runs = put_array(b, root, "runs");
    for (int64_t i = 0; i < b->t->run_count; i++) {
        const plim_run *run = &b->t->runs[i];
        json_t *o = push_object(b, runs);
        put_text(b, o, "card", run->card->id);
        if (run->seq_tokens) put_i64(b, o, "seq_tokens", run->seq_tokens);
        else put(b, o, "seq_tokens", json_null());
        put_real(b, o, "tokens", run->tokens);
        put_real(b, o, "hours", run->hours);
        put_real(b, o, "hours_slow", run->hours_slow);
        put_real(b, o, "usd", run->usd);
        put_real(b, o, "usd_slow", run->usd_slow);
    }
}

static void put_load_line(builder *b, json_t *root)
{
    const plim_table *t = b->t;
    json_t *lines = put_array(b, root, "load_line");
    for (int64_t k = 0; t->lines && k < t->request.card_count; k++) {
        json_t *o = push_object(b, lines);
        put_text(b, o, "card", t->lines[k].card->id);
        put_i64(b, o, "best_tokens", t->lines[k].best_tokens);
        json_t *rows = put_array(b, o, "rows");
        for (int row = 0; row < PLIM_ROWS_A_LENGTH; row++) {
            json_t *v = push_object(b, rows);
            put_text(b, v, "checkpoints", plim_row_checkpoints(row));
            put_text(b, v, "loss", plim_row_loss(row));
            put_i64(b, v, "longest_tokens", t->lines[k].row_tokens[row]);
        }
    }
}

static void put_timeline(builder *b, json_t *root)
{
    json_t *timeline = put_array(b, root, "timeline");
    for (size_t i = 0; i < b->t->timeline_count; i++) {
        const plim_phase_usage *u = &b->t->timeline[i];
        json_t *o = push_object(b, timeline);
        put_text(b, o, "phase", plim_phase_name(u->phase));
        if (u->layer >= 0) put_i64(b, o, "layer", u->layer);
        else put(b, o, "layer", json_null());
        put_bytes(b, o, "device_bytes", u->device.total_bytes);
        put_bytes(b, o, "host_bytes", u->host.total_bytes);
    }
}

static void put_next(builder *b, json_t *root)
{
    static const char *const kinds[] = {"memtest", "one_card", "change"};
    const plim_next *n = &b->t->next;
    json_t *o = put_object(b, root, "next");
    put_text(b, o, "kind", kinds[n->kind]);
    put_text(b, o, "text", n->text);
    put_text_or_null(b, o, "command", n->command);
    put_text_or_null(b, o, "card", n->choice ? n->choice->card->id : "");
    if (n->choice) put_i64(b, o, "seq_tokens", n->choice->options.seq_tokens);
    else put(b, o, "seq_tokens", json_null());
    put_bool(b, root, "all_carried", b->t->all_carried);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static plim_status fail_memory(plim_ctx *c)
{
    return plim_fail(c, PLIM_E_OOM_HOST, "not enough memory for a plan as JSON; close other programs");
}

static plim_status dump(plim_ctx *c, const json_t *root, char **out)
{
    char *text = NULL;
    size_t bytes = json_dumpb(root, NULL, 0, FLAGS);
    if (!bytes) return fail_memory(c);
    TRY(plim_alloc(c, bytes + 2, 1, "a plan as JSON", &text));
    if (json_dumpb(root, text, bytes, FLAGS) != bytes) {
        plim_release(c, text);
        return fail_memory(c);
    }
    text[bytes] = '\n';
    *out = text;
    return PLIM_OK;
}

plim_status plim_table_json(plim_ctx *c, const plim_table *t, char **out)
{
    builder b = {c, t, false};
    json_t *root = json_object();
    put_i64(&b, root, "schema_version", SCHEMA_VERSION);
    put_text(&b, root, "plimsoll", PLIM_VERSION);
    put_text(&b, root, "trainer", plim_trainer_name(t->request.trainer));
    put_model(&b, root);
    put_workload(&b, root);
    put_cards(&b, root);
    put_rows(&b, root);
    put_best(&b, root);
    put_runs(&b, root);
    put_load_line(&b, root);
    put_timeline(&b, root);
    put_next(&b, root);
    plim_status st = b.failed ? fail_memory(c) : dump(c, root, out);
    json_decref(root);
    return st;
}

void plim_text_free(plim_ctx *c, char *text)
{
    plim_release(c, text);
}
