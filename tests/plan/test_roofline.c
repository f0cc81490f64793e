/* The speed model against the arithmetic of the maths note, and how time moves; and the 27 B hybrid reckoned
 * as what it is, not as dense attention with a tied head. */
#include "plan/search_support.h"

#include <math.h>

#define MODEL_27B PLIM_SHARE_SOURCE "/models/qwen3.8-27b/config.json"
#define LAYERS    64
#define FULL      16
#define DELTA     48

/* Shares of the copy rate that the roofline grants the delta rule, forward and backward:
 * docs/speed-model.md. */
#define FORWARD_SHARE  0.29
#define BACKWARD_SHARE 0.19

static plim_spec spec_27b(plim_ctx *c)
{
    plim_spec s;
    CHECK_OK(c, plim_spec_load(c, MODEL_27B, &s));
    return s;
}

static plim_options options_of(int64_t tokens)
{
    plim_options o = plim_options_defaults();
    o.seq_tokens = tokens;
    return o;
}

static plim_step_time time_of(const plim_spec *s, const plim_options *o, const plim_card *card)
{
    plim_step_time t;
    plim_step_time_of(s, o, card, &t);
    return t;
}

static void check_near(const char *what, double found, double wanted)
{
    if (fabs(found - wanted) > 1e-12 * fabs(wanted)) fail_msg("%s: %.17g, wanted %.17g", what, found, wanted);
}

/* The note counts the delta rule in chunks, 7,929,840 a layer, into the forward pass. */
TEST(flop_of_a_token_are_the_maths_notes)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_token_flop f = plim_token_flop_of(&s);
    assert_true(f.forward_gemm + DELTA * 7929840.0 == 49081744640.0);
    assert_true(f.forward_gemm == DELTA * 766443520.0 + FULL * 744488960.0);
    assert_true(f.head_per_labelled == 2542796800.0);
    assert_true(f.attention_per_key == FULL * 24576.0);
    test_ctx_close(c);
}

/* Forward, repeated and backward scores of T tokens that see T / 2 keys on average. */
TEST(attention_time_is_the_scores)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_card card = search_card(INT64_C(1) << 38, 1e6);
    plim_options o = options_of(65536);
    double T = 65536, n = T / 2;
    double forward = FULL * 24576 * n * T / (card.attention_forward_tflop_per_s * 1e12);
    double backward = FULL * 61440 * n * T / (card.attention_backward_tflop_per_s * 1e12);
    check_near("recomputed", time_of(&s, &o, &card).attention_s, 2 * forward + backward);
    o.keep_attention_output = true;
    check_near("output kept", time_of(&s, &o, &card).attention_s, forward + backward);
    o.keep_attention_output = false;
    o.kept_layers = LAYERS;
    check_near("layers kept", time_of(&s, &o, &card).attention_s, forward + backward);
    o.documents = 4; /* each token sees its own document's keys */
    check_near("four documents", time_of(&s, &o, &card).attention_s, (forward + backward) / 4);
    test_ctx_close(c);
}

/* Maths note 4.9: F1 + F2 + F3 move 10,624 + 59,776 + 57,728 B a token and layer; backward 70,400 + 63,872 +
 * 115,456 B. */
TEST(delta_time_is_the_bytes_of_the_chunks)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_card card = search_card(INT64_C(1) << 38, 1e6);
    plim_options o = options_of(16384);
    double layers = DELTA * 16384.0 / (card.memory_gb_per_s * 1e9);
    double forward = layers * 128128 / FORWARD_SHARE, backward = layers * 249728 / BACKWARD_SHARE;
    check_near("recomputed", time_of(&s, &o, &card).delta_s, 2 * forward + backward);
    o.kept_layers = LAYERS;
    check_near("kept", time_of(&s, &o, &card).delta_s, forward + backward);
    test_ctx_close(c);
}

/* The products of 2 forward passes (the second without down) and of one backward pass, at the card's rate,
 * and the adapters' thin ones at its copy rate. */
