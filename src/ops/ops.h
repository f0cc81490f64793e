/* ops.h - the table of operations every device fills, over tensor views.  It knows nothing of models.
 *
 * Views are row-major [rows, cols] with a pitch; heads lie side by side in a row ([T, H, Dh] is [T, H * Dh]).
 * ACT is the activation dtype of a run: F32, BF16 (fp32 inside, one rounding on store) or, in test builds,
 * F64. STAT is F32, and F64 when ACT is F64: norm gains, decays, states, lse, LoRA masters and gradients.
 * Every operation works on a range of rows ("a tile"), so that nothing here grows with the sequence.
 * Calls queue on the device's stream and allocate nothing; an empty shape returns at once.
 * Errors of every slot: PLIM_E_SHAPE (a shape or dtype the column does not take), PLIM_E_CUDA.
 * Formulas: docs/maths.md; section numbers below are of that file. */
#ifndef PLIM_OPS_OPS_H
#define PLIM_OPS_OPS_H

#include "base/tensor.h"

typedef struct plim_device plim_device; /* a stream, its handles and its scratch; opened by a column */

/* Documents packed in the sequence: document n owns rows start[n] .. start[n + 1] - 1.  start is readable by
 * the device; start_host by the host (the same pointer on the CPU). */
typedef struct plim_docs {
    int64_t count, tokens, longest;
    const int64_t *start, *start_host;
} plim_docs;

/* A chunk of the delta rule: rows first .. first + rows - 1 of the tile; never crosses a document. */
typedef struct plim_chunk {
    int32_t first, rows;
    int32_t starts_document, ends_document; /* state is zero before it; state gradient is zero after it */
} plim_chunk;

#define PLIM_CHUNK_TOKENS 64

/* c = alpha * op(a) op(b) [+ c].  op transposes when its flag is set.  a, b: ACT; c: ACT or STAT.
 * Sums in fp32 (F64: double); one rounding on store, after the addition.  F32 and BF16 may mix.  c overlaps
 * neither. CPU: pitches to 2^24 elements. */
typedef struct plim_gemm_args {
    plim_tensor a, b, c;
    bool transpose_a, transpose_b, accumulate;
    double alpha;
} plim_gemm_args;

/* y = x r (1 + w) or x r w; r = (mean(x^2) + eps)^-1/2 over groups of n = w.cols columns (x.cols a multiple
 * of n). x, y, dy, dx: ACT [T, C]; w: STAT [1, n].  bwd: dx = or += by accumulate.  1.3, 2.1. */
typedef struct plim_rmsnorm_args {
    plim_tensor x, w, y;
    plim_tensor dy, dx; /* bwd */
    double eps;
    bool unit_offset, accumulate;
} plim_rmsnorm_args;

/* Head norm and rotary: y = rotate(norm(x)).  x: ACT, head h of row t at column h * head_stride (2 Dh when
 * the gate is interleaved); y: ACT [T, H * Dh]; w: STAT [1, Dh], absent (no data) = no norm; cos, sin: STAT
 * [T, rotary / 2] for these rows.  bwd: dy [T, H * Dh] -> dx laid out as x, other columns untouched; x is the
 * forward input; dx may alias x.  1.5 steps 3 and 4, 2.7. */
typedef struct plim_head_rope_args {
    plim_tensor x, w, cos, sin, y;
    plim_tensor dy, dx; /* bwd */
    int64_t heads, head_dim, head_stride;
    double eps;
    bool unit_offset;
} plim_head_rope_args;

/* Causal attention inside documents.  q, o, dout, dq: ACT [T, H * Dh]; k, v, dk, dv: ACT [T, Hkv * Dh]; lse
 * and delta: STAT [H, T].  delta_i = <dout_i, o_i> per head is read by bwd (o too, where an engine wants it).
 * The views may be a group of the heads of wider buffers (through the pitch).  Outputs are overwritten and
 * overlap no input; the documents cover every row; Dh at most 256.  scratch: bytes the layout reserved. 1.5
 * step 5, 2.8. */
typedef struct plim_attention_args {
    plim_tensor q, k, v, o, lse;
    plim_tensor dout, delta, dq, dk, dv; /* bwd */
    int64_t heads, kv_heads, head_dim;
    double scale;
    plim_docs docs;
    void *scratch;
    size_t scratch_bytes;
} plim_attention_args;

