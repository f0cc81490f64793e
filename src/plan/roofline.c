/* roofline.c - predicts the seconds of a step: each kind of work at the card's sustained rate for it, copies
 * beside it.  Derived in docs/speed-model.md; the terms of the delta rule are those of the maths note's cost
 * table. */
#include "plimsoll_search.h"

#include "model/linear.h"

/* Shares of the copy rate that delta-rule kernels reach, from one layer at 16,384 tokens on one H200: 2.10 GB
 * in 1.74 ms forward and 4.09 GB in 5.07 ms backward at 4.21 TB/s (Triton kernels, 2026-12-01). */
#define DELTA_FORWARD_SHARE  0.29
#define DELTA_BACKWARD_SHARE 0.19
#define CHUNK                64.0
#define OPTIMISER_BYTES                                                                                      \
    40.0 /* an adapter parameter: master, gradient, states, working copy, read and written */

typedef struct work {
    double gemm_flop, thin_bytes, attention_flop, delta_s, elementwise_bytes;
} work;

static double products(const plim_linear *l)
{
    return (double)l->in * (double)l->out;
}

static double gemm_of(const plim_layer_linears *l, bool with_down)
{
    return 2 * (products(&l->in) + products(&l->ba) + products(&l->out) + products(&l->gate_up) +
                (with_down ? products(&l->down) : 0));
}

/* Bytes an adapter's thin products move a token in one pass: x read, dy or y read, both bf16. */
static double thin_of(const plim_layer_linears *l)
{
    const plim_linear *const all[] = {&l->in, &l->ba, &l->out, &l->gate_up, &l->down};
    double elements = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->pad) elements += (double)(all[i]->in + all[i]->out);
    return 2 * elements;
}

/* Bytes moved between the products, a token, forward; the backward pass moves about twice as many. */
static double elementwise_of(const plim_spec *s, plim_layer_type type)
{
    double D = (double)s->hidden, F = (double)s->mlp, mixer;
    if (type == PLIM_LAYER_ATTENTION) {
        double q = (double)(s->heads * s->head_dim), kv = (double)(s->kv_heads * s->head_dim);
        mixer = 2 * (q + kv) + 3 * q; /* norm and rotary; gate */
    } else {
        double values = (double)(s->value_heads * s->value_dim),
               keys = (double)(2 * s->key_heads * s->key_dim);
        mixer = 2 * (keys + values) + 2 * keys + 3 * values; /* convolution, L2 norms, gated norm */
    }
    return 2 * (2 * (2 * D + D) + mixer + 3 * F); /* two norms and residual additions; SwiGLU */
}

/* Bytes a token moves through one delta-rule layer, bf16 storage, by tensor: what the chunk kernels read and
 * write. */
typedef struct delta_traffic {
    double keys, values, solves, states, gates;
} delta_traffic;

static delta_traffic delta_traffic_of(const plim_spec *s)
{
    double heads = (double)s->value_heads, dk = (double)s->key_dim, dv = (double)s->value_dim;
    return (delta_traffic){2 * (double)s->key_heads * dk, 2 * heads * dv, 2 * heads * CHUNK,
                           2 * heads * dk * dv / CHUNK, 8 * heads};
}

/* The chunks' own matrices, then the scan that carries the state. */
static double delta_bytes_scan(const delta_traffic *d)
{
    return (d->keys + d->solves + d->gates) + (d->keys + 2 * d->values + d->solves + d->states + d->gates);
}

static double delta_bytes_forward(const plim_spec *s)
{
    delta_traffic d = delta_traffic_of(s);
    return delta_bytes_scan(&d) + 2 * d.keys + 2 * d.values + d.states + d.gates;
}

static double delta_bytes_backward(const plim_spec *s)
{
    delta_traffic d = delta_traffic_of(s);
    return delta_bytes_scan(&d) + (2 * d.keys + 2 * d.values + d.solves + d.states + d.gates) +
           (4 * d.keys + 4 * d.values + 2 * d.states + 2 * d.gates);
}

static double delta_seconds(double bytes, double share, const plim_card *card)
{
    return bytes / (share * card->memory_gb_per_s * 1e9);
}

plim_token_flop plim_token_flop_of(const plim_spec *s)
{
    plim_token_flop f = {0};
    for (int64_t i = 0; i < s->layers; i++) {
        plim_layer_linears l = plim_layer_linears_of(s, (plim_layer_type)s->layer_type[i], 0, 0);
        f.forward_gemm += gemm_of(&l, true);
    }
    f.attention_per_key =
        4.0 * (double)(s->heads * s->head_dim) * (double)plim_spec_layers_of(s, PLIM_LAYER_ATTENTION);
    f.head_per_labelled = 2.0 * (double)s->hidden * (double)s->vocab;
    return f;
}