TEST(product_time_is_the_flop)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_card card = search_card(INT64_C(1) << 38, 1e6);
    plim_options o = options_of(1000);
    o.lora_targets = 0;
    double token = DELTA * 766443520.0 + FULL * 744488960.0, down = 2.0 * 5120 * 17408 * LAYERS;
    double rate = card.gemm_bf16_tflop_per_s * 1e12;
    check_near("recomputed", time_of(&s, &o, &card).gemm_s, 1000 * (3 * token - down) / rate);
    o.kept_layers = LAYERS;
    check_near("kept", time_of(&s, &o, &card).gemm_s, 1000 * 2 * token / rate);
    o.kept_layers = 0;
    plim_step_time without = time_of(&s, &o, &card);
    o.lora_targets = PLIM_TARGETS_DEFAULT;
    plim_step_time with = time_of(&s, &o, &card);
    /* Each adapted product's input and output once more, bf16: forward, again and twice backward. */
    double delta = (5120 + 16384) + (6144 + 5120), full = (5120 + 14336) + (6144 + 5120);
    double mlp = (5120 + 34816) + (17408 + 5120);
    double thin = 2 * (DELTA * delta + FULL * full + LAYERS * mlp);
    check_near("adapters", with.gemm_s - without.gemm_s, 1000 * 4 * thin / (card.memory_gb_per_s * 1e9));
    test_ctx_close(c);
}

TEST(loss_time_is_that_of_labelled_rows)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_card card = search_card(INT64_C(1) << 38, 1e6);
    plim_options o = options_of(10000);
    double row = 2 * 2542796800.0 / (card.gemm_bf16_tflop_per_s * 1e12) +
                 10 * 248320.0 / (card.memory_gb_per_s * 1e9); /* logits written, read twice, gradient */
    o.labelled_share = 0.25;
    check_near("a quarter", time_of(&s, &o, &card).loss_s, 2500 * row);
    o.labelled_share = 0;
    assert_true(time_of(&s, &o, &card).loss_s == 0);
    test_ctx_close(c);
}

TEST(copies_wait_only_where_the_link_is_slow)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_options o = options_of(16384);
    plim_card quick = search_card(INT64_C(1) << 38, 50), slow = search_card(INT64_C(1) << 38, 0.5);
    plim_step_time a = time_of(&s, &o, &quick), b = time_of(&s, &o, &slow);
    check_near("to the host", a.to_host_s, LAYERS * 16384 * 5120.0 * 2 / 50e9);
    assert_true(a.link_wait_s == 0 && b.link_wait_s > 0);
    check_near("the wait", b.step_s - a.step_s, b.link_wait_s);
    /* Slow enough to be all that counts: forward and backward are the copies. */
    double copies = LAYERS * 16384 * 5120.0 * 2 / 0.5e9;
    assert_true(b.step_s > 2 * copies && b.step_s < 2 * copies + a.step_s);
    o.host_checkpoints = 0;
    b = time_of(&s, &o, &slow);
    assert_true(b.to_host_s == 0 && b.from_host_s == 0 && b.link_wait_s == 0);
    o.host_checkpoints = 20;
    o.keep_attention_output = true; /* of layers 3, 7, 11, 15 and 19 */
    b = time_of(&s, &o, &slow);
    check_near("output too", b.to_host_s, 16384 * (20 * 5120.0 * 2 + 5 * 24 * (256.0 * 2 + 4)) / 0.5e9);
    test_ctx_close(c);
}

TEST(time_grows_with_the_length_and_parts_add_up)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_card card = search_card(INT64_C(1) << 38, 20);
    for (uint64_t seed = 0; seed < 50; seed++) {
        layout_random r = {seed};
        plim_spec s = layout_random_spec(&r);
        plim_options o = options_of(1);
        o.host_checkpoints = layout_pick(&r, 0, s.layers);
        o.kept_layers = layout_pick(&r, 0, s.layers);
        double last = 0;
        for (int64_t T = 1; T < 100000; T = T * 3 / 2 + 1) {
            o.seq_tokens = T;
            plim_step_time t = time_of(&s, &o, &card);
            assert_true(t.step_s > last && isfinite(t.step_s));
            check_near("rate", t.tokens_per_s, (double)T / t.step_s);
            double work = t.gemm_s + t.attention_s + t.delta_s + t.elementwise_s + t.loss_s;
            assert_true(t.recompute_s >= 0 && t.recompute_s < work);
            /* What is left is the optimiser's pass over the adapters. */
            double rest = t.step_s - work - t.link_wait_s;
            double adapters = 40.0 * (double)plim_lora_parameters(&s, o.lora_rank, o.lora_targets) /
                              (card.memory_gb_per_s * 1e9);
            assert_true(fabs(rest - adapters) < 1e-9 * t.step_s + 1e-15);
            last = t.step_s;
        }
    }
    test_ctx_close(c);
}

