/* The layout of a training step, over many random small models and options: dry equals live to the byte, what
 * is in use together never overlaps, and what a layer leaves behind is untouched when its backward pass reads
 * it. */
#include "model/layout_case.h"

#include "model/engine.h"

#define CASES    400
#define MOST_SET 80
#define SCRIBBLE 0xEE

/* ---- dry and live ---- */

static void check_usage(uint64_t seed, const char *what, const plim_usage *dry, const plim_usage *live)
{
    size_t sum = 0;
    if (memcmp(dry, live, sizeof *dry))
        fail_msg("seed %llu: %s: %zu bytes dry, %zu live", (unsigned long long)seed, what, dry->total_bytes,
                 live->total_bytes);
    for (int m = 0; m < PLIM_COMPONENT_COUNT; m++) sum += live->component_bytes[m];
    if (sum != live->total_bytes)
        fail_msg("seed %llu: %s: components add up to %zu of %zu", (unsigned long long)seed, what, sum,
                 live->total_bytes);
}

TEST(live_is_dry_to_the_byte_and_a_byte_less_is_too_little)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        layout_case *k = layout_open(c, seed, seed % 3 == 2);
        plim_memory dry = layout_dry(k), live;
        plim_usage device = plim_arena_peak(&dry.device), host = plim_arena_peak(&dry.host);
        assert_false(dry.device.overflow || dry.host.overflow || dry.device.exhausted || dry.host.exhausted);
        char *block = layout_block(device.total_bytes), *pinned = layout_block(host.total_bytes);
        plim_arena_live(&live.device, block, device.total_bytes);
        plim_arena_live(&live.host, pinned, host.total_bytes);
        plim_step_layout(&live, &k->shape, &k->step, NULL, NULL);
        assert_false(live.device.overflow || live.host.overflow || live.device.exhausted ||
                     live.host.exhausted);
        plim_usage device_live = plim_arena_peak(&live.device), host_live = plim_arena_peak(&live.host);
        check_usage(seed, "device", &device, &device_live);
        check_usage(seed, "host", &host, &host_live);
        /* The step gives back all it took: the next one starts where this one did. */
        assert_int_equal(live.device.used.total_bytes, k->step.layers[0].before_input.total_bytes);

        plim_arena_live(&live.device, block, device.total_bytes - 1);
        plim_arena_dry(&live.host);
        plim_step_layout(&live, &k->shape, &k->step, NULL, NULL);
        assert_true(live.device.exhausted);
        plim_arena_dry(&live.device);
        if (host.total_bytes) {
            plim_arena_live(&live.host, pinned, host.total_bytes - 1);
            plim_step_layout(&live, &k->shape, &k->step, NULL, NULL);
            assert_true(live.host.exhausted);
        }
        free(block);
        free(pinned);
        layout_close(k);
    }
    test_ctx_close(c);
}

/* ---- what is in use together ---- */

typedef struct range {
    const char *name;
    const char *start;
    size_t bytes;
} range;

/* Memory in use at one moment of a step. */
typedef struct set {
    range in[MOST_SET];
    int count;
} set;

typedef struct watch {
    uint64_t seed;
    layout_case *k;
    plim_memory mem;
    char *block, *pinned;
    size_t block_bytes, pinned_bytes;
    set whole; /* from before the first layer to the end */
    bool whole_known;
    int checks; /* moments looked at, so that a walk that calls nothing is noticed */
} watch;

static void put_bytes(set *s, const char *name, const void *start, size_t bytes)
{
    if (!bytes) return;
    if (s->count == MOST_SET) fail_msg("a set of more than %d tensors", MOST_SET);
    s->in[s->count++] = (range){name, start, bytes};
}

/* The rows of t, and more_rows below them. */
static void put_more(set *s, const char *name, plim_tensor t, int64_t more_rows)
{
    if (t.rows == 0 || t.cols == 0) return;
    size_t element = plim_dtype_bytes(t.dtype);
    if (!t.data) fail_msg("%s has no memory", name);
    if ((uintptr_t)t.data % PLIM_ARENA_ALIGN)
        fail_msg("%s does not start on %d bytes", name, PLIM_ARENA_ALIGN);
    if ((size_t)t.pitch * element % 16 || t.pitch < t.cols)
        fail_msg("%s: rows do not start on 16 bytes", name);
    put_bytes(s, name, t.data, (size_t)(t.rows + more_rows) * (size_t)t.pitch * element);
}

