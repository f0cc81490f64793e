/* memtest_result_json.c - decides how a memory test looks as JSON.  Every key is documented in
 * docs/memtest-json.md.
 *
 * The text is written straight into one block that grows, not through a tree of values: it has to be written
 * when memory is short, too.  The first failure is sticky and reported once. */
#include "formats/memtest_result.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/memtest_keys.h"

typedef struct writer {
    plim_ctx *ctx;
    char *text;
    size_t cap, used;
    int depth;
    bool first; /* nothing stands in the innermost object or array yet */
    plim_status status;
} writer;

/* ---- text ---------------------------------------------------------------------------------------------- */

static void append(writer *w, const char *bytes, size_t n)
{
    if (!w->status) w->status = plim_grow(w->ctx, &w->text, &w->cap, w->used + n + 1, 1, "a result as JSON");
    if (w->status) return;
    memcpy(w->text + w->used, bytes, n);
    w->used += n;
    w->text[w->used] = 0;
}

static void say(writer *w, const char *fmt, ...) PLIM_PRINTF(2, 3);
static void say(writer *w, const char *fmt, ...)
{
    char buf[128]; /* numbers and keys; free text goes through append */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    append(w, buf, n < 0 ? 0 : (size_t)n < sizeof buf ? (size_t)n : sizeof buf - 1);
}

/* Where the next value begins: a comma if need be, a line of its own, its key unless in an array. */
static void begin(writer *w, const char *key)
{
    if (!w->first) append(w, ",", 1);
    say(w, "\n%*s", 2 * w->depth, "");
    if (key) say(w, "\"%s\": ", key);
    w->first = false;
}

static void open_node(writer *w, const char *key, char bracket)
{
    if (w->depth) begin(w, key);
    append(w, &bracket, 1);
    w->depth++;
    w->first = true;
}