/* ---- a hybrid is not a dense model, and its head is its own ---- */

TEST(a_hybrid_of_65536_tokens_is_not_costed_as_dense)
{
    UNUSED_STATE;
    plim_ctx *c = test_ctx_open();
    plim_spec s = spec_27b(c);
    plim_options o = options_of(65536);
    plim_footprint f;
    CHECK_OK(c, plim_footprint_of(c, &s, &o, 1, &f, NULL, NULL));
    /* All parameters in bf16, embedding and head both: a tied count would lack 2,542,796,800 B. */
    assert_true(f.device_peak.component_bytes[PLIM_MEM_WEIGHTS] >= UINT64_C(2) * 26895998464);
    /* The terms a per-parameter estimate leaves out are there: adapters, states, the stream, a layer at
     * work. */
    size_t stream = (size_t)65536 * 5120 * 2;
    assert_true(f.device_peak.component_bytes[PLIM_MEM_LORA] == UINT64_C(8) * 108789760);
    assert_true(f.device_peak.component_bytes[PLIM_MEM_RESIDUAL] >= 3 * stream);
    assert_true(f.host_peak.total_bytes >= LAYERS * stream);
    /* Keys and values of one layer (recomputed), not of 64: 2 x 4 heads x 256 x 2 B a token and layer. */
    size_t kv_of_all = (size_t)65536 * LAYERS * 2 * 4 * 256 * 2;
    assert_true(f.device_peak.component_bytes[PLIM_MEM_ATTENTION] < kv_of_all);
    /* The logits of every position, when asked for, are 65,536 x 248,320 x 4 B. */
    o.loss_rows = PLIM_FULL_LOGITS;
    CHECK_OK(c, plim_footprint_of(c, &s, &o, 1, &f, NULL, NULL));
    assert_true(f.device_peak.component_bytes[PLIM_MEM_LOSS] >= UINT64_C(65536) * 248320 * 4);

    /* As dense attention in all 64 layers the scores would take four times as long. */
    plim_spec dense = s;
    memset(dense.layer_type, PLIM_LAYER_ATTENTION, sizeof dense.layer_type);
    plim_card card = search_card(INT64_C(1) << 38, 1e6);
    o.loss_rows = 2048;
    plim_step_time hybrid_t = time_of(&s, &o, &card), dense_t = time_of(&dense, &o, &card);
    check_near("scores", dense_t.attention_s, hybrid_t.attention_s * LAYERS / FULL);
    assert_true(dense_t.delta_s == 0 && hybrid_t.delta_s > 0);
    /* And kept layers would weigh otherwise: 4 of the 64 hold keys and values, 12 a state before every
     * tile. */
    plim_spec tied = s;
    tied.tied = true;
    plim_footprint t;
    CHECK_OK(c, plim_footprint_of(c, &s, &o, 1, &f, NULL, NULL));
    CHECK_OK(c, plim_footprint_of(c, &tied, &o, 1, &t, NULL, NULL));
    assert_int_equal(f.device_peak.total_bytes - t.device_peak.total_bytes, UINT64_C(2542796800));
    test_ctx_close(c);
}

int main(void)
{
    static const struct CMUnitTest table[] = {
        cmocka_unit_test(flop_of_a_token_are_the_maths_notes),
        cmocka_unit_test(attention_time_is_the_scores),
        cmocka_unit_test(delta_time_is_the_bytes_of_the_chunks),
        cmocka_unit_test(product_time_is_the_flop),
        cmocka_unit_test(loss_time_is_that_of_labelled_rows),
        cmocka_unit_test(copies_wait_only_where_the_link_is_slow),
        cmocka_unit_test(time_grows_with_the_length_and_parts_add_up),
        cmocka_unit_test(a_hybrid_of_65536_tokens_is_not_costed_as_dense),
    };
    return RUN_TESTS(table);
}