static void put(set *s, const char *name, plim_tensor t)
{
    put_more(s, name, t, 0);
}

static void put_linear(set *s, const char *name, const plim_linear *l, const plim_linear_weights *w)
{
    put_more(s, name, w->weight, w->weight.rows ? l->pad : 0);
    put(s, "bias", w->bias);
}

static bool inside(const range *r, const char *block, size_t bytes)
{
    return r->start >= block && r->start + r->bytes <= block + bytes;
}

static void check_set(watch *w, const char *moment, const set *s)
{
    for (int i = 0; i < s->count; i++) {
        const range *a = &s->in[i];
        if (!inside(a, w->block, w->block_bytes) && !inside(a, w->pinned, w->pinned_bytes))
            fail_msg("seed %llu, %s: %s leaves its block", (unsigned long long)w->seed, moment, a->name);
        for (int j = 0; j < i; j++) {
            const range *b = &s->in[j];
            if (a->start < b->start + b->bytes && b->start < a->start + a->bytes)
                fail_msg("seed %llu, %s: %s overlaps %s", (unsigned long long)w->seed, moment, a->name,
                         b->name);
        }
    }
    w->checks++;
}

static void put_attention_work(set *s, const plim_attention_work *a)
{
    put(s, "h", a->h), put(s, "u", a->u), put(s, "q", a->q), put(s, "k", a->k);
    put(s, "dout", a->dout), put(s, "delta", a->delta), put(s, "dq", a->dq), put(s, "dk", a->dk);
    put(s, "dv", a->dv), put(s, "dh", a->dh);
    put_bytes(s, "attention scratch", a->scratch, a->scratch_bytes);
}

static void put_attention_saved(set *s, const plim_attention_saved *a)
{
    put(s, "qkv", a->qkv), put(s, "o", a->o), put(s, "lse", a->lse);
}

static void put_delta_saved(set *s, const plim_delta_saved *d)
{
    put(s, "qkvz", d->qkvz), put(s, "ba", d->ba), put(s, "o", d->o), put(s, "states", d->states);
}

static void put_delta_work(set *s, const plim_delta_work *d)
{
    put(s, "h", d->h), put(s, "c", d->c), put(s, "g", d->g), put(s, "beta", d->beta), put(s, "y", d->y);
    put(s, "state", d->state), put(s, "history", d->history), put(s, "tile qkvz", d->qkvz);
    put(s, "tile ba", d->ba), put(s, "tile o", d->o), put(s, "dy", d->dy), put(s, "dout", d->dout);
    put(s, "dc", d->dc), put(s, "dqkvz", d->dqkvz), put(s, "dg", d->dg), put(s, "dbl", d->dbl);
    put(s, "dba", d->dba), put(s, "carry", d->carry), put(s, "dstate", d->dstate), put(s, "dh", d->dh);
    put_bytes(s, "delta scratch", d->scratch, d->scratch_bytes);
}

static void put_mlp_work(set *s, const plim_mlp_work *m)
{
    put(s, "mlp h", m->h), put(s, "gate_up", m->gate_up), put(s, "p", m->p), put(s, "dp", m->dp);
    put(s, "mlp dh", m->dh);
}