static void close_node(writer *w, char bracket)
{
    w->depth--;
    if (!w->first) say(w, "\n%*s", 2 * w->depth, "");
    append(w, &bracket, 1);
    w->first = false;
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void put_null(writer *w, const char *key)
{
    begin(w, key);
    append(w, "null", 4);
}

static void put_i64(writer *w, const char *key, int64_t n)
{
    begin(w, key);
    say(w, "%" PRId64, n);
}

/* null when it is below least: nothing known, none. */
static void put_i64_or_null(writer *w, const char *key, int64_t n, int64_t least)
{
    if (n < least) put_null(w, key);
    else put_i64(w, key, n);
}

/* 17 digits bring a double back exactly.  A locale may have put a comma where the point belongs. */
static void put_real(writer *w, const char *key, double x)
{
    char number[40];
    if (!isfinite(x)) {
        put_null(w, key);
        return;
    }
    int n = snprintf(number, sizeof number, "%.17g", x);
    for (int i = 0; i < n; i++)
        if (!strchr("+-0123456789e", number[i])) number[i] = '.';
    begin(w, key);
    say(w, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
}

static void put_real_or_null(writer *w, const char *key, double x)
{
    put_real(w, key, x >= 0 ? x : NAN);
}

static void put_bool(writer *w, const char *key, bool x)
{
    begin(w, key);
    say(w, "%s", x ? "true" : "false");
}

/* A name may hold any bytes; those that are not UTF-8 become U+FFFD. */
static void put_text(writer *w, const char *key, const char *text)
{
    begin(w, key);
    append(w, "\"", 1);
    while (*text) {
        size_t n = plim_utf8_length(text);
        unsigned char ch = (unsigned char)*text;
        if (n == 0) append(w, PLIM_UTF8_REPLACEMENT, 3);
        else if (ch == '"' || ch == '\\') say(w, "\\%c", ch);
        else if (ch < 0x20) say(w, "\\u%04x", ch);
        else append(w, text, n);
        text += n ? n : 1;
    }
    append(w, "\"", 1);
}

static void put_text_or_null(writer *w, const char *key, const char *text)
{
    if (*text) put_text(w, key, text);
    else put_null(w, key);
}

/* The same amount twice: exact, and for people. */
static void put_bytes(writer *w, const char *stem, int64_t bytes)
{
    char key[64];
    snprintf(key, sizeof key, "%s_bytes", stem);
    put_i64_or_null(w, key, bytes, 0);
    snprintf(key, sizeof key, "%s_gib", stem);
    put_real(w, key, bytes < 0 ? NAN : (double)bytes / PLIM_MEMTEST_GIB);
}

/* ---- parts --------------------------------------------------------------------------------------------- */

static void put_shared_options(writer *w, const plim_memtest_result *r)
{
    const plim_options *o = &r->options;
    open_node(w, "options", '{');
    put_text(w, "dtype", plim_dtype_name(o->act));
    put_i64(w, "steps", r->steps_wanted);
    put_i64(w, "seed", r->seed);
    put_real(w, "labelled_share", o->labelled_share);
    put_i64(w, "documents", o->documents);
    put_i64(w, "lora_rank", o->lora_rank);
    open_node(w, "lora_targets", '[');
    for (int t = 0; t < PLIM_TARGET_COUNT; t++)
        if (o->lora_targets & PLIM_TARGET_BIT(t)) put_text(w, NULL, plim_target_name((plim_target)t));
    close_node(w, ']');
    put_real(w, "lora_dropout", o->lora_dropout);
    put_i64(w, "adam_bits", o->adam_bits);
    close_node(w, '}');
}

static void put_options(writer *w, const plim_options *o)
{
    open_node(w, "options", '{');
    put_i64(w, "host_checkpoints", o->host_checkpoints);
    put_i64(w, "kept_layers", o->kept_layers);
    put_bool(w, "keep_attention_output", o->keep_attention_output);
    put_i64(w, "tile_tokens", o->tile_tokens);
    put_i64_or_null(w, "loss_rows", o->loss_rows, 1);
    put_bool(w, "embedding_on_host", o->embedding_on_host);
    put_text(w, "attention", plim_memtest_kernels[o->attention]);
    close_node(w, '}');
}

static void put_length(writer *w, const plim_memtest_length *l)
{
    put_i64(w, "seq_tokens", l->seq_tokens);
    put_text(w, "verdict", plim_verdict_name(l->verdict));
    put_options(w, &l->options);
    put_bytes(w, "planned_peak", l->planned_peak_bytes);
    put_bytes(w, "measured_peak", l->measured_peak_bytes);
    put_bytes(w, "arena_peak", l->arena_peak_bytes);
    put_bytes(w, "process_peak", l->process_peak_bytes);
    put_bytes(w, "process_before", l->process_before_bytes);
    put_bool(w, "process_peak_reset", l->process_peak_reset);
    put_bytes(w, "host_peak", l->host_peak_bytes);
    open_node(w, "components_bytes", '{');
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
        if (l->component_bytes[m]) put_i64(w, plim_component_key((plim_component)m), l->component_bytes[m]);
    close_node(w, '}');
    put_real_or_null(w, "expected_step_seconds", l->expected_step_s);
    put_real_or_null(w, "setup_seconds", l->setup_s);
    open_node(w, "step_seconds", '[');
    for (int64_t i = 0; i < l->steps; i++) put_real(w, NULL, l->step_s[i]);
    close_node(w, ']');
    put_real_or_null(w, "evaluation_seconds", l->evaluation_s);
    put_real_or_null(w, "tokens_per_s", l->tokens_per_s);
    put_real(w, "loss", l->loss);
    put_real(w, "evaluation_loss", l->evaluation_loss);
    put_text_or_null(w, "error", l->error);
}

static void put_failure(writer *w, const plim_memtest_failure *f)
{
    if (!f->present) {
        put_null(w, "failure");
        return;
    }
    open_node(w, "failure", '{');
    put_i64_or_null(w, "seq_tokens", f->seq_tokens, 1);
    put_text(w, "status", plim_status_name(f->status));
    put_text_or_null(w, "component",
                     f->component < 0 ? "" : plim_component_key((plim_component)f->component));
    put_i64_or_null(w, "bytes", f->component < 0 ? -1 : f->bytes, 0);
    put_text_or_null(w, "cure", f->cure);
    put_text(w, "error", f->error);
    close_node(w, '}');
}

static void put_head(writer *w, const plim_memtest_result *r)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->config_hash);
    put_i64(w, "schema_version", PLIM_MEMTEST_SCHEMA_VERSION);
    put_text(w, "created", r->created);
    open_node(w, "model", '{');
    put_text(w, "name", r->model);
    put_i64(w, "parameters", r->parameters);
    put_i64(w, "lora_parameters", r->lora_parameters);
    put_text(w, "config_fnv1a64", hash);
    close_node(w, '}');
    open_node(w, "card", '{');
    put_text(w, "id", r->card);
    put_text(w, "device", r->device);
    put_bytes(w, "budget", r->budget_bytes);
    put_bytes(w, "available", r->available_bytes);
    put_real_or_null(w, "usd_per_h", r->usd_per_h);
    put_real_or_null(w, "gemm_tflop_per_s", r->gemm_tflop_per_s);
    put_real_or_null(w, "memory_gb_per_s", r->memory_gb_per_s);
    put_real_or_null(w, "normals_per_s", r->normals_per_s);
    close_node(w, '}');
    put_shared_options(w, r);
    open_node(w, "versions", '{');
    put_text(w, "plimsoll", r->plimsoll);
    put_text(w, "compiler", r->compiler);
    put_text(w, "libraries", r->libraries);
    close_node(w, '}');
}

static void put_all(writer *w, const plim_memtest_result *r)
{
    open_node(w, NULL, '{');
    put_head(w, r);
    open_node(w, "lengths", '[');
    for (int64_t i = 0; i < r->length_count; i++) {
        open_node(w, NULL, '{');
        put_length(w, &r->length[i]);
        close_node(w, '}');
    }
    close_node(w, ']');
    put_i64_or_null(w, "running_tokens", r->running_tokens, 1);
    put_i64(w, "limit_tokens", r->limit_tokens);
    put_i64_or_null(w, "first_failing_tokens", r->first_failing_tokens, 1);
    put_text_or_null(w, "stopped_by", plim_memtest_stops[r->stopped]);
    put_failure(w, &r->failure);
    put_real_or_null(w, "max_usd", r->max_usd);
    put_real_or_null(w, "usd", r->usd);
    put_real_or_null(w, "expected_seconds", r->expected_s);
    put_real(w, "seconds", r->seconds);
    close_node(w, '}');
    append(w, "\n", 1);
}

plim_status plim_memtest_result_json(plim_ctx *c, const plim_memtest_result *r, char **out)
{
    writer w = {.ctx = c, .first = true};
    put_all(&w, r);
    if (w.status) plim_release(c, w.text);
    else *out = w.text;
    return w.status;
}

plim_status plim_memtest_result_write(plim_ctx *c, const plim_memtest_result *r, const char *path)
{
    char *text = NULL;
    TRY(plim_memtest_result_json(c, r, &text));
    plim_status st = plim_file_write(c, path, text, strlen(text));
    plim_release(c, text);
    return st;
}
