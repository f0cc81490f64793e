/* command.c - decides which of the asked options a proposed command repeats: all that are not the
 * defaults. */
#include "plan/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

void plim_say(char *text, size_t bytes, const char *fmt, ...)
{
    size_t used = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + used, bytes - used, fmt, ap);
    va_end(ap);
}

/* A path as a shell takes it. */
static void quoted(char *out, size_t bytes, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@+";
    if (*path && strspn(path, plain) == strlen(path)) {
        plim_say(out, bytes, "%s", path);
        return;
    }
    plim_say(out, bytes, "'");
    for (; *path; path++) {
        if (*path == '\'') plim_say(out, bytes, "'\\''");
        else plim_say(out, bytes, "%c", *path);
    }
    plim_say(out, bytes, "'");
}

/* The table's lengths up to the one to prove. */
static void sweep(const plim_table *t, int64_t most_tokens, char *out, size_t bytes)
{
    char number[PLIM_NUMBER_BYTES];
    bool any = false;
    for (int64_t s = 0; s < t->request.seq_count && t->request.seq_tokens[s] <= most_tokens; s++) {
        plim_say(out, bytes, "%s%s", any ? "," : "", plim_format_count(number, t->request.seq_tokens[s]));
        any = true;
    }
    if (!any) plim_say(out, bytes, "%s", plim_format_count(number, most_tokens));
}

static void targets(uint32_t bits, char *out, size_t bytes)
{
    bool any = false;
    for (unsigned i = 0; i < PLIM_TARGET_COUNT; i++) {
        if (!(bits & PLIM_TARGET_BIT(i))) continue;
        plim_say(out, bytes, "%s%s", any ? "," : "", plim_target_name((plim_target)i));
        any = true;
    }
}

static void adapter_options(const plim_options *o, char *out, size_t bytes)
{
    const plim_options d = plim_options_defaults();
    if (o->lora_rank != d.lora_rank) plim_say(out, bytes, " --rank %lld", (long long)o->lora_rank);
    if (o->lora_targets != d.lora_targets) {
        plim_say(out, bytes, " --targets ");
        targets(o->lora_targets, out, bytes);
    }
    if (o->lora_dropout > 0) plim_say(out, bytes, " --lora-dropout %.6g", o->lora_dropout);
    if (o->adam_bits != d.adam_bits) plim_say(out, bytes, " --adam %d", o->adam_bits);
    if (o->documents != d.documents) plim_say(out, bytes, " --documents %lld", (long long)o->documents);
}

static void pinned_options(const plim_options *o, uint32_t pinned, char *out, size_t bytes)
{
    if (pinned & PLIM_PIN_CHECKPOINTS) {
        if (o->host_checkpoints == 0) plim_say(out, bytes, " --checkpoints device");
        else if (o->host_checkpoints == PLIM_ALL_LAYERS) plim_say(out, bytes, " --checkpoints host");
        else plim_say(out, bytes, " --checkpoints %lld", (long long)o->host_checkpoints);
    }
    if (pinned & PLIM_PIN_KEPT_LAYERS) plim_say(out, bytes, " --keep-layers %lld", (long long)o->kept_layers);
    if (pinned & PLIM_PIN_ATTENTION_OUTPUT)
        plim_say(out, bytes, " --keep-attention %s", o->keep_attention_output ? "yes" : "no");
    if (pinned & PLIM_PIN_TILE) plim_say(out, bytes, " --tile %lld", (long long)o->tile_tokens);
    if (pinned & PLIM_PIN_EMBEDDING)
        plim_say(out, bytes, " --embedding %s", o->embedding_on_host ? "host" : "device");
    if (pinned & PLIM_PIN_ATTENTION_KERNEL)
        plim_say(out, bytes, " --attention %s", o->attention == PLIM_ATTENTION_OWN ? "own" : "cudnn");
    if ((pinned & PLIM_PIN_LOSS_ROWS) && o->loss_rows != PLIM_FULL_LOGITS)
        plim_say(out, bytes, " --loss-rows %lld", (long long)o->loss_rows);
}

void plim_memtest_command(const plim_table *t, const plim_memtest_ask *ask, char *out, size_t bytes)
{
    const plim_options *o = &t->request.base;
    *out = 0;
    plim_say(out, bytes, "plimsoll memtest ");
    quoted(out, bytes, t->request.model);
    plim_say(out, bytes, " --card %s --sweep ", ask->card->id);
    sweep(t, ask->most_tokens, out, bytes);
    adapter_options(o, out, bytes);
    pinned_options(o, ask->pinned, out, bytes);
    if (ask->full_logits) plim_say(out, bytes, " --loss full");
    if (t->request.card_file) {
        plim_say(out, bytes, " --card-file ");
        quoted(out, bytes, t->request.card_file);
    }
}