/* u = o * sigmoid(gate).  gate: head h at column h * gate_stride.  bwd: du, u -> dout = du sigmoid(gate) (may
 * alias du), dgate (laid out as gate, may alias it), delta [H, T] = <du, u> per head.  gate absent: u = o,
 * dout = du.  1.5 step 6, 2.8. */
typedef struct plim_attention_gate_args {
    plim_tensor o, gate, u;
    plim_tensor du, dout, dgate, delta; /* bwd; delta [H, rows of this tile] */
    int64_t heads, head_dim, gate_stride;
} plim_attention_gate_args;

/* Causal depthwise convolution and SiLU inside documents.  m, y, dy, dm: ACT [rows, ch]; w: STAT [ch, Kw];
 * history: ACT [Kw - 1, ch], the rows before first_row (ignored where a document starts).  bwd walks tiles
 * from the last to the first: carry STAT [Kw - 1, ch] holds the pre-activation gradients of the Kw - 1 rows
 * after the tile and is replaced by those of its own first rows (zero it before the last tile; rows fewer
 * than Kw - 1 shift).  Those gradients are rounded to STAT before any use, so that the cut into tiles changes
 * no bit.  Kw is at most 8; history may be absent when first_row is 0.  1.6 step 2, 2.4. */
typedef struct plim_conv_silu_args {
    plim_tensor m, history, w, y;
    plim_tensor dy, dm, carry; /* bwd */
    int64_t first_row;         /* of the tile in the sequence */
    plim_docs docs;
} plim_conv_silu_args;

/* y = scale * x / sqrt(sum x^2 + 1e-6) over groups of dim columns; y may alias x.  bwd: dx (may alias dy).
 * 1.6 step 4, 2.3. */
typedef struct plim_l2norm_args {
    plim_tensor x, y;
    plim_tensor dy, dx; /* bwd */
    int64_t dim;
    double scale;
} plim_l2norm_args;

/* ba: STAT [T, 2 Hv], columns bl then a; a_log, dt_bias: STAT [1, Hv]; g, beta: STAT [T, Hv].
 * bwd: dg, dbl -> dba: ACT [T, 2 Hv].  dbl is the gradient at bl (4.5's division-free form).  1.6 step
 * 6, 2.5. */
typedef struct plim_decay_args {
    plim_tensor ba, a_log, dt_bias, g, beta;
    plim_tensor dg, dbl, dba; /* bwd */
} plim_decay_args;

/* Gated delta rule over one tile, in chunks (chunk_table.h) that cover its rows in order.  q, k: ACT [rows,
 * Hk * Dk] (normalised, q scaled); v, o: ACT [rows, Hv * Dv]; g, beta: STAT [rows, Hv]; Dk, Dv at most 256.
 * state: STAT [Hv * Dk, Dv], the state before the tile in (ignored when the first chunk starts a document),
 * after it out.  bwd: state is the state before the tile (read only); dstate STAT [Hv * Dk, Dv]: gradient of
 * the state after the tile in (ignored when the last chunk ends a document), of the state before it out (0
 * when the first chunk starts a document); dout -> dq, dk, dv, dg, dbl.  dq and dk of a key head are sums
 * over its value heads in their order. o may alias v, and dq, dk, dv, dg, dbl may alias q, k, v, g, beta;
 * nothing else overlaps. scratch: plim_delta_scratch_bytes; its regions are those of
 * delta_scratch.h.  4.1-4.5. */
typedef struct plim_delta_args {
    plim_tensor q, k, v, g, beta, o, state;
    plim_tensor dout, dstate, dq, dk, dv, dg, dbl; /* bwd */
    int64_t key_heads, value_heads, key_dim, value_dim;
    const plim_chunk *chunks; /* readable by the device */
    int64_t chunk_count;
    void *scratch;
    size_t scratch_bytes;
} plim_delta_args;

/* y = norm(o) w silu(z) per value head, plain gain.  o, z, y, dy, dout, dz: ACT [T, Hv * Dv]; w: STAT [1,
 * Dv]. dout may alias dy, dz may alias z.  1.6 step 8, 2.2. */
typedef struct plim_gated_norm_args {
    plim_tensor o, z, w, y;
    plim_tensor dy, dout, dz; /* bwd */
    double eps;
} plim_gated_norm_args;