static void put_whole(watch *w)
{
    set *s = &w->whole;
    const plim_step *st = &w->k->step;
    const plim_adapters *a = &st->adapters;
    const plim_batch_tables *b = &st->batch;
    const plim_shape *sh = &w->k->shape;
    for (int64_t i = sh->first_layer; i < sh->last_layer; i++) {
        const plim_layer_weights *l = &st->weights[i - sh->first_layer];
        const plim_layer_linears *d = plim_shape_linears(sh, i);
        set layer = {0};
        put(&layer, "input_norm", l->input_norm), put(&layer, "post_norm", l->post_norm);
        put(&layer, "q_norm", l->q_norm), put(&layer, "k_norm", l->k_norm), put(&layer, "conv", l->conv);
        put(&layer, "a_log", l->a_log), put(&layer, "dt_bias", l->dt_bias);
        put(&layer, "gated_norm", l->gated_norm);
        put_linear(&layer, "in_proj", &d->in, &l->in), put_linear(&layer, "ba", &d->ba, &l->ba);
        put_linear(&layer, "out_proj", &d->out, &l->out),
            put_linear(&layer, "gate_up", &d->gate_up, &l->gate_up);
        put_linear(&layer, "down", &d->down, &l->down);
        check_set(w, "a layer's weights", &layer);
        /* as one range each in the set of the whole step */
        const char *low = layer.in[0].start, *high = low;
        for (int r = 0; r < layer.count; r++) {
            if (layer.in[r].start < low) low = layer.in[r].start;
            if (layer.in[r].start + layer.in[r].bytes > high) high = layer.in[r].start + layer.in[r].bytes;
        }
        put_bytes(s, "a layer's weights", low, (size_t)(high - low));
    }
    put(s, "embedding", st->model.embedding), put(s, "final_norm", st->model.final_norm);
    if (!w->k->spec.tied) put(s, "lm_head", st->model.head);
    put(s, "master", a->master), put(s, "grad", a->grad), put(s, "m", a->m), put(s, "v", a->v);
    put(s, "m_max", a->m_max), put(s, "v_max", a->v_max), put(s, "small_m", a->small_m);
    put(s, "small_v", a->small_v);
    put(s, "ids", b->ids), put(s, "labels", b->labels), put(s, "weights", b->weights),
        put(s, "index", b->index);
    put(s, "start", b->start), put(s, "cos", b->cos), put(s, "sin", b->sin);
    assert_true(b->scalars.rows == 1 && b->scalars.cols >= PLIM_SCALARS && b->scalars.dtype == PLIM_F64);
    put(s, "scalars", b->scalars);
    put_bytes(s, "chunks", b->chunks, sizeof(plim_chunk) * (size_t)sh->all_chunks);
    put(s, "dropped", st->dropped), put(s, "dx", st->dx);
    put_bytes(s, "gemm workspace", st->gemm_workspace, w->k->options.gemm_workspace_bytes);
}

static void put_ring(const watch *w, set *s)
{
    put(s, "ring 0", w->k->step.ring[0]), put(s, "ring 1", w->k->step.ring[1]);
}

/* The stream of a layer, when it does not lie in the ring. */
static void put_stream(const watch *w, set *s, const char *name, plim_tensor t)
{
    if (t.data == w->k->step.ring[0].data || t.data == w->k->step.ring[1].data) return;
    put(s, name, t);
}

static bool stays(const plim_shape *sh, int64_t layer)
{
    return sh->o.keep_attention_output && !plim_shape_input_on_host(sh, layer);
}

/* What every layer below `layer` and it itself left behind. */
static void put_left_behind(const watch *w, set *s, int64_t layer)
{
    const plim_shape *sh = &w->k->shape;
    for (int64_t i = sh->first_layer; i <= layer; i++) {
        const plim_layer_step *l = &w->k->step.layers[i - sh->first_layer];
        put_stream(w, s, "layer input", l->input);
        bool attention = w->k->spec.layer_type[i] == PLIM_LAYER_ATTENTION;
        if (plim_shape_is_kept(sh, i)) {
            if (attention) put_attention_saved(s, &l->attention);
            else put_delta_saved(s, &l->delta);
            put(s, "kept x1", l->x1), put(s, "kept gate_up", l->gate_up);
        } else if (attention && stays(sh, i)) {
            put(s, "kept o", l->attention.o), put(s, "kept lse", l->attention.lse);
        }
    }
}

static void check_forward(watch *w, int64_t layer)
{
    const plim_shape *sh = &w->k->shape;
    const plim_layer_step *l = &w->k->step.layers[layer - sh->first_layer];
    bool kept = plim_shape_is_kept(sh, layer),
         attention = w->k->spec.layer_type[layer] == PLIM_LAYER_ATTENTION;
    set s = w->whole;
    put_ring(w, &s);
    put_left_behind(w, &s, layer);
    put_stream(w, &s, "output", l->output);
    set mixer = s, mlp = s;
    if (l->o_host.rows) { /* its copy runs beside the MLP */
        put(&mlp, "o on its way to the host", l->attention_made.o);
        put(&mlp, "lse on its way to the host", l->attention_made.lse);
    }
    if (l->input.data == l->output.data) fail_msg("a layer's output lies on its input");
    if (attention) {
        const plim_attention_saved *made = &l->attention_made;
        if (!kept) put(&mixer, "made qkv", made->qkv);
        if (!kept && !stays(sh, layer)) put(&mixer, "made o", made->o), put(&mixer, "made lse", made->lse);
        put_attention_work(&mixer, &l->attention_fwd);
    } else {
        put_delta_work(&mixer, &l->delta_fwd);
    }
    put_mlp_work(&mlp, &l->mlp_fwd);
    check_set(w, "forward mixer", &mixer);
    check_set(w, "forward MLP", &mlp);
}

