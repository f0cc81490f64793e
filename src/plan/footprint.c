/* footprint.c - decides nothing: it walks the layout dry and adds up.  With several cards it first decides
 * which layers each holds. */
#include "plan/footprint.h"

#include "base/context.h"

#include <string.h>

static const char *const phase_names[] = {"load",      "forward",  "loss", "backward",
                                          "optimiser", "evaluate", "save"};

const char *plim_phase_name(plim_phase p)
{
    return (unsigned)p < sizeof phase_names / sizeof *phase_names ? phase_names[p] : "?";
}

plim_status plim_dry_open(plim_ctx *c, const plim_spec *s, plim_dry *out)
{
    plim_dry d = {.ctx = c, .spec = s};
    TRY(plim_alloc(c, (size_t)s->layers + 1, sizeof *d.step.layers, "the layers of a dry walk",
                   &d.step.layers));
    *out = d;
    return PLIM_OK;
}

void plim_dry_close(plim_dry *d)
{
    if (d->ctx) plim_release(d->ctx, d->step.layers);
    *d = (plim_dry){0};
}

typedef struct recorder {
    plim_footprint *out;
    plim_phase_usage *timeline;
    size_t count;
} recorder;

static void record(void *user, plim_phase phase, int64_t layer, const plim_usage *device,
                   const plim_usage *host)
{
    recorder *r = user;
    if (phase == PLIM_PHASE_LOAD) {
        r->out->load_peak = *device;
        r->out->load_host_bytes = host->total_bytes;
    }
    if (r->timeline) r->timeline[r->count] = (plim_phase_usage){phase, layer, *device, *host};
    r->count++;
}

static plim_status walk_one(plim_dry *d, const plim_shape *sh, plim_footprint *out,
                            plim_phase_usage *timeline, size_t *count)
{
    plim_memory mem;
    plim_footprint f = {0};
    recorder r = {&f, timeline, 0};
    plim_arena_dry(&mem.device);
    plim_arena_dry(&mem.host);
    plim_step_layout(&mem, sh, &d->step, record, &r);
    if (mem.device.overflow || mem.host.overflow)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "a step of %lld tokens overflows 63 bits of memory",
                         (long long)sh->T);
    f.device_peak = plim_arena_peak(&mem.device);
    f.host_peak = plim_arena_peak(&mem.host);
    f.lora_parameters = (size_t)sh->adapters.parameters;
    f.first_layer = sh->first_layer;
    f.last_layer = sh->last_layer;
    *out = f;
    if (count) *count = r.count;
    return PLIM_OK;
}

/* Bytes of one layer's frozen weights (the mean), of the embedding and of the head: what a split balances. */
typedef struct weight_bytes {
    double layer, embedding, head;
} weight_bytes;

static weight_bytes weight_bytes_of(const plim_shape *whole)
{
    plim_arena device, host;
    plim_model_weights m;
    plim_shape sh = *whole;
    sh.has_embedding = sh.has_head = false;
    plim_arena_dry(&device);
    plim_arena_dry(&host);
    plim_weights_layout(&device, &host, &sh, &m, NULL);
    double matrix = (double)whole->spec->vocab * (double)whole->D * (double)plim_dtype_bytes(whole->act);
    return (weight_bytes){(double)device.used.total_bytes / (double)whole->spec->layers,
                          whole->o.embedding_on_host ? 0 : matrix, matrix};
}

/* First layer of card k of n, so that every card holds about the same bytes. */
static int64_t first_layer_of(const plim_shape *whole, const weight_bytes *b, int k, int n)
{
    int64_t layers = whole->spec->layers;
    double share = ((double)layers * b->layer + b->embedding + b->head) / n;
    if (k == 0) return 0;
    if (k == n) return layers;
    int64_t at = (int64_t)((share * k - b->embedding) / b->layer + 0.5);
    if (at < k) at = k;
    if (at > layers - (n - k)) at = layers - (n - k);
    return at;
}

plim_status plim_dry_walk(plim_dry *d, const plim_options *o, int cards, plim_footprint *out,
                          plim_phase_usage *timeline, size_t *timeline_count)
{
    plim_shape whole;
    TRY(plim_shape_init(d->ctx, d->spec, o, &whole));
    if (cards <= 1) return walk_one(d, &whole, out, timeline, timeline_count);
    if (cards > whole.spec->layers)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%d cards for %lld layers; at most one card a layer", cards,
                         (long long)whole.spec->layers);
    weight_bytes bytes = weight_bytes_of(&whole);
    plim_footprint worst = {0};
    size_t host_bytes = 0;
    plim_usage host = {0};
    for (int k = 0; k < cards; k++) {
        plim_shape sh = whole;
        plim_footprint f;
        plim_shape_restrict(&sh, first_layer_of(&whole, &bytes, k, cards),
                            first_layer_of(&whole, &bytes, k + 1, cards));
        TRY(walk_one(d, &sh, &f, NULL, NULL));
        host_bytes += f.load_host_bytes;
        host.total_bytes += f.host_peak.total_bytes; /* one host serves all cards */
        for (int m = 0; m < PLIM_COMPONENT_COUNT; m++)
            host.component_bytes[m] += f.host_peak.component_bytes[m];
        if (f.device_peak.total_bytes > worst.device_peak.total_bytes) worst = f;
    }
    if (timeline || timeline_count) {
        plim_shape sh = whole;
        plim_footprint f;
        plim_shape_restrict(&sh, worst.first_layer, worst.last_layer);
        TRY(walk_one(d, &sh, &f, timeline, timeline_count));
    }
    worst.host_peak = host;
    worst.load_host_bytes = host_bytes;
    worst.lora_parameters = (size_t)whole.adapters.parameters;
    *out = worst;
    return PLIM_OK;
}

plim_status plim_footprint_of(plim_ctx *c, const plim_spec *s, const plim_options *o, int cards,
                              plim_footprint *out, plim_phase_usage *timeline, size_t *timeline_count)
{
    plim_dry d = {0};
    TRY(plim_dry_open(c, s, &d));
    plim_status st = plim_dry_walk(&d, o, cards, out, timeline, timeline_count);
    plim_dry_close(&d);
    return st;
}

typedef struct lister {
    plim_layout_visit visit;
    void *user;
} lister;

static void list_entry(void *user, bool host, const plim_arena_entry *e)
{
    const lister *l = user;
    l->visit(l->user, host, e->name, e->component, e->offset_bytes, e->size_bytes, e->dtype, e->rows, e->cols,
             e->pitch);
}

static void list_device(void *user, const plim_arena_entry *e)
{
    list_entry(user, false, e);
}

static void list_host(void *user, const plim_arena_entry *e)
{
    list_entry(user, true, e);
}

plim_status plim_layout_list(plim_ctx *c, const plim_spec *s, const plim_options *o, plim_layout_visit visit,
                             void *user)
{
    plim_shape sh;
    plim_dry d = {0};
    lister l = {visit, user};
    TRY(plim_shape_init(c, s, o, &sh));
    TRY(plim_dry_open(c, s, &d));
    plim_memory mem;
    plim_arena_dry(&mem.device);
    plim_arena_dry(&mem.host);
    mem.device.visit = list_device;
    mem.host.visit = list_host;
    mem.device.visit_user = mem.host.visit_user = &l;
    plim_step_layout(&mem, &sh, &d.step, NULL, NULL);
    plim_dry_close(&d);
    return PLIM_OK;
}
