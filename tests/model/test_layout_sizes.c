/* Sizes of the layout: the 27 B model's against arithmetic by hand, and how every option moves the peak. */
#include "model/layout_case.h"

#include "ops/ops.h"

#define MODEL_27B PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json"
#define ROOM      ((size_t)PLIM_ARENA_ALIGN)

/* ---- the 27 B model at 65,536 tokens, rank 16 ---- */

#define T      ((size_t)65536)
#define TILE   ((size_t)4096)
#define D      ((size_t)5120)
#define F      ((size_t)17408)
#define V      ((size_t)248320)
#define R      ((size_t)16)
#define GROUP  ((size_t)6) /* query heads of the one key/value head of a call */
#define BF16   ((size_t)2)
#define FP32   ((size_t)4)
#define LORA   ((size_t)108789760)
#define LAYERS 64

static size_t up(size_t bytes)
{
    return (bytes + ROOM - 1) / ROOM * ROOM;
}

typedef struct fixture {
    plim_ctx *c;
    plim_spec spec;
    plim_footprint f;
    plim_phase_usage timeline[2 * LAYERS + 5];
    size_t count;
} fixture;

static fixture *open_27b(const plim_options *o)
{
    static fixture x;
    x.c = test_ctx_open();
    x.count = 0;
    CHECK_OK(x.c, plim_spec_load(x.c, MODEL_27B, &x.spec));
    CHECK_OK(x.c, plim_footprint_of(x.c, &x.spec, o, 1, &x.f, x.timeline, &x.count));
    assert_int_equal(x.count, 2 * LAYERS + 5);
    return &x;
}

static plim_options options_64k(void)
{
    plim_options o = plim_options_defaults();
    o.seq_tokens = (int64_t)T;
    return o;
}

static const plim_usage *device_in(const fixture *x, plim_phase phase, int64_t layer)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->timeline[i].phase == phase && x->timeline[i].layer == layer) return &x->timeline[i].device;
    fail_msg("no such phase");
    return NULL;
}

/* Every weight beside its adapters: pad columns hold B, pad rows hold A; gains and the convolution in
 * fp32. */
TEST(weights_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    fixture *x = open_27b(&o);
    size_t mlp = up((2 * F + 2 * R) * (D + 2 * R) * BF16) + up((D + R) * (F + R) * BF16);
    size_t norms = 2 * up(D * FP32);
    size_t attention = up((12288 + 2 * 1024 + 3 * R) * (D + 3 * R) * BF16) + up((D + R) * (6144 + R) * BF16) +
                       2 * up(256 * FP32) + norms + mlp;
    size_t delta = up((10240 + 6144 + 2 * R) * (D + 2 * R) * BF16) + up(96 * D * BF16) +
                   up((D + R) * (6144 + R) * BF16) + up(10240 * 4 * FP32) + 2 * up(48 * FP32) +
                   up(128 * FP32) + norms + mlp;
    size_t all = 16 * attention + 48 * delta + 2 * up(V * D * BF16) + up(D * FP32);
    assert_int_equal(x->f.load_peak.component_bytes[PLIM_MEM_WEIGHTS], all);
    assert_int_equal(x->f.device_peak.component_bytes[PLIM_MEM_WEIGHTS], all);
    /* Not less than the parameters in bf16, and the room for adapters and alignment is below one per cent. */
    assert_true(all > UINT64_C(26895998464) * BF16 && all < UINT64_C(26895998464) * BF16 / 100 * 101);
    test_ctx_close(x->c);
}

/* Maths note 1.9: 108,789,760 parameters in 800 tensors; fp32 master and gradient, two codes a parameter and
 * two scales a block of 256. */
