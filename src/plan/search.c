/* search.c - decides which options to recommend: the fastest, by the roofline, among those whose dry walk
 * fits. Memory is monotone in every searched option, so each is found by bisection over walks, not by a
 * formula. */
#include "plimsoll_search.h"

#include "base/context.h"
#include "plan/footprint.h"

#include <string.h>

#define CACHE_SLOTS 4096 /* a power of two */
#define LEAST_TILE  512
#define LEAST_ROWS  256

/* A walk's result, kept because cards with the same kernel ask the same questions. */
typedef struct cached {
    bool used;
    plim_options options;
    int cards;
    plim_footprint footprint;
} cached;

struct plim_planner {
    plim_ctx *ctx;
    const plim_spec *spec;
    plim_dry dry;
    cached *cache;
};

plim_limits plim_limits_defaults(void)
{
    return (plim_limits){.usable_share = 0.92, .host_share = 0.80};
}

plim_status plim_planner_open(plim_ctx *c, const plim_spec *s, plim_planner **out)
{
    plim_planner *p = NULL;
    plim_status st = plim_alloc(c, 1, sizeof *p, "a planner", &p);
    if (st) return st;
    p->ctx = c;
    p->spec = s;
    st = plim_dry_open(c, s, &p->dry);
    if (!st) st = plim_alloc(c, CACHE_SLOTS, sizeof *p->cache, "a planner's walks", &p->cache);
    if (st) {
        plim_planner_close(p);
        return st;
    }
    *out = p;
    return PLIM_OK;
}

void plim_planner_close(plim_planner *p)
{
    if (!p) return;
    plim_ctx *c = p->ctx;
    plim_dry_close(&p->dry);
    plim_release(c, p->cache);
    plim_release(c, p);
}

/* ---- walks --------------------------------------------------------------------------------------------- */

static bool same_options(const plim_options *a, const plim_options *b)
{
    return a->seq_tokens == b->seq_tokens && a->documents == b->documents && a->act == b->act &&
           a->host_checkpoints == b->host_checkpoints &&
           a->keep_attention_output == b->keep_attention_output && a->kept_layers == b->kept_layers &&
           a->tile_tokens == b->tile_tokens && a->loss_rows == b->loss_rows && a->lora_rank == b->lora_rank &&
           a->lora_targets == b->lora_targets && a->adam_bits == b->adam_bits &&
           a->lora_dropout == b->lora_dropout && a->embedding_on_host == b->embedding_on_host &&
           a->kv_heads_per_call == b->kv_heads_per_call && a->attention == b->attention &&
           a->gemm_workspace_bytes == b->gemm_workspace_bytes && a->staging_bytes == b->staging_bytes;
}

static size_t slot_of(const plim_options *o, int cards)
{
    uint64_t h = (uint64_t)o->seq_tokens;
    const uint64_t parts[] = {(uint64_t)o->host_checkpoints,
                              (uint64_t)o->kept_layers,
                              (uint64_t)o->tile_tokens,
                              (uint64_t)o->loss_rows,
                              (uint64_t)o->attention,
                              (uint64_t)o->embedding_on_host,
                              (uint64_t)o->documents,
                              (uint64_t)o->keep_attention_output,
                              (uint64_t)cards};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        h = (h ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15) + (h >> 29);
    return (size_t)(h >> 20) & (CACHE_SLOTS - 1);
}

static void add_context(plim_usage *u, size_t bytes)
{
    u->total_bytes += bytes;
    u->component_bytes[PLIM_MEM_CONTEXT] += bytes;
}

/* plim_dry_walk, remembered.  The context is a constant at the bottom of the arena, so it is added
 * afterwards. */
static plim_status walk(plim_planner *p, const plim_options *o, int cards, plim_footprint *out)
{
    plim_options bare = *o;
    bare.context_bytes = 0;
    cached *slot = &p->cache[slot_of(&bare, cards)];
    if (!slot->used || slot->cards != cards || !same_options(&slot->options, &bare)) {
        slot->used = false;
        TRY(plim_dry_walk(&p->dry, &bare, cards, &slot->footprint, NULL, NULL));
        slot->options = bare;
        slot->cards = cards;
        slot->used = true;
    }
    *out = slot->footprint;
    size_t context = (o->context_bytes + PLIM_ARENA_ALIGN - 1) / PLIM_ARENA_ALIGN * PLIM_ARENA_ALIGN;
    add_context(&out->device_peak, context);
    add_context(&out->load_peak, context);
    return PLIM_OK;
}

