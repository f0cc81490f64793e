/* memtest_cure.c - decides what to tell someone whose length does not fit: each option that would take less
 * is walked dry, so a cure that is named does cure. */
#include "train/memtest.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/units.h"

#define SMALL_TILE 512
#define SMALL_ROWS 256

const char *plim_memtest_amount(char buf[PLIM_NUMBER_BYTES], int64_t bytes)
{
    char gib[PLIM_NUMBER_BYTES];
    if (bytes < 0) snprintf(buf, PLIM_NUMBER_BYTES, "-");
    else if (bytes < INT64_C(1) << 30) snprintf(buf, PLIM_NUMBER_BYTES, "%.1f MiB", (double)bytes / 1048576);
    else snprintf(buf, PLIM_NUMBER_BYTES, "%.20s GiB", plim_format_bytes_gib(gib, (size_t)bytes));
    return buf;
}

typedef struct cure {
    plim_component component; /* what it shrinks most */
    const char *text;
    bool (*apply)(const plim_memtest_config *g, plim_options *o); /* false: it is so already */
} cure;

static bool chunked_loss(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->loss_rows != PLIM_FULL_LOGITS) return false;
    o->loss_rows = plim_options_defaults().loss_rows;
    return true;
}

static bool fewer_rows(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->loss_rows == PLIM_FULL_LOGITS || o->loss_rows <= SMALL_ROWS || o->seq_tokens <= SMALL_ROWS)
        return false;
    o->loss_rows = SMALL_ROWS;
    return true;
}

static bool inputs_to_host(const plim_memtest_config *g, plim_options *o)
{
    if (g->shared_memory || o->host_checkpoints >= g->spec->layers) return false;
    o->host_checkpoints = g->spec->layers;
    return true;
}

static bool nothing_kept(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->kept_layers == 0) return false;
    o->kept_layers = 0;
    return true;
}

static bool no_kept_output(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (!o->keep_attention_output) return false;
    o->keep_attention_output = false;
    return true;
}

static bool small_states(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->adam_bits == 8) return false;
    o->adam_bits = 8;
    return true;
}

static bool small_tile(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->tile_tokens <= SMALL_TILE || o->seq_tokens <= SMALL_TILE) return false;
    o->tile_tokens = SMALL_TILE;
    return true;
}

static bool embedding_to_host(const plim_memtest_config *g, plim_options *o)
{
    if (g->shared_memory || g->spec->tied || o->embedding_on_host) return false;
    o->embedding_on_host = true;
    return true;
}

static bool half_precision(const plim_memtest_config *g, plim_options *o)
{
    (void)g;
    if (o->act != PLIM_F32) return false;
    o->act = PLIM_BF16;
    return true;
}

/* Those that cost least speed first, among cures of one component. */
static const cure cures[] = {
    {PLIM_MEM_LOSS, "--loss chunked", chunked_loss},
    {PLIM_MEM_LOSS, "--loss-rows 256", fewer_rows},
    {PLIM_MEM_CHECKPOINTS, "--checkpoints host", inputs_to_host},
    {PLIM_MEM_KEPT, "--keep-layers 0", nothing_kept},
    {PLIM_MEM_ATTENTION_OUTPUT, "--keep-attention no", no_kept_output},
    {PLIM_MEM_OPTIMISER, "--adam 8", small_states},
    {PLIM_MEM_MLP, "--tile 512", small_tile},
    {PLIM_MEM_WEIGHTS, "--embedding host", embedding_to_host},
    {PLIM_MEM_WEIGHTS, "--dtype bf16", half_precision},
};
enum { CURES = sizeof cures / sizeof *cures };

static plim_status walk(plim_ctx *c, const plim_memtest_config *g, const plim_options *o, plim_usage *out)
{
    plim_footprint f;
    TRY(plim_footprint_of(c, g->spec, o, 1, &f, NULL, NULL));
    *out = f.device_peak;
    if (!g->shared_memory) return PLIM_OK;
    out->total_bytes += f.host_peak.total_bytes;
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) out->component_bytes[m] += f.host_peak.component_bytes[m];
    return PLIM_OK;
}

static size_t allowed(const plim_memtest_config *g)
{
    return (size_t)((double)g->card->memory_bytes * PLIM_MEMTEST_FITS_SHARE);
}

/* The cure of the largest component that alone makes it fit; -1: none does. */
static plim_status find_one(plim_ctx *c, const plim_memtest_config *g, const plim_options *o,
                            const plim_usage *now, int *out)
{
    int best = -1;
    for (int i = 0; i < CURES; i++) {
        plim_options less = *o;
        plim_usage then;
        size_t bytes = now->component_bytes[cures[i].component];
        if (!cures[i].apply(g, &less)) continue;
        TRY(walk(c, g, &less, &then));
        if (then.total_bytes > allowed(g)) continue;
        if (best < 0 || bytes > now->component_bytes[cures[best].component]) best = i;
    }
    *out = best;
    return PLIM_OK;
}

/* All of them together, where one is not enough; options then holds what they make, text how they are
 * spelt. */
static void join_all(const plim_memtest_config *g, plim_options *o, char *text, size_t cap)
{
    text[0] = 0;
    for (int i = 0; i < CURES; i++) {
        if (!cures[i].apply(g, o)) continue;
        size_t used = strlen(text);
        snprintf(text + used, cap - used, "%s%s", used ? " " : "", cures[i].text);
    }
}

static int largest(const plim_usage *u)
{
    int best = 0;
    for (int m = 1; m < PLIM_COMPONENT_COUNT; m++)
        if (u->component_bytes[m] > u->component_bytes[best]) best = m;
    return best;
}

plim_status plim_memtest_find_cure(plim_ctx *c, const plim_memtest_config *g, const plim_options *o,
                                   plim_memtest_cure *out)
{
    plim_memtest_cure r = {0};
    plim_options least = *o;
    plim_usage now, then;
    int one;
    char joined[sizeof r.text], need[PLIM_NUMBER_BYTES];
    TRY(walk(c, g, o, &now));
    TRY(find_one(c, g, o, &now, &one));
    r.component = one >= 0 ? (int)cures[one].component : largest(&now);
    r.bytes = (int64_t)now.component_bytes[r.component];
    if (one >= 0) {
        snprintf(r.text, sizeof r.text, "%s", cures[one].text);
        *out = r;
        return PLIM_OK;
    }
    join_all(g, &least, joined, sizeof joined);
    TRY(walk(c, g, &least, &then));
    if (then.total_bytes <= allowed(g)) snprintf(r.text, sizeof r.text, "%s", joined);
    else
        snprintf(r.text, sizeof r.text, "a larger %s, with %s", g->shared_memory ? "machine" : "card",
                 plim_memtest_amount(need, (int64_t)((double)then.total_bytes / PLIM_MEMTEST_FITS_SHARE)));
    *out = r;
    return PLIM_OK;
}
