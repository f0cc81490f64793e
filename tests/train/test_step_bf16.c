/* A hybrid of twenty million parameters in bfloat16 against the same numbers in float: hidden states, logits
 * and gradients within what the roundings of bfloat16 add up to. */
#include "train/step_support.h"

#define TOKENS 256

static const plim_spec spec = {
    .layers = 8,
    .hidden = 384,
    .mlp = 1024,
    .vocab = 8192,
    .heads = 6,
    .kv_heads = 2,
    .head_dim = 64,
    .key_heads = 3,
    .value_heads = 6,
    .key_dim = 64,
    .value_dim = 64,
    .conv_taps = 4,
    .rms_eps = 1e-6,
    .rope = {.theta = 1e6, .rotary_dim = 16},
    .unit_offset_norm = true,
    .attention_gate = true,
    .qk_norm = true,
    .layer_type = {STEP_D, STEP_D, STEP_D, STEP_A, STEP_D, STEP_D, STEP_D, STEP_A},
};

/* Roundings between one residual stream and the next, at most: norm, x A^T, product, convolution or rotary
 * and norm of heads, L2 norm, the delta rule's operands, its output or attention's, gate or gated norm, x
 * A^T, and the stream; then norm, x A^T, product, SwiGLU, x A^T and the stream. */
#define STORES 16

/* Backward each of those is a rounding of one gradient or of two, those of both factors of a product. */
#define STORES_BWD (2 * STORES)

/* Forward values that a gradient is multiplied with on the longest way through a layer: o and z of the gated
 * norm, k and one of q and v in the delta rule, the direction of the L2 norm, the slope of the convolution's
 * SiLU. */
#define FACTORS 6

/* Relative error, in the norm of the whole tensor, of a number that n roundings to bfloat16 and sums of
 * length elements in float lie behind. A rounding moves a number by at most half a step, relatively; over the
 * elements of a tensor roundings are as good as independent, so that n of them add in squares: sqrt(n) half
 * steps.  A product hands the relative error of its factors on as it is, for value and error are sums of
 * equally many independent terms. The mean rounding is 1 / sqrt(3) of the largest and less; that is the room
 * for places where a value is smaller than what it was made from (a sum that cancels). Sums in float: a
 * rounding each, of half a float's step, at random as well: sqrt(length) of them. */
static double allowed(double n, double length)
{
    return sqrt(n) * PLIM_BF16_STEP / 2 + sqrt(length) * 0x1p-24;
}

/* Roundings behind the hidden state after some layers. */
static double forward_roundings(int64_t layers)
{
    return (double)(STORES * layers);
}

/* Behind the gradient of an adapter in the first layer, which has come the longest way: the final hidden
 * state, the rows' norm, the logits' gradient and that of the normed rows; the backward pass's own; and the
 * error of the forward values it is multiplied with.  A layer's branch is one of equally large parts of the
 * stream, so that of layer j, whose values have STORES j behind them, counts as one part of j + 1 in the
 * gradient of the stream: FACTORS STORES in all for each layer.  In the adapter's own branch it counts in
 * full. */
static double backward_roundings(void)
{
    double forward = forward_roundings(spec.layers);
    return forward + 3 + (double)(STORES_BWD * spec.layers) + FACTORS * forward + FACTORS * forward;
}

static double longest_sum(void)
{
    return fmax((double)spec.mlp, fmax((double)spec.hidden, TOKENS));
}

/* ---- forward
 * --------------------------------------------------------------------------------------------- */

typedef struct forward {
    step *s;
    double *hidden[9], *logits;
} forward;

static double *rows_of(plim_tensor x)
{
    double *out = malloc((size_t)(x.rows * x.cols) * sizeof *out);
    if (!out) abort();
    for (int64_t i = 0; i < x.rows; i++)
        plim_floats_convert(x.dtype, plim_tensor_rows(x, i, 1).data, x.cols, PLIM_F64, out + i * x.cols);
    return out;
}