/* ---- one candidate ------------------------------------------------------------------------------------- */

typedef struct search {
    plim_planner *p;
    const plim_card *card;
    const plim_limits *limits;
    size_t device_bytes, host_bytes; /* budgets of this search */
    plim_choice best;
    bool found;
    bool settled; /* found with every copy hidden behind work: no other placement is faster */
} search;

static bool pinned(const search *s, uint32_t pin)
{
    return (s->limits->pinned & pin) != 0;
}

static plim_status fits(search *s, const plim_options *o, bool *device, bool *host)
{
    plim_footprint f;
    TRY(walk(s->p, o, s->card->cards, &f));
    *device = f.device_peak.total_bytes <= s->device_bytes;
    *host = f.host_peak.total_bytes <= s->host_bytes && f.load_host_bytes <= s->host_bytes;
    return PLIM_OK;
}

static plim_status weigh(search *s, const plim_options *o)
{
    plim_choice c = {.card = s->card, .options = *o};
    bool device, host;
    TRY(fits(s, o, &device, &host));
    if (!device || !host) return PLIM_OK;
    plim_step_time_of(s->p->spec, o, s->card, &c.time);
    if (s->found && c.time.step_s >= s->best.time.step_s) return PLIM_OK;
    if (o->kept_layers >= s->p->spec->layers && !pinned(s, PLIM_PIN_ATTENTION_OUTPUT))
        c.options.keep_attention_output = false; /* nothing left to spare */
    TRY(walk(s->p, &c.options, s->card->cards, &c.footprint));
    s->best = c;
    s->found = true;
    return PLIM_OK;
}

/* The largest (smallest: the smallest) value of *field in low .. high that fits on the device or on the host;
 * what fits is monotone.  The wanted end is tried first, for it often fits.  *found false: none does. */
typedef struct bisection {
    plim_options *o;
    int64_t *field;
    int64_t low, high;
    bool smallest, on_host;
} bisection;

static plim_status bisect(search *s, const bisection *b, bool *found)
{
    int64_t low = b->low, high = b->high, answer = b->low - 1;
    int64_t middle = b->smallest ? low : high;
    while (low <= high) {
        bool device, host, ok;
        *b->field = middle;
        TRY(fits(s, b->o, &device, &host));
        ok = b->on_host ? host : device;
        if (ok) answer = middle;
        if (ok == b->smallest) high = middle - 1;
        else low = middle + 1;
        middle = low + (high - low) / 2;
    }
    *found = answer >= b->low;
    if (*found) *b->field = answer;
    return PLIM_OK;
}

/* ---- the options of one family: embedding place and kept attention output are fixed -------------------- */

static plim_status most_kept_layers(search *s, plim_options *o, bool *found)
{
    int64_t layers = s->p->spec->layers;
    bool device, host;
    if (pinned(s, PLIM_PIN_KEPT_LAYERS)) {
        TRY(fits(s, o, &device, &host));
        *found = device;
        return PLIM_OK;
    }
    bisection b = {o, &o->kept_layers, 0, layers, false, false};
    return bisect(s, &b, found);
}

/* With the first host_checkpoints layer inputs on the host, as many kept layers as fit. */
static plim_status try_placement(search *s, plim_options o, int64_t host_checkpoints)
{
    bool found;
    if (!pinned(s, PLIM_PIN_CHECKPOINTS)) o.host_checkpoints = host_checkpoints;
    TRY(most_kept_layers(s, &o, &found));
    return found ? weigh(s, &o) : PLIM_OK;
}

/* The most layer inputs the host can hold, when nothing else is on it but what a base asks for. */
static plim_status most_on_host(search *s, const plim_options *base, int64_t *out)
{
    plim_options o = *base;
    bool found;
    if (!pinned(s, PLIM_PIN_KEPT_LAYERS)) o.kept_layers = 0;
    bisection b = {&o, &o.host_checkpoints, 1, s->p->spec->layers, false, true};
    TRY(bisect(s, &b, &found));
    *out = found ? o.host_checkpoints : 0;
    return PLIM_OK;
}

/* The best options so far with the fewest layer inputs on the host that fit; fewer copies never take
 * longer. */