static void check_backward(watch *w, int64_t layer)
{
    const plim_shape *sh = &w->k->shape;
    const plim_layer_step *l = &w->k->step.layers[layer - sh->first_layer];
    bool kept = plim_shape_is_kept(sh, layer),
         attention = w->k->spec.layer_type[layer] == PLIM_LAYER_ATTENTION;
    set s = w->whole;
    put_ring(w, &s);
    put_left_behind(w, &s, layer);
    if (!kept) {
        if (!attention) put_delta_saved(&s, &l->delta);
        else if (stays(sh, layer)) put(&s, "qkv", l->attention.qkv);
        else put_attention_saved(&s, &l->attention);
    }
    set again = s, mlp = s, mixer = s; /* x1 has gone when the mixer's turn comes */
    if (!kept) put(&again, "x1", l->x1), put(&mlp, "x1", l->x1);
    if (!kept && attention) put_attention_work(&again, &l->attention_again);
    if (!kept && !attention) put_delta_work(&again, &l->delta_again);
    put_mlp_work(&mlp, &l->mlp_bwd);
    if (attention) put_attention_work(&mixer, &l->attention_bwd);
    else put_delta_work(&mixer, &l->delta_bwd);
    check_set(w, "recomputation", &again);
    check_set(w, "backward MLP", &mlp);
    check_set(w, "backward mixer", &mixer);
}

static void check_loss(watch *w)
{
    const plim_shape *sh = &w->k->shape;
    const plim_head_work *h = &w->k->step.head;
    set s = w->whole;
    put_ring(w, &s);
    put_left_behind(w, &s, sh->last_layer - 1);
    put_stream(w, &s, "x_final", w->k->step.layers[sh->last_layer - sh->first_layer].input);
    put(&s, "hidden", h->hidden), put(&s, "normed", h->normed), put(&s, "logits", h->logits);
    put(&s, "dnormed", h->dnormed), put(&s, "dhidden", h->dhidden);
    check_set(w, "loss", &s);
}

static void check_phase(void *user, plim_phase phase, int64_t layer, const plim_usage *device,
                        const plim_usage *host)
{
    watch *w = user;
    (void)device, (void)host;
    if (phase == PLIM_PHASE_FORWARD && !w->whole_known) {
        put_whole(w);
        w->whole_known = true;
    }
    if (phase == PLIM_PHASE_FORWARD) check_forward(w, layer);
    if (phase == PLIM_PHASE_BACKWARD) check_backward(w, layer);
    if (phase == PLIM_PHASE_LOSS) check_loss(w);
}

/* A live walk over blocks of exactly the dry peaks. */
static void watch_open(watch *w, plim_ctx *c, uint64_t seed)
{
    *w = (watch){.seed = seed, .k = layout_open(c, seed, seed % 3 == 2)};
    plim_memory dry = layout_dry(w->k);
    w->block_bytes = plim_arena_peak(&dry.device).total_bytes;
    w->pinned_bytes = plim_arena_peak(&dry.host).total_bytes;
    w->block = layout_block(w->block_bytes);
    w->pinned = layout_block(w->pinned_bytes);
    plim_arena_live(&w->mem.device, w->block, w->block_bytes);
    plim_arena_live(&w->mem.host, w->pinned, w->pinned_bytes);
}

static void watch_close(watch *w)
{
    free(w->block);
    free(w->pinned);
    layout_close(w->k);
}

TEST(what_is_in_use_together_never_overlaps)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        static watch w;
        watch_open(&w, c, seed);
        plim_step_layout(&w.mem, &w.k->shape, &w.k->step, check_phase, &w);
        assert_true(w.checks >= 6);
        watch_close(&w);
    }
    test_ctx_close(c);
}

/* ---- pushes in stack order ---- */

typedef struct stack {
    size_t end[4096]; /* of every entry alive, rounded to the arena's grain */
    int count;
    size_t highest;
} stack;

static void push_on_top(void *user, const plim_arena_entry *e)
{
    stack *s = user;
    size_t bytes = (e->size_bytes + PLIM_ARENA_ALIGN - 1) / PLIM_ARENA_ALIGN * PLIM_ARENA_ALIGN;
    while (s->count && s->end[s->count - 1] > e->offset_bytes) s->count--;
    size_t top = s->count ? s->end[s->count - 1] : 0;
    if (top != e->offset_bytes)
        fail_msg("%s at %zu lies on no other's end (%zu)", e->name, e->offset_bytes, top);
    s->end[s->count++] = e->offset_bytes + bytes;
    if (s->end[s->count - 1] > s->highest) s->highest = s->end[s->count - 1];
}