static plim_status see(void *user, int64_t layer, plim_tensor x)
{
    forward *f = user;
    plim_engine *e = f->s->t.engine;
    const plim_head_work *w = &e->step->head_eval;
    f->hidden[layer] = rows_of(x);
    if (layer < spec.layers) return PLIM_OK;
    TRY(plim_head_logits(e, w, x, 0, TOKENS));
    f->logits = rows_of(w->logits);
    return PLIM_OK;
}

static void check_close(const char *what, int64_t layer, const double *got, const double *want, int64_t n,
                        double tolerance)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++) square += (got[i] - want[i]) * (got[i] - want[i]);
    double e = sqrt(square) / step_norm(want, n);
    if (!(e <= tolerance))
        fail_msg("%s %lld is off by %.3g; allowed %.3g", what, (long long)layer, e, tolerance);
}

/* Errors at random have no direction: of those that are e of the gradient, only squares, e^2 of it, remain
 * along the gradient itself. */
static void check_direction(const step_result *got, const step_result *want, double e)
{
    double product = 0, square = 0;
    for (int64_t i = 0; i < want->elements; i++) {
        product += got->gradient[i] * want->gradient[i];
        square += want->gradient[i] * want->gradient[i];
    }
    if (!(fabs(product / square - 1) <= e * e))
        fail_msg("along the gradient it is off by %.3g; allowed %.3g", product / square - 1, e * e);
}

TEST(bfloat16_is_float_rounded)
{
    UNUSED_STATE;
    static const int64_t lengths[] = {150, 106, 0};
    static const plim_dtype acts[2] = {PLIM_F32, PLIM_BF16};
    plim_ctx *c = test_ctx_open();
    step s[2];
    forward f[2] = {{0}};
    step_result g[2];
    step_text x = step_text_make(&spec, lengths, 2);
    plim_sample sample = step_packed(&x);
    int64_t parameters = plim_spec_counts(&spec).parameters;
    assert_true(parameters > 18000000 && parameters < 22000000);
    for (int i = 0; i < 2; i++) {
        double sum, weights;
        plim_options o = step_options(acts[i], TOKENS, 2);
        o.tile_tokens = 128;
        o.lora_rank = 8;
        o.host_checkpoints = PLIM_ALL_LAYERS;
        o.keep_attention_output = true;
        step_open(&s[i], c, &spec, o, 2);
        f[i].s = &s[i];
        CHECK_OK(c, plim_training_evaluate(&s[i].t, &sample, 1, &sum, &weights));
        CHECK_OK(c, plim_pass_evaluate(s[i].t.engine, see, &f[i]));
        g[i] = step_packed_gradients(&s[i], &x);
        assert_true(fabs(sum / weights / g[i].r.loss - 1) < allowed(0, longest_sum()) + 1e-12);
    }
    for (int64_t l = 0; l <= spec.layers; l++)
        check_close("hidden state", l, f[1].hidden[l], f[0].hidden[l], TOKENS * spec.hidden,
                    allowed(forward_roundings(l), longest_sum()));
    check_close("logits of layer", spec.layers, f[1].logits, f[0].logits, TOKENS * spec.vocab,
                allowed(forward_roundings(spec.layers) + 1, longest_sum()));
    double bound = allowed(backward_roundings(), longest_sum());
    step_difference d = step_compare(&s[1], &g[1], &g[0], 0);
    if (!(d.worst <= bound))
        fail_msg("the gradient of %s is off by %.3g; allowed %.3g", d.where, d.worst, bound);
    check_direction(&g[1], &g[0], bound);
    for (int i = 0; i < 2; i++) {
        for (int64_t l = 0; l <= spec.layers; l++) free(f[i].hidden[l]);
        free(f[i].logits);
        step_result_free(&g[i]);
        step_close(&s[i]);
    }
    step_text_free(&x);
    test_ctx_close(c);
}

static const struct CMUnitTest table[] = {
    cmocka_unit_test(bfloat16_is_float_rounded),
};

int main(void)
{
    return RUN_TESTS(table);
}