static plim_status bring_back(search *s)
{
    plim_options o = s->best.options;
    bool found;
    bisection fewer = {&o, &o.host_checkpoints, 0, o.host_checkpoints, true, false};
    TRY(bisect(s, &fewer, &found));
    if (!found) return PLIM_OK;
    plim_step_time t;
    plim_step_time_of(s->p->spec, &o, s->card, &t);
    if (t.step_s <= s->best.time.step_s) s->found = false; /* prefer them at equal time */
    return weigh(s, &o);
}

/* Whether the best options so far cannot be beaten: every layer input on the host, copied while work goes on,
 * and no room for one more kept layer without the ring of inputs either (a heavy first layer can make that
 * so). */
static plim_status settle(search *s)
{
    plim_options o = s->best.options;
    bool device, host;
    int64_t layers = s->p->spec->layers;
    s->settled = false;
    if (!s->found || o.host_checkpoints < layers || s->best.time.link_wait_s > 0) return PLIM_OK;
    o.host_checkpoints = 0;
    o.keep_attention_output = false;
    if (!pinned(s, PLIM_PIN_KEPT_LAYERS)) o.kept_layers++;
    if (o.kept_layers <= layers) TRY(fits(s, &o, &device, &host));
    else device = false;
    s->settled = !device;
    return PLIM_OK;
}

/* Every layer input on the host leaves most room for kept layers, so it is tried first; where that does not
 * settle it, every number of them is tried. */
static plim_status try_family(search *s, const plim_options *base)
{
    int64_t most, layers = s->p->spec->layers;
    if (pinned(s, PLIM_PIN_CHECKPOINTS)) return try_placement(s, *base, 0);
    TRY(most_on_host(s, base, &most));
    TRY(try_placement(s, *base, most));
    TRY(settle(s));
    for (int64_t k = 0; k <= layers && !s->settled; k++) TRY(try_placement(s, *base, k));
    return s->found && s->best.options.host_checkpoints > 0 ? bring_back(s) : PLIM_OK;
}

/* Keeping the attention output saves work and, on the host, costs no device memory; without it is tried where
 * the host or the link is what limits.  The embedding goes to the host only where nothing fits with it on the
 * device. */
static plim_status try_families(search *s, const plim_options *base)
{
    bool attention = plim_spec_layers_of(s->p->spec, PLIM_LAYER_ATTENTION) > 0;
    bool pin_embedding = pinned(s, PLIM_PIN_EMBEDDING), pin_output = pinned(s, PLIM_PIN_ATTENTION_OUTPUT);
    for (int host_embedding = 0; host_embedding < 2 && !s->found; host_embedding++) {
        if (pin_embedding ? host_embedding != base->embedding_on_host : host_embedding && s->p->spec->tied)
            continue;
        for (int keep = 1; keep >= 0 && !s->settled; keep--) {
            if (pin_output ? keep != base->keep_attention_output : keep && !attention) continue;
            plim_options o = *base;
            o.embedding_on_host = host_embedding;
            o.keep_attention_output = keep;
            TRY(try_family(s, &o));
        }
    }
    return PLIM_OK;
}

/* Smaller tiles and slabs only when nothing fits otherwise: they cost speed that the roofline does not
 * see. */
static plim_status try_sizes(search *s, const plim_options *base, const plim_options *least)
{
    plim_options o = *base;
    for (;;) {
        TRY(try_families(s, &o));
        bool smaller = false;
        if (s->found) return PLIM_OK;
        if (!pinned(s, PLIM_PIN_TILE) && o.tile_tokens > LEAST_TILE) {
            o.tile_tokens /= 2;
            smaller = true;
        }
        if (!pinned(s, PLIM_PIN_LOSS_ROWS) && o.loss_rows > LEAST_ROWS) {
            o.loss_rows /= 2;
            smaller = true;
        }
        if (!smaller) break;
    }
    o.tile_tokens = least->tile_tokens;
    o.loss_rows = least->loss_rows;
    o.kv_heads_per_call = least->kv_heads_per_call;
    return try_families(s, &o);
}

/* ---- verdicts
 * ---------------------------------------------------------------------------------------------------------------
 */

static size_t share_of(int64_t bytes, double share)
{
    return (size_t)((double)bytes * share);
}

static void set_card(plim_options *o, const plim_card *card, const plim_limits *limits)
{
    if (!(limits->pinned & PLIM_PIN_ATTENTION_KERNEL)) o->attention = card->attention;
    o->context_bytes = (size_t)card->context_bytes;
}