TEST(adapters_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    fixture *x = open_27b(&o);
    plim_adapter_totals t =
        plim_adapters_walk(&x->spec, (int64_t)R, PLIM_TARGETS_DEFAULT, 8, 0, LAYERS, NULL, NULL);
    assert_int_equal(t.tensors, 800);
    assert_int_equal(t.parameters, LORA);
    assert_int_equal(t.elements, LORA); /* every tensor is a whole number of blocks */
    assert_int_equal(t.small_elements, 0);
    assert_int_equal(plim_lora_parameters(&x->spec, (int64_t)R, PLIM_TARGETS_DEFAULT), LORA);
    assert_int_equal(x->f.lora_parameters, LORA);
    assert_int_equal(x->f.load_peak.component_bytes[PLIM_MEM_LORA], 2 * FP32 * LORA);
    assert_int_equal(x->f.load_peak.component_bytes[PLIM_MEM_OPTIMISER], 2 * LORA + 2 * FP32 * (LORA / 256));
    test_ctx_close(x->c);
    o.adam_bits = 32;
    x = open_27b(&o);
    assert_int_equal(x->f.load_peak.component_bytes[PLIM_MEM_OPTIMISER], 2 * FP32 * LORA);
    test_ctx_close(x->c);
}

/* The last layer is a full-attention one.  Over the sequence: q with its gate, k, v and room for dt; o; lse;
 * the group's q, k, dq, dk, dv; dout and delta of all heads. */
TEST(attention_backward_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    fixture *x = open_27b(&o);
    const plim_usage *u = device_in(x, PLIM_PHASE_BACKWARD, LAYERS - 1);
    size_t saved = BF16 * (12288 + 2 * 1024 + 3 * R) + BF16 * 6144 + FP32 * 24;
    size_t group = BF16 * GROUP * 256 + BF16 * 256;
    size_t token = saved + 2 * group + BF16 * 256 /* dv */ + BF16 * 6144 + FP32 * 24;
    size_t tile = BF16 * (D + 3 * R) + BF16 * (6144 + R) + BF16 * D;
    assert_int_equal(token, 61216);
    assert_int_equal(u->component_bytes[PLIM_MEM_ATTENTION], token * T + tile * TILE);
    /* cuDNN, one key/value head: fp32 dQ and row sums, log-sum-exp in its own order, bf16 dK and dV of every
     * query head; and what a plan's own workspace takes. */
    assert_int_equal(u->component_bytes[PLIM_MEM_WORKSPACE],
                     ((size_t)64 << 20) + T * GROUP * (4 * 256 + 4 + 4 + 2 * 256 + 2 * 256) +
                         ((size_t)128 << 10));
    /* the gradient with room for dt and the two ring slots; x1 has gone by then */
    assert_int_equal(u->component_bytes[PLIM_MEM_RESIDUAL], T * BF16 * ((D + R) + 2 * D));
    assert_int_equal(u->component_bytes[PLIM_MEM_CHECKPOINTS], 0);
    assert_int_equal(x->f.host_peak.component_bytes[PLIM_MEM_CHECKPOINTS], LAYERS * T * D * BF16);
    test_ctx_close(x->c);
}

/* Over the sequence: what the products made, o, and the state before each tile; the rest is a tile's. */
TEST(delta_backward_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    fixture *x = open_27b(&o);
    plim_shape sh;
    plim_arena a;
    plim_delta_saved s;
    plim_delta_work w;
    CHECK_OK(x->c, plim_shape_init(x->c, &x->spec, &o, &sh));
    const size_t channels = 10240, values = 6144, heads = 48, carried = FP32 * heads * 128 * 128,
                 chunks = TILE / 64;
    size_t saved = T * (BF16 * (channels + values) + FP32 * 2 * heads + BF16 * values) + T / TILE * carried;
    size_t forward = TILE * (BF16 * (D + 2 * R) + BF16 * channels + 2 * FP32 * heads + BF16 * (values + R)) +
                     carried + 3 * BF16 * channels;
    size_t scratch = BF16 * heads * chunks * (2 * 128 * 128 + 64 * 64 + 3 * 64 * 128);
    size_t backward = TILE * (2 * BF16 * values + BF16 * channels + BF16 * (channels + values + 2 * R) +
                              2 * FP32 * heads + BF16 * 2 * heads + BF16 * D) +
                      3 * FP32 * channels + carried;
    plim_arena_dry(&a);
    plim_delta_saved_layout(&a, &sh, PLIM_MEM_DELTA, &s);
    assert_int_equal(a.used.component_bytes[PLIM_MEM_DELTA], saved);
    plim_delta_bwd_layout(&a, &sh, &w);
    assert_int_equal(a.used.total_bytes, saved + forward + scratch + backward);
    /* That layer's phase holds no attention, and at least what was saved. */
    const plim_usage *u = device_in(x, PLIM_PHASE_BACKWARD, LAYERS - 2);
    assert_int_equal(u->component_bytes[PLIM_MEM_ATTENTION], 0);
    assert_true(u->component_bytes[PLIM_MEM_DELTA] >= saved);
    test_ctx_close(x->c);
}