/* Every push starts where another one ends: a pop never leaves a hole, and the peak is the highest end. */
TEST(pushes_stand_on_one_another_and_the_highest_end_is_the_peak)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        static stack device, host;
        device = host = (stack){0};
        layout_case *k = layout_open(c, seed, seed % 3 == 2);
        plim_memory mem;
        plim_arena_dry(&mem.device), plim_arena_dry(&mem.host);
        mem.device.visit = mem.host.visit = push_on_top;
        mem.device.visit_user = &device, mem.host.visit_user = &host;
        plim_step_layout(&mem, &k->shape, &k->step, NULL, NULL);
        assert_int_equal(device.highest, plim_arena_peak(&mem.device).total_bytes);
        assert_int_equal(host.highest, plim_arena_peak(&mem.host).total_bytes);
        layout_close(k);
    }
    test_ctx_close(c);
}

/* A step's views are those of its last walk: nothing of other options is left in them. */
TEST(a_second_walk_forgets_the_first)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        layout_case *fresh = layout_open(c, seed, false), *used = layout_open(c, seed, false);
        plim_options other = used->options;
        other.kept_layers = used->spec.layers - used->shape.o.kept_layers;
        other.host_checkpoints = used->spec.layers - used->shape.o.host_checkpoints;
        other.keep_attention_output = !other.keep_attention_output;
        CHECK_OK(c, plim_shape_init(c, &used->spec, &other, &used->shape));
        layout_dry(used);
        used->shape = fresh->shape;
        layout_dry(used);
        layout_dry(fresh);
        for (int64_t i = 0; i < fresh->spec.layers; i++) {
            const plim_layer_step *x = &used->step.layers[i], *y = &fresh->step.layers[i];
            const plim_tensor pairs[][2] = {{x->gate_up, y->gate_up},
                                            {x->x1, y->x1},
                                            {x->input_host, y->input_host},
                                            {x->o_host, y->o_host},
                                            {x->lse_host, y->lse_host},
                                            {x->attention.o, y->attention.o},
                                            {x->attention_again.h, y->attention_again.h},
                                            {x->delta_again.h, y->delta_again.h}};
            for (size_t j = 0; j < sizeof pairs / sizeof *pairs; j++)
                if (pairs[j][0].rows != pairs[j][1].rows || pairs[j][0].cols != pairs[j][1].cols)
                    fail_msg("seed %llu, layer %lld: view %zu is of another walk", (unsigned long long)seed,
                             (long long)i, j);
        }
        layout_close(fresh);
        layout_close(used);
    }
    test_ctx_close(c);
}

/* ---- paint ---- */

static void scribble_device(void *user, const plim_arena_entry *e)
{
    memset(((watch *)user)->block + e->offset_bytes, SCRIBBLE, e->size_bytes);
}

/* A byte that tells tensors of neighbouring layers apart and is never the scribble. */
static int colour(int64_t layer, int which)
{
    return 1 + (int)(layer * 12 + which) % 200;
}

static size_t bytes_of(plim_tensor t)
{
    return t.cols ? (size_t)t.rows * (size_t)t.pitch * plim_dtype_bytes(t.dtype) : 0;
}

static void paint(plim_tensor t, int byte)
{
    if (bytes_of(t)) memset(t.data, byte, bytes_of(t));
}

static void check_paint(const watch *w, const char *name, int64_t layer, plim_tensor t, int byte)
{
    const unsigned char *p = t.data;
    for (size_t i = 0; i < bytes_of(t); i++)
        if (p[i] != byte)
            fail_msg("seed %llu: %s of layer %lld was overwritten before its backward pass read it",
                     (unsigned long long)w->seed, name, (long long)layer);
}

enum { INPUT, QKV, O, LSE, QKVZ, BA, DELTA_O, STATES, X1, GATE_UP };