/* y = silu(gate) * up.  bwd: dy -> dgate, dup, which may alias gate, up; y, when present, is written
 * again.  2.9. */
typedef struct plim_swiglu_args {
    plim_tensor gate, up, y;
    plim_tensor dy, dgate, dup; /* bwd */
} plim_swiglu_args;

/* Loss of M rows and its gradient in one visit.  logits: STAT [M, V] in; overwritten by dlogits: ACT [M, V],
 * a view of the same memory (its row pitch in bytes is that of logits).  labels: i32 [M]; weights: f32 [M];
 * dlogit = weight * scale * (softmax - onehot).  loss_sum += sum of weight * (lse - logit[label]), double on
 * the device.  want_gradient false: logits untouched.  A label outside [0, V) is PLIM_E_RANGE on the CPU, a
 * NaN loss on the GPU (checked by the caller).  1.8, 2.10. */
typedef struct plim_cross_entropy_args {
    plim_tensor logits, dlogits;
    const int32_t *labels;
    const float *weights;
    double scale;
    double *loss_sum;
    bool want_gradient;
} plim_cross_entropy_args;

/* rows of src -> dst by index: gather dst[i] = src[index[i]]; scatter dst[index[i]] = src[i], other rows of
 * dst untouched, indices distinct.  i32 indices; one outside is PLIM_E_RANGE on the CPU.  Floats are cast as
 * by copy. */
typedef struct plim_rows_args {
    plim_tensor src, dst;
    const int32_t *index;
} plim_rows_args;

/* y = x * mask / (1 - p), mask from Philox(seed, stream) at the element's index in the whole [T, C] tensor
 * (row first_row + t): kept when plim_random_float of that index is at least p.  A dropped element is 0
 * whatever it was. y may alias x.  p = 0 copies; p outside [0, 1) is PLIM_E_RANGE. */
typedef struct plim_dropout_args {
    plim_tensor x, y;
    uint64_t seed, stream;
    int64_t first_row;
    double p;
} plim_dropout_args;

/* Random fill, the same bits on every device: NORMAL mean + sigma * n, UNIFORM low .. high, or a constant.
 * The element's index is row * cols + col, whatever the pitch.  In float: sigma * n, then + mean; u * (high -
 * low), then
 * + low; each step rounded (no FMA), then rounded to the dtype. */
typedef enum plim_fill_kind { PLIM_FILL_CONSTANT, PLIM_FILL_NORMAL, PLIM_FILL_UNIFORM } plim_fill_kind;
typedef struct plim_fill_args {
    plim_tensor x;
    plim_fill_kind kind;
    uint64_t seed, stream;
    double a, b; /* constant a; mean a, sigma b; low a, high b */
} plim_fill_args;

/* AdamW of one tensor of n elements, taken row after row whatever the pitch; m and v may have any shape of n
 * elements. param, grad: STAT.  Eight-bit states: m, v codes u8 [n] with m_max, v_max f32 [ceil(n / 256)];
 * 32-bit: m, v STAT [n], m_max without data.  Which of them is the caller's choice (32-bit under 4,096
 * elements).  Zero-filled states are moments of 0.  grad is scaled by grad_scale first.  A gradient that is
 * not finite, or whose square float does not hold, is PLIM_E_NUMERIC on the CPU and changes nothing; a GPU
 * relies on square_sum before it. Other errors: PLIM_E_RANGE (a step, rate or beta out of range).  Section 5,
 * guarded rounding of v included. */
typedef struct plim_adamw_args {
    plim_tensor param, grad, m, v, m_max, v_max;
    double learning_rate, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t step; /* 1, 2, ... */
} plim_adamw_args;

/* *sum += sum of squares of x (double, on the device); a non-finite element makes it non-finite. */
typedef struct plim_square_sum_args {
    plim_tensor x;
    double *sum;
} plim_square_sum_args;