static size_t whole_card(const plim_card *card)
{
    return (size_t)(card->memory_bytes - card->reserved_bytes);
}

static void finish(plim_choice *c, const plim_limits *limits)
{
    c->budget_bytes = share_of(c->card->memory_bytes, limits->usable_share);
    if (c->budget_bytes > whole_card(c->card)) c->budget_bytes = whole_card(c->card);
    c->host_budget_bytes =
        share_of(limits->host_bytes ? limits->host_bytes : c->card->host_ram_bytes, limits->host_share);
    if (c->time.tokens_per_s > 0)
        c->usd_per_million_tokens = c->card->usd_per_h / 3600 * 1e6 / c->time.tokens_per_s;
}

plim_status plim_judge(plim_planner *p, const plim_card *card, const plim_options *base,
                       const plim_limits *limits, plim_choice *out)
{
    plim_choice c = {.card = card, .options = *base};
    set_card(&c.options, card, limits);
    TRY(walk(p, &c.options, card->cards, &c.footprint));
    plim_step_time_of(p->spec, &c.options, card, &c.time);
    finish(&c, limits);
    size_t device = c.footprint.device_peak.total_bytes, host = c.footprint.host_peak.total_bytes;
    if (c.footprint.load_host_bytes > host) host = c.footprint.load_host_bytes;
    c.verdict = device <= c.budget_bytes ? PLIM_FITS : device <= whole_card(card) ? PLIM_TIGHT : PLIM_NO;
    if (c.verdict == PLIM_NO) c.shortage = PLIM_SHORT_OF_DEVICE;
    if (host > c.host_budget_bytes) {
        c.verdict = PLIM_NO;
        c.shortage = PLIM_SHORT_OF_HOST;
    }
    *out = c;
    return PLIM_OK;
}

/* Keeps the leaner of *best and o on the device. */
static plim_status leaner(search *s, const plim_options *o, size_t *least, plim_options *best)
{
    plim_footprint f;
    TRY(walk(s->p, o, s->card->cards, &f));
    if (f.device_peak.total_bytes >= *least) return PLIM_OK;
    *least = f.device_peak.total_bytes;
    *best = *o;
    return PLIM_OK;
}

/* The options that need least device memory: what a no is judged by.  A tile too small takes more again, for
 * the state before every tile is kept; and so can the ring of inputs, where the first layer is the
 * heaviest. */
static plim_status smallest(search *s, const plim_options *base, plim_options *out)
{
    plim_options o = *base;
    int64_t layers = s->p->spec->layers;
    size_t least = SIZE_MAX;
    bool any_tile = !pinned(s, PLIM_PIN_TILE);
    if (!pinned(s, PLIM_PIN_KEPT_LAYERS)) o.kept_layers = 0;
    if (!pinned(s, PLIM_PIN_ATTENTION_OUTPUT)) o.keep_attention_output = false;
    if (!pinned(s, PLIM_PIN_LOSS_ROWS) && (o.loss_rows > LEAST_ROWS || o.loss_rows == PLIM_FULL_LOGITS))
        o.loss_rows = LEAST_ROWS;
    if (!pinned(s, PLIM_PIN_EMBEDDING)) o.embedding_on_host = !s->p->spec->tied;
    if (any_tile && !o.kv_heads_per_call) o.kv_heads_per_call = 1;
    for (;; o.tile_tokens /= 2) {
        if (!pinned(s, PLIM_PIN_CHECKPOINTS)) o.host_checkpoints = layers;
        TRY(leaner(s, &o, &least, out));
        if (!pinned(s, PLIM_PIN_CHECKPOINTS)) o.host_checkpoints = 0;
        TRY(leaner(s, &o, &least, out));
        if (!any_tile || o.tile_tokens <= LEAST_TILE) return PLIM_OK;
    }
}

