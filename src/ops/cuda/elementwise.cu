// elementwise.cu - what needs no neighbour: SwiGLU, attention gate, additions, copies.
#include "ops/cuda/elements.h"

/* y = silu(gate) * up; bf16 in and out, fp32 inside.
 * Launch: rows x columns, 8 a thread.  Moves 6 B an element.  One rounding on store. */
template <int V>
static __global__ void swiglu_fwd_kernel(rows_of<const bf16> gate, rows_of<const bf16> up, rows_of<bf16> y,
                                         int64_t rows, int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float g[V], u[V];
        load(gate.at(i, j), g);
        load(up.at(i, j), u);
        for (int v = 0; v < V; v++) g[v] = g[v] * sigmoid(g[v]) * u[v];
        store(y.at(i, j), g);
    }
}

plim_status plim_cuda_swiglu_fwd(plim_device *d, const plim_swiglu_args *a)
{
    int64_t rows = a->y.rows, cols = a->y.cols;
    TRY(plim_cuda_act(d, "swiglu_fwd", a->y.dtype));
    TRY(plim_cuda_view(d, "swiglu_fwd", "gate", a->gate, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, "swiglu_fwd", "up", a->up, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    bool wide = plim_cuda_wide(a->gate) && plim_cuda_wide(a->up) && plim_cuda_wide(a->y);
    PLIM_CUDA_LAUNCH_ROWS(d, wide, swiglu_fwd_kernel, rows, cols, rows_view<const bf16>(a->gate),
                          rows_view<const bf16>(a->up), rows_view<bf16>(a->y));
    return plim_cuda_launched(d, "swiglu_fwd");
}

/* dgate = dy up silu'(gate), dup = dy silu(gate), and y again when wanted; reads before it writes, so in
 * place works. Launch: as above.  Moves 10 B an element, 12 with y. */
template <int V>
static __global__ void swiglu_bwd_kernel(rows_of<const bf16> gate, rows_of<const bf16> up,
                                         rows_of<const bf16> dy, rows_of<bf16> dgate, rows_of<bf16> dup,
                                         rows_of<bf16> y, int64_t rows, int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float g[V], u[V], dp[V], out[V];
        load(gate.at(i, j), g);
        load(up.at(i, j), u);
        load(dy.at(i, j), dp);
        for (int v = 0; v < V; v++) {
            float s = sigmoid(g[v]), silu = g[v] * s;
            out[v] = silu * u[v];
            g[v] = dp[v] * u[v] * (s + silu * (1.0f - s));
            u[v] = dp[v] * silu;
        }
        if (y.data) store(y.at(i, j), out);
        store(dgate.at(i, j), g);
        store(dup.at(i, j), u);
    }
}

plim_status plim_cuda_swiglu_bwd(plim_device *d, const plim_swiglu_args *a)
{
    int64_t rows = a->dy.rows, cols = a->dy.cols;
    const plim_tensor views[] = {a->gate, a->up, a->dgate, a->dup};
    bool wide = plim_cuda_wide(a->dy) && plim_cuda_wide(a->y);
    TRY(plim_cuda_act(d, "swiglu_bwd", a->dy.dtype));
    for (const plim_tensor &t : views) {
        TRY(plim_cuda_view(d, "swiglu_bwd", "a view", t, PLIM_BF16, rows, cols));
        wide = wide && plim_cuda_wide(t);
    }
    if (a->y.data) TRY(plim_cuda_view(d, "swiglu_bwd", "y", a->y, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    PLIM_CUDA_LAUNCH_ROWS(d, wide, swiglu_bwd_kernel, rows, cols, rows_view<const bf16>(a->gate),
                          rows_view<const bf16>(a->up), rows_view<const bf16>(a->dy),
                          rows_view<bf16>(a->dgate), rows_view<bf16>(a->dup), rows_view<bf16>(a->y));
    return plim_cuda_launched(d, "swiglu_bwd");
}

/* ---- attention gate ------------------------------------------------------------------------------------ */

/* u = o sigmoid(gate); head h of gate at column h * stride.  Column j of o is column j % Dh of head j / Dh.
 * Launch: rows x columns, V a thread (Dh is a multiple of V).  Moves 6 B an element. */
template <int V>
static __global__ void gate_fwd_kernel(rows_of<const bf16> o, rows_of<const bf16> gate, rows_of<bf16> u,
                                       int head_dim, int64_t stride, int64_t rows, int64_t cols)
{
    PLIM_CUDA_EACH(i, j, rows, cols, V)
    {
        float x[V], g[V];
        int64_t head = j / head_dim;
        load(o.at(i, j), x);
        load(gate.at(i, head * stride + j - head * head_dim), g);
        for (int v = 0; v < V; v++) x[v] *= sigmoid(g[v]);
        store(u.at(i, j), x);
    }
}

static plim_status check_gate(plim_device *d, const char *op, const plim_attention_gate_args *a,
                              plim_tensor gate)
{
    int64_t need = a->heads > 0 ? (a->heads - 1) * a->gate_stride + a->head_dim : 0;
    if (gate.dtype == PLIM_BF16 && gate.cols >= need && a->gate_stride >= a->head_dim) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE,
                     "%s: gate has %lld columns of %s; %lld heads of %lld at stride %lld", op,
                     (long long)gate.cols, plim_dtype_name(gate.dtype), (long long)a->heads,
                     (long long)a->head_dim, (long long)a->gate_stride);
}

/* Heads can be read 8 at a time: their size and stride as well as the rows. */
static bool wide_heads(plim_tensor t, int64_t head_dim, int64_t stride)
{
    t.cols = 0; /* the last head may end before the row does */
    return plim_cuda_wide(t) && head_dim % 8 == 0 && stride % 8 == 0;
}

plim_status plim_cuda_attention_gate_fwd(plim_device *d, const plim_attention_gate_args *a)
{
    const char *op = "attention_gate_fwd";
    int64_t rows = a->u.rows, cols = a->heads * a->head_dim;
    TRY(plim_cuda_act(d, op, a->u.dtype));
    TRY(plim_cuda_view(d, op, "u", a->u, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, op, "o", a->o, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    if (!a->gate.data) return a->o.data == a->u.data ? PLIM_OK : plim_cuda_copy(d, a->o, a->u);
    TRY(check_gate(d, op, a, a->gate));
    bool wide =
        plim_cuda_wide(a->o) && plim_cuda_wide(a->u) && wide_heads(a->gate, a->head_dim, a->gate_stride);
    PLIM_CUDA_LAUNCH_ROWS(d, wide, gate_fwd_kernel, rows, cols, rows_view<const bf16>(a->o),
                          rows_view<const bf16>(a->gate), rows_view<bf16>(a->u), (int)a->head_dim,
                          a->gate_stride);
    return plim_cuda_launched(d, op);
}

/* dout = du sigmoid(gate), dgate = du u (1 - sigmoid(gate)), delta = <du, u> per head.
 * Launch: a warp a row and head.  Moves 10 B an element.  Reads before it writes. */
static __global__ void gate_bwd_kernel(rows_of<const bf16> du, rows_of<const bf16> u,
                                       rows_of<const bf16> gate, rows_of<bf16> dout, rows_of<bf16> dgate,
                                       rows_of<float> delta, int heads, int head_dim, int64_t stride,
                                       int64_t rows)
{
    int64_t item = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int lane = threadIdx.x & 31;
    int64_t row = item / heads;
    int head = (int)(item - row * heads);
    if (row >= rows) return;
    float sum = 0;
    for (int j = lane; j < head_dim; j += 32) {
        int64_t at = (int64_t)head * head_dim + j, at_gate = head * stride + j;
        float g = __bfloat162float(*du.at(row, at)), x = __bfloat162float(*u.at(row, at));
        float s = gate.data ? sigmoid(__bfloat162float(*gate.at(row, at_gate))) : 1.0f;
        sum += g * x;
        *dout.at(row, at) = __float2bfloat16_rn(g * s);
        if (gate.data) *dgate.at(row, at_gate) = __float2bfloat16_rn(g * x * (1.0f - s));
    }
    sum = warp_sum(sum);
    if (lane == 0) *delta.at(head, row) = sum;
}

plim_status plim_cuda_attention_gate_bwd(plim_device *d, const plim_attention_gate_args *a)
{
    const char *op = "attention_gate_bwd";
    int64_t rows = a->du.rows, cols = a->heads * a->head_dim;
    TRY(plim_cuda_act(d, op, a->du.dtype));
    TRY(plim_cuda_view(d, op, "du", a->du, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, op, "u", a->u, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, op, "dout", a->dout, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, op, "delta", a->delta, PLIM_F32, a->heads, rows));
    if (a->gate.data) {
        TRY(check_gate(d, op, a, a->gate));
        TRY(check_gate(d, op, a, a->dgate));
    }
    if (rows == 0 || cols == 0) return PLIM_OK;
    PLIM_LAUNCH(gate_bwd_kernel, plim_cuda_blocks(rows * a->heads, 8), 256, 0, d->compute)
    (rows_view<const bf16>(a->du), rows_view<const bf16>(a->u), rows_view<const bf16>(a->gate),
     rows_view<bf16>(a->dout), rows_view<bf16>(a->dgate), rows_view<float>(a->delta), (int)a->heads,
     (int)a->head_dim, a->gate_stride, rows);
    return plim_cuda_launched(d, op);
}