TEST(loss_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    fixture *x = open_27b(&o);
    assert_int_equal(device_in(x, PLIM_PHASE_LOSS, -1)->component_bytes[PLIM_MEM_LOSS],
                     2048 * (4 * BF16 * D + FP32 * V));
    assert_int_equal(device_in(x, PLIM_PHASE_EVALUATE, -1)->component_bytes[PLIM_MEM_LOSS],
                     0); /* not its peak */
    test_ctx_close(x->c);
    o.loss_rows = PLIM_FULL_LOGITS;
    x = open_27b(&o);
    assert_int_equal(x->f.device_peak.component_bytes[PLIM_MEM_LOSS], T * (4 * BF16 * D + FP32 * V));
    test_ctx_close(x->c);
}

/* One kept layer more costs what it saves of its forward pass. */
TEST(a_kept_layer_of_the_27b)
{
    UNUSED_STATE;
    plim_options o = options_64k();
    o.kept_layers = 2;
    fixture *x = open_27b(&o);
    size_t attention = T * (BF16 * (12288 + 2 * 1024 + 3 * R) + BF16 * 6144 + FP32 * 24);
    size_t delta = T * (BF16 * 16384 + FP32 * 96 + BF16 * 6144) + T / TILE * FP32 * 48 * 128 * 128;
    size_t each = T * (BF16 * D + BF16 * (2 * F + 2 * R)); /* x1, gate and up with room for dt */
    assert_int_equal(device_in(x, PLIM_PHASE_LOSS, -1)->component_bytes[PLIM_MEM_KEPT],
                     attention + delta + 2 * each);
    test_ctx_close(x->c);
    o.kept_layers = 0;
    o.keep_attention_output = true;
    x = open_27b(&o);
    assert_int_equal(x->f.host_peak.component_bytes[PLIM_MEM_ATTENTION_OUTPUT],
                     16 * T * (BF16 * 6144 + FP32 * 24));
    test_ctx_close(x->c);
}

/* ---- how options move the peak ---- */

static plim_footprint footprint(plim_ctx *c, const plim_spec *s, const plim_options *o)
{
    plim_footprint f;
    CHECK_OK(c, plim_footprint_of(c, s, o, 1, &f, NULL, NULL));
    return f;
}

/* Device peaks of rising values of *field must not fall (sign 1) or not rise (sign -1). */
static void check_monotone(plim_ctx *c, uint64_t seed, const char *what, const plim_spec *s, plim_options *o,
                           int64_t *field, int64_t low, int64_t high, int64_t by, int sign)
{
    int64_t kept = *field;
    size_t last = 0;
    for (int64_t v = low; v <= high; v += by) {
        *field = v;
        size_t peak = footprint(c, s, o).device_peak.total_bytes;
        if (v > low && (sign > 0 ? peak < last : peak > last))
            fail_msg("seed %llu: %s %lld -> %lld moves the peak from %zu to %zu", (unsigned long long)seed,
                     what, (long long)(v - by), (long long)v, last, peak);
        last = peak;
    }
    *field = kept;
}

TEST(the_peak_moves_one_way_with_every_option)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < 60; seed++) {
        layout_case *k = layout_open(c, 1000 + seed, false);
        plim_options *o = &k->options;
        o->kv_heads_per_call = 1; /* left open it drops at a length of its own, tested below */
        o->adam_bits = 32;        /* with 8 bits a tensor that outgrows its 32-bit states takes less */
        o->documents = 1;
        check_monotone(c, seed, "seq_tokens", &k->spec, o, &o->seq_tokens, 1, 400, 7, 1);
        check_monotone(c, seed, "kept_layers", &k->spec, o, &o->kept_layers, 0, k->spec.layers, 1, 1);
        check_monotone(c, seed, "lora_rank", &k->spec, o, &o->lora_rank, 1, 41, 1, 1);
        check_monotone(c, seed, "documents", &k->spec, o, &o->documents, 1, o->seq_tokens, 1, 1);
        /* From one layer on the host: none at all needs no ring. */
        check_monotone(c, seed, "host_checkpoints", &k->spec, o, &o->host_checkpoints, 1, k->spec.layers, 1,
                       -1);
        check_monotone(c, seed, "loss_rows", &k->spec, o, &o->loss_rows, 1, o->seq_tokens, 1, 1);
        size_t rows = footprint(c, &k->spec, o).device_peak.total_bytes;
        o->loss_rows = PLIM_FULL_LOGITS;
        assert_true(footprint(c, &k->spec, o).device_peak.total_bytes >= rows);
        layout_close(k);
    }
    test_ctx_close(c);
}