plim_status plim_choose(plim_planner *p, const plim_card *card, const plim_options *base,
                        const plim_limits *limits, plim_choice *out)
{
    plim_options o = *base;
    set_card(&o, card, limits);
    plim_choice bounds = {.card = card};
    finish(&bounds, limits);
    search s = {.p = p, .card = card, .limits = limits, .host_bytes = bounds.host_budget_bytes};
    plim_options least;
    plim_choice floor;
    TRY(smallest(&s, &o, &least));
    TRY(plim_judge(p, card, &least, limits, &floor));
    const size_t budgets[] = {bounds.budget_bytes, whole_card(card)};
    for (int tight = 0; tight < 2 && floor.footprint.device_peak.total_bytes <= budgets[1]; tight++) {
        if (floor.footprint.device_peak.total_bytes > budgets[tight]) continue;
        s.device_bytes = budgets[tight];
        TRY(try_sizes(&s, &o, &least));
        if (!s.found) continue;
        s.best.verdict = tight ? PLIM_TIGHT : PLIM_FITS;
        finish(&s.best, limits);
        *out = s.best;
        return PLIM_OK;
    }
    floor.verdict = PLIM_NO;
    if (floor.footprint.device_peak.total_bytes > budgets[1]) floor.shortage = PLIM_SHORT_OF_DEVICE;
    else floor.shortage = PLIM_SHORT_OF_HOST;
    *out = floor;
    return PLIM_OK;
}

/* Whether the smallest options fit, with as many layer inputs on the host as the host can hold. */
static plim_status smallest_fits(search *s, const plim_options *base, bool *out)
{
    plim_options o;
    bool device, host, found;
    TRY(smallest(s, base, &o));
    TRY(fits(s, &o, &device, &host));
    if (device && !host && !pinned(s, PLIM_PIN_CHECKPOINTS)) {
        bisection b = {&o, &o.host_checkpoints, 1, s->p->spec->layers, false, true};
        TRY(bisect(s, &b, &found));
        if (found) TRY(fits(s, &o, &device, &host));
        if (!found || !device) {
            o.host_checkpoints = 0;
            TRY(fits(s, &o, &device, &host));
        }
    }
    *out = device && host;
    return PLIM_OK;
}

/* Whether any options fit this length, the embedding on the device or on the host. */
static plim_status length_fits(plim_planner *p, const plim_card *card, const plim_options *base,
                               const plim_limits *limits, int64_t tokens, bool *out)
{
    plim_options o = *base;
    plim_choice bounds = {.card = card};
    plim_limits placed = *limits;
    o.seq_tokens = tokens;
    if (o.documents > tokens) o.documents = tokens;
    set_card(&o, card, limits);
    finish(&bounds, limits);
    placed.pinned |= PLIM_PIN_EMBEDDING;
    search s = {.p = p,
                .card = card,
                .limits = &placed,
                .device_bytes = bounds.budget_bytes,
                .host_bytes = bounds.host_budget_bytes};
    TRY(smallest_fits(&s, &o, out));
    if (*out || (limits->pinned & PLIM_PIN_EMBEDDING) || p->spec->tied) return PLIM_OK;
    o.embedding_on_host = !o.embedding_on_host;
    return smallest_fits(&s, &o, out);
}

/* The longest fitting multiple of step_tokens among low .. high; 0: none. */
static plim_status longest_of(plim_planner *p, const plim_card *card, const plim_options *base,
                              const plim_limits *limits, int64_t step_tokens, int64_t low, int64_t high,
                              int64_t *out)
{
    int64_t answer = 0;
    while (low <= high) {
        int64_t middle = low + (high - low) / 2;
        bool ok;
        TRY(length_fits(p, card, base, limits, middle * step_tokens, &ok));
        if (ok) {
            answer = middle;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    *out = answer * step_tokens;
    return PLIM_OK;
}

plim_status plim_longest(plim_planner *p, const plim_card *card, const plim_options *base,
                         const plim_limits *limits, int64_t step_tokens, int64_t most_tokens, int64_t *out)
{
    int64_t found = 0;
    if (step_tokens < 1 || most_tokens < 0)
        return plim_fail(p->ctx, PLIM_E_RANGE,
                         "lengths up to %lld in steps of %lld; a step has to be 1 or more",
                         (long long)most_tokens, (long long)step_tokens);
    /* Memory grows with the length on either side of where heads begin to run in groups, but drops there. */
    int64_t high = most_tokens / step_tokens, below = PLIM_ALL_HEADS_UP_TO / step_tokens;
    if (below > high) below = high;
    TRY(longest_of(p, card, base, limits, step_tokens, below + 1, high, &found));
    if (!found) TRY(longest_of(p, card, base, limits, step_tokens, 1, below, &found));
    *out = found;
    return PLIM_OK;
}