static double seconds(const work *w, const plim_card *card, double attention_tflop_per_s)
{
    return w->gemm_flop / (card->gemm_bf16_tflop_per_s * 1e12) +
           w->attention_flop / (attention_tflop_per_s * 1e12) + w->delta_s +
           (w->thin_bytes + w->elementwise_bytes) / (card->memory_gb_per_s * 1e9);
}

static void add(plim_step_time *t, const work *w, const plim_card *card, double attention_tflop_per_s)
{
    t->gemm_s +=
        w->gemm_flop / (card->gemm_bf16_tflop_per_s * 1e12) + w->thin_bytes / (card->memory_gb_per_s * 1e9);
    t->attention_s += w->attention_flop / (attention_tflop_per_s * 1e12);
    t->delta_s += w->delta_s;
    t->elementwise_s += w->elementwise_bytes / (card->memory_gb_per_s * 1e9);
}

/* Forward, repeated forward and backward of one layer over T tokens. */
static void layer_work(const plim_spec *s, const plim_options *o, const plim_card *card, plim_layer_type type,
                       bool kept, work *forward, work *again, work *backward)
{
    double T = (double)o->seq_tokens, keys = T / (double)o->documents / 2;
    plim_layer_linears l = plim_layer_linears_of(s, type, o->lora_rank, o->lora_targets);
    double attention = type == PLIM_LAYER_ATTENTION ? 4 * T * keys * (double)(s->heads * s->head_dim) : 0;
    double elementwise = T * elementwise_of(s, type);
    *again = (work){0};
    *forward = (work){T * gemm_of(&l, true), T * thin_of(&l), attention, 0, elementwise};
    *backward = (work){T * gemm_of(&l, true), 2 * T * thin_of(&l), 2.5 * attention, 0, 2 * elementwise};
    if (type == PLIM_LAYER_DELTA) {
        forward->delta_s = delta_seconds(T * delta_bytes_forward(s), DELTA_FORWARD_SHARE, card);
        backward->delta_s = delta_seconds(T * delta_bytes_backward(s), DELTA_BACKWARD_SHARE, card);
    }
    if (kept) return;
    *again = *forward;
    again->gemm_flop = T * gemm_of(&l, false); /* the layer's output itself is not needed again */
    if (o->keep_attention_output) again->attention_flop = 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void plim_step_time_of(const plim_spec *s, const plim_options *o, const plim_card *card, plim_step_time *out)
{
    plim_step_time t = {0};
    double T = (double)o->seq_tokens, forward_s = 0, backward_s = 0, link = card->host_link_gb_per_s * 1e9;
    double act = (double)plim_dtype_bytes(o->act), input_bytes = T * (double)s->hidden * act;
    double output_bytes = T * (double)s->heads * ((double)s->head_dim * act + 4);
    double fwd_rate = card->attention_forward_tflop_per_s, bwd_rate = card->attention_backward_tflop_per_s;
    double host_bytes = 0;
    work parts[2][2][3];
    for (int type = 0; type < 2; type++)
        for (int kept = 0; kept < 2; kept++)
            layer_work(s, o, card, (plim_layer_type)type, kept, &parts[type][kept][0], &parts[type][kept][1],
                       &parts[type][kept][2]);
    for (int64_t i = 0; i < s->layers; i++) {
        bool kept = i >= s->layers - (o->kept_layers < s->layers ? o->kept_layers : s->layers);
        const work *w = parts[s->layer_type[i]][kept];
        double again = seconds(&w[1], card, fwd_rate);
        add(&t, &w[0], card, fwd_rate);
        add(&t, &w[1], card, fwd_rate);
        add(&t, &w[2], card, bwd_rate);
        forward_s += seconds(&w[0], card, fwd_rate);
        backward_s += again + seconds(&w[2], card, bwd_rate);
        t.recompute_s += again;
        if (i >= o->host_checkpoints) continue;
        host_bytes += input_bytes;
        if (o->keep_attention_output && !kept && s->layer_type[i] == PLIM_LAYER_ATTENTION)
            host_bytes += output_bytes;
    }
    double rows = T * o->labelled_share; /* full logits hold more rows at once, not more of them */
    t.loss_s = rows * (4.0 * (double)s->hidden * (double)s->vocab / (card->gemm_bf16_tflop_per_s * 1e12) +
                       10.0 * (double)s->vocab / (card->memory_gb_per_s * 1e9));
    t.to_host_s = t.from_host_s = host_bytes / link;
    double forward = larger(forward_s, t.to_host_s), backward = larger(backward_s, t.from_host_s);
    t.link_wait_s = forward - forward_s + backward - backward_s;
    double optimiser = OPTIMISER_BYTES * (double)plim_lora_parameters(s, o->lora_rank, o->lora_targets) /
                       (card->memory_gb_per_s * 1e9);
    t.step_s = forward + backward + t.loss_s + optimiser + (o->embedding_on_host ? input_bytes / link : 0);
    t.tokens_per_s = T / t.step_s;
    *out = t;
}