/* Heads in groups from 16,385 tokens on: the one place where a longer sequence takes less. */
TEST(head_groups_start_above_16384_tokens)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s;
    plim_shape at, above;
    CHECK_OK(c, plim_spec_load(c, MODEL_27B, &s));
    plim_options o = plim_options_defaults();
    o.seq_tokens = 16384;
    CHECK_OK(c, plim_shape_init(c, &s, &o, &at));
    o.seq_tokens = 16385;
    CHECK_OK(c, plim_shape_init(c, &s, &o, &above));
    assert_int_equal(at.group_kv_heads, 4);
    assert_int_equal(at.group_heads, 24);
    assert_int_equal(above.group_kv_heads, 1);
    assert_int_equal(above.group_heads, 6);
    test_ctx_close(c);
}

/* ---- adapters ---- */

typedef struct adapter_check {
    int64_t next, next_small, rank;
    int64_t tensors, small;
} adapter_check;

static void check_adapter(void *user, const plim_adapter_tensor *t)
{
    adapter_check *a = user;
    /* What a checkpoint holds, without the padding of the rank. */
    int64_t held = t->is_b ? t->rows * a->rank : a->rank * t->cols;
    assert_int_equal(t->offset, a->next);
    assert_int_equal(t->offset % PLIM_ADAM_BLOCK, 0);
    assert_int_equal((t->is_b ? t->cols : t->rows) % PLIM_RANK_MULTIPLE, 0);
    if (t->small_states != (held < 4096))
        fail_msg("a tensor of %lld elements (%lld with padding) has %s states", (long long)held,
                 (long long)(t->rows * t->cols), t->small_states ? "32-bit" : "8-bit");
    assert_int_equal(t->small_offset, t->small_states ? a->next_small : -1);
    if (t->small_states) a->next_small += t->rows * t->cols, a->small++;
    a->next += (t->rows * t->cols + PLIM_ADAM_BLOCK - 1) / PLIM_ADAM_BLOCK * PLIM_ADAM_BLOCK;
    a->tensors++;
}

/* Maths note 5.2: tensors of fewer than 4,096 elements keep fp32 moments. */
TEST(small_tensors_keep_32_bit_states)
{
    UNUSED_STATE;
    static const int64_t widths[] = {255, 256, 257, 511, 512, 513, 1024, 1025, 4096};
    static const int64_t ranks[] = {1, 4, 7, 8, 9, 16};
    int64_t small = 0, large = 0;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            plim_spec s = {
                .layers = 2, .hidden = widths[w], .mlp = 700, .heads = 2, .kv_heads = 1, .head_dim = 32};
            adapter_check a = {.rank = ranks[r]};
            plim_adapter_totals t =
                plim_adapters_walk(&s, ranks[r], PLIM_TARGETS_DEFAULT, 8, 0, 2, check_adapter, &a);
            assert_int_equal(t.tensors, 2 * 7 * 2);
            assert_int_equal(t.elements, a.next);
            assert_int_equal(t.small_elements, a.next_small);
            small += a.small;
            large += a.tensors - a.small;
            t = plim_adapters_walk(&s, ranks[r], PLIM_TARGETS_DEFAULT, 32, 0, 2, NULL, NULL);
            assert_int_equal(t.small_elements, 0);
        }
    assert_true(small > 100 && large > 100);
}

/* ---- several cards ---- */