#define PLIM_OPS_MAP(X)                                                                                      \
    X(gemm, plim_gemm_args)                                                                                  \
    X(rmsnorm_fwd, plim_rmsnorm_args)                                                                        \
    X(rmsnorm_bwd, plim_rmsnorm_args)                                                                        \
    X(head_rope_fwd, plim_head_rope_args)                                                                    \
    X(head_rope_bwd, plim_head_rope_args)                                                                    \
    X(attention_fwd, plim_attention_args)                                                                    \
    X(attention_bwd, plim_attention_args)                                                                    \
    X(attention_gate_fwd, plim_attention_gate_args)                                                          \
    X(attention_gate_bwd, plim_attention_gate_args)                                                          \
    X(conv_silu_fwd, plim_conv_silu_args)                                                                    \
    X(conv_silu_bwd, plim_conv_silu_args)                                                                    \
    X(l2norm_fwd, plim_l2norm_args)                                                                          \
    X(l2norm_bwd, plim_l2norm_args)                                                                          \
    X(decay_fwd, plim_decay_args)                                                                            \
    X(decay_bwd, plim_decay_args)                                                                            \
    X(delta_fwd, plim_delta_args)                                                                            \
    X(delta_bwd, plim_delta_args)                                                                            \
    X(gated_norm_fwd, plim_gated_norm_args)                                                                  \
    X(gated_norm_bwd, plim_gated_norm_args)                                                                  \
    X(swiglu_fwd, plim_swiglu_args)                                                                          \
    X(swiglu_bwd, plim_swiglu_args)                                                                          \
    X(cross_entropy, plim_cross_entropy_args)                                                                \
    X(gather_rows, plim_rows_args)                                                                           \
    X(scatter_rows, plim_rows_args)                                                                          \
    X(dropout, plim_dropout_args)                                                                            \
    X(fill, plim_fill_args)                                                                                  \
    X(adamw, plim_adamw_args)                                                                                \
    X(square_sum, plim_square_sum_args)

/* copy: y = x (cast when the dtypes differ).  scaled_copy: y = alpha x, cast; a product of floats, alpha
 * rounded to float first (x F64: of doubles).  add: y += x.  add_bias: y += bias [1, C] on every row. Between
 * device and pinned host memory, beside the compute stream: offload and fetch start when the compute queued
 * so far is done and return at once; wait(event) makes later compute wait for the last offload or fetch that
 * was given this event (0 .. PLIM_EVENTS - 1); settle(event) makes the host wait for it, so that the host
 * side of the copy may be used again.  The CPU copies at once. read: waits for everything and brings bytes to
 * the host. */
#define PLIM_EVENTS 16
typedef struct plim_ops {
#define PLIM_OPS_SLOT(name, args) plim_status (*name)(plim_device * d, const args *a);
    PLIM_OPS_MAP(PLIM_OPS_SLOT)
#undef PLIM_OPS_SLOT
    plim_status (*copy)(plim_device *d, plim_tensor x, plim_tensor y);
    plim_status (*scaled_copy)(plim_device *d, double alpha, plim_tensor x, plim_tensor y);
    plim_status (*add)(plim_device *d, plim_tensor x, plim_tensor y);
    plim_status (*add_bias)(plim_device *d, plim_tensor bias, plim_tensor y);
    plim_status (*offload)(plim_device *d, plim_tensor x, plim_tensor host, int event);
    plim_status (*fetch)(plim_device *d, plim_tensor host, plim_tensor x, int event);
    plim_status (*wait)(plim_device *d, int event);
    plim_status (*settle)(plim_device *d, int event);
    plim_status (*read)(plim_device *d, const void *device, void *host, size_t bytes);
    plim_status (*write)(plim_device *d, const void *host, void *device, size_t bytes);
} plim_ops;

/* The CPU column.  threads 0: all cores.  Errors: PLIM_E_OOM_HOST, PLIM_E_NUMERIC (the BLAS self-check
 * failed). */
extern const plim_ops plim_ops_cpu;
plim_status plim_cpu_open(plim_ctx *c, int threads, plim_device **out);
void plim_cpu_close(plim_device *d);

/* Bytes of scratch delta_fwd and delta_bwd need for tiles of at most chunk_count chunks: one formula for
 * every column and for the plan (terms: delta_scratch.h).  act, stat: dtypes of the run.  SIZE_MAX when it
 * passes 2^63. */
size_t plim_delta_scratch_bytes(plim_dtype act, plim_dtype stat, int64_t value_heads, int64_t key_heads,
                                int64_t key_dim, int64_t value_dim, int64_t chunk_count, bool backward);

#endif