/* Visits what a layer leaves behind on the device beside its input. */
static void each_left(watch *w, int64_t layer,
                      void (*visit)(const watch *, const char *, int64_t, plim_tensor, int))
{
    const plim_shape *sh = &w->k->shape;
    const plim_layer_step *l = &w->k->step.layers[layer - sh->first_layer];
    bool attention = w->k->spec.layer_type[layer] == PLIM_LAYER_ATTENTION;
    if (plim_shape_is_kept(sh, layer)) {
        if (attention) {
            visit(w, "qkv", layer, l->attention.qkv, colour(layer, QKV));
        } else {
            visit(w, "qkvz", layer, l->delta.qkvz, colour(layer, QKVZ));
            visit(w, "ba", layer, l->delta.ba, colour(layer, BA));
            visit(w, "o", layer, l->delta.o, colour(layer, DELTA_O));
            visit(w, "states", layer, l->delta.states, colour(layer, STATES));
        }
        visit(w, "x1", layer, l->x1, colour(layer, X1));
        visit(w, "gate_up", layer, l->gate_up, colour(layer, GATE_UP));
    }
    if (attention && (plim_shape_is_kept(sh, layer) || stays(sh, layer))) {
        visit(w, "o", layer, l->attention.o, colour(layer, O));
        visit(w, "lse", layer, l->attention.lse, colour(layer, LSE));
    }
}

static void paint_one(const watch *w, const char *name, int64_t layer, plim_tensor t, int byte)
{
    (void)w, (void)name, (void)layer;
    paint(t, byte);
}

/* Brings a layer's input back from the host into the ring, as the copy beside the layer above does. */
static void fetch_below(watch *w, int64_t layer)
{
    const plim_shape *sh = &w->k->shape;
    if (layer < sh->first_layer) return;
    const plim_layer_step *l = &w->k->step.layers[layer - sh->first_layer];
    if (!plim_shape_input_on_host(sh, layer)) return;
    check_paint(w, "the host's copy of the input", layer, l->input_host, colour(layer, INPUT));
    memcpy(l->input.data, l->input_host.data, bytes_of(l->input_host));
}

static void paint_phase(void *user, plim_phase phase, int64_t layer, const plim_usage *device,
                        const plim_usage *host)
{
    watch *w = user;
    const plim_shape *sh = &w->k->shape;
    const plim_layer_step *layers = w->k->step.layers;
    (void)device, (void)host;
    if (phase == PLIM_PHASE_FORWARD) {
        const plim_layer_step *l = &layers[layer - sh->first_layer];
        /* The first input was pushed in this phase, before anything else of it. */
        if (layer == sh->first_layer) paint(l->input, colour(layer, INPUT));
        check_paint(w, "the input", layer, l->input, colour(layer, INPUT));
        if (plim_shape_input_on_host(sh, layer))
            memcpy(l->input_host.data, l->input.data, bytes_of(l->input));
        paint(l->output, colour(layer + 1, INPUT));
        each_left(w, layer, paint_one);
    }
    int64_t below = phase == PLIM_PHASE_BACKWARD ? layer - 1 : sh->last_layer - 1;
    if (phase == PLIM_PHASE_LOSS) {
        check_paint(w, "the final output", sh->last_layer, layers[sh->last_layer - sh->first_layer].input,
                    colour(sh->last_layer, INPUT));
        check_paint(w, "the input", below, layers[below - sh->first_layer].input, colour(below, INPUT));
    }
    if (phase != PLIM_PHASE_BACKWARD) return;
    fetch_below(w, below);
    check_paint(w, "the input", layer, layers[layer - sh->first_layer].input, colour(layer, INPUT));
    each_left(w, layer, check_paint);
    w->checks++;
}

/* Every push is scribbled over as it happens; what a layer left behind must still be there when its backward
 * pass ends. */
TEST(nothing_overwrites_what_a_backward_pass_reads)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < CASES; seed++) {
        static watch w;
        watch_open(&w, c, seed);
        w.mem.device.visit = scribble_device;
        w.mem.device.visit_user = &w;
        plim_step_layout(&w.mem, &w.k->shape, &w.k->step, paint_phase, &w);
        assert_int_equal(w.checks, w.k->shape.last_layer - w.k->shape.first_layer);
        watch_close(&w);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(live_is_dry_to_the_byte_and_a_byte_less_is_too_little),
        cmocka_unit_test(what_is_in_use_together_never_overlaps),
        cmocka_unit_test(pushes_stand_on_one_another_and_the_highest_end_is_the_peak),
        cmocka_unit_test(a_second_walk_forgets_the_first),
        cmocka_unit_test(nothing_overwrites_what_a_backward_pass_reads),
    };
    return RUN_TESTS(table);
}