/* The same split as plim_footprint_of's worst card, judged card by card from outside. */
TEST(several_cards_share_the_layers_and_the_worst_is_reported)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    int compared = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        layout_case *k = layout_open(c, 2000 + seed, false);
        plim_footprint one = footprint(c, &k->spec, &k->options);
        for (int cards = 2; cards <= k->spec.layers; cards++) {
            plim_footprint f;
            plim_phase_usage timeline[2 * 6 + 5];
            size_t count = 0, highest = 0;
            CHECK_OK(c, plim_footprint_of(c, &k->spec, &k->options, cards, &f, timeline, &count));
            assert_true(f.first_layer >= 0 && f.first_layer < f.last_layer && f.last_layer <= k->spec.layers);
            assert_true(f.last_layer - f.first_layer <= k->spec.layers - (cards - 1));
            bool head = f.last_layer == k->spec.layers;
            assert_int_equal(count, 2 * (f.last_layer - f.first_layer) + 4 + head);
            for (size_t i = 0; i < count; i++)
                if (timeline[i].device.total_bytes > highest) highest = timeline[i].device.total_bytes;
            assert_int_equal(highest, f.device_peak.total_bytes);
            assert_true(f.device_peak.total_bytes <= one.device_peak.total_bytes);
            assert_int_equal(f.lora_parameters, one.lora_parameters);
            /* The host serves every card: together they offload every layer input that one card would,
             * wherever that and not the saving of an adapter is what the host holds most of. */
            if (f.host_peak.component_bytes[PLIM_MEM_STAGING] ||
                one.host_peak.component_bytes[PLIM_MEM_STAGING])
                continue;
            compared++;
            assert_int_equal(f.host_peak.component_bytes[PLIM_MEM_CHECKPOINTS] +
                                 f.host_peak.component_bytes[PLIM_MEM_ATTENTION_OUTPUT],
                             one.host_peak.component_bytes[PLIM_MEM_CHECKPOINTS] +
                                 one.host_peak.component_bytes[PLIM_MEM_ATTENTION_OUTPUT]);
        }
        plim_footprint f;
        CHECK_FAILS(c, PLIM_E_SHAPE,
                    plim_footprint_of(c, &k->spec, &k->options, (int)k->spec.layers + 1, &f, NULL, NULL),
                    "cards", "layers");
        layout_close(k);
    }
    assert_true(compared > 100);
    test_ctx_close(c);
}

/* The embedding lies on the first card, the head on the last; a tied model holds its one matrix on both. */
TEST(embedding_first_and_head_last)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    for (uint64_t seed = 0; seed < 200; seed++) {
        layout_case *k = layout_open(c, 3000 + seed, false);
        int64_t layers = k->spec.layers, cut = 1 + (int64_t)seed % (layers > 1 ? layers - 1 : 1);
        k->options.embedding_on_host = false;
        CHECK_OK(c, plim_shape_init(c, &k->spec, &k->options, &k->shape));
        const int64_t ranges[][2] = {{0, layers}, {0, cut}, {cut, layers}};
        for (size_t i = 0; i < 3; i++) {
            if (ranges[i][0] >= ranges[i][1]) continue;
            plim_shape_restrict(&k->shape, ranges[i][0], ranges[i][1]);
            layout_dry(k);
            bool first = ranges[i][0] == 0, last = ranges[i][1] == layers;
            const plim_model_weights *m = &k->step.model;
            assert_int_equal(m->embedding.rows > 0, first || (k->spec.tied && last));
            assert_int_equal(m->head.rows > 0, last);
            assert_int_equal(m->final_norm.rows > 0, last);
        }
        layout_close(k);
    }
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(weights_of_the_27b),
        cmocka_unit_test(adapters_of_the_27b),
        cmocka_unit_test(attention_backward_of_the_27b),
        cmocka_unit_test(delta_backward_of_the_27b),
        cmocka_unit_test(loss_of_the_27b),
        cmocka_unit_test(a_kept_layer_of_the_27b),
        cmocka_unit_test(the_peak_moves_one_way_with_every_option),
        cmocka_unit_test(head_groups_start_above_16384_tokens),
        cmocka_unit_test(small_tensors_keep_32_bit_states),
        cmocka_unit_test(several_cards_share_the_layers_and_the_worst_is_reported),
        cmocka_unit_test(embedding_first_and_head_last),
    };
    return RUN_TESTS(table);
}
