// gated_norm.cu - the delta mixer's output norm: a plain gain, and a SiLU gate after it.
#include "ops/cuda/groups.h"

/* y = w (o r) silu(z), r = (mean o^2 + eps)^-1/2 over groups of dim columns; bf16 in and out, w fp32, fp32
 * inside. Launch: a few lanes a group, V columns each, 256 threads.  Moves 6 B an element. Sums in a fixed
 * order; one rounding on store. */
template <int V>
static __global__ void gated_norm_fwd_kernel(rows_of<const bf16> o, rows_of<const bf16> z, const float *w,
                                             rows_of<bf16> y, float eps, int64_t rows, int64_t cols,
                                             int64_t dim, int lanes)
{
    const group_part p = group_part_of<V>(rows, cols, dim, lanes);
    float sum = 0, first[V], first_gate[V]; /* the common case: a group is one visit of its lanes */
    if (p.inside && p.first < dim) {
        load(o.at(p.row, p.col + p.first), first);
        load(z.at(p.row, p.col + p.first), first_gate);
        for (int i = 0; i < V; i++) sum += first[i] * first[i];
    }
    if (p.inside)
        for (int64_t j = p.first + p.step; j < dim; j += p.step) {
            float x[V];
            load(o.at(p.row, p.col + j), x);
            for (int i = 0; i < V; i++) sum += x[i] * x[i];
        }
    const float r = rsqrtf(group_sum(sum, lanes) / (float)dim + eps);
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float x[V], gate[V], gain[V];
            if (j > p.first) {
                load(o.at(p.row, p.col + j), x);
                load(z.at(p.row, p.col + j), gate);
            } else {
                for (int i = 0; i < V; i++) x[i] = first[i], gate[i] = first_gate[i];
            }
            load(w + j, gain);
            for (int i = 0; i < V; i++) x[i] = gain[i] * (x[i] * r) * (gate[i] * quick_sigmoid(gate[i]));
            store(y.at(p.row, p.col + j), x);
        }
}

/* dout = r (dxn - o r^2 mean(dxn o)), dxn = dy w silu(z); dz = dy w (o r) silu'(z).
 * Launch: as above.  Moves 10 B an element.  dout may be dy, dz may be z: reads come before writes. */
template <int V>
static __global__ void gated_norm_bwd_kernel(rows_of<const bf16> o, rows_of<const bf16> z, const float *w,
                                             rows_of<const bf16> dy, rows_of<bf16> dout, rows_of<bf16> dz,
                                             float eps, int64_t rows, int64_t cols, int64_t dim, int lanes)
{
    const group_part p = group_part_of<V>(rows, cols, dim, lanes);
    float sum = 0, dot = 0;
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float x[V], gate[V], gain[V], g[V];
            load(o.at(p.row, p.col + j), x);
            load(z.at(p.row, p.col + j), gate);
            load(dy.at(p.row, p.col + j), g);
            load(w + j, gain);
            for (int i = 0; i < V; i++) {
                sum += x[i] * x[i];
                dot += g[i] * gain[i] * (gate[i] * quick_sigmoid(gate[i])) * x[i];
            }
        }
    const float r = rsqrtf(group_sum(sum, lanes) / (float)dim + eps),
                pull = group_sum(dot, lanes) * r * r / (float)dim;
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float x[V], gate[V], gain[V], g[V];
            load(o.at(p.row, p.col + j), x);
            load(z.at(p.row, p.col + j), gate);
            load(dy.at(p.row, p.col + j), g);
            load(w + j, gain);
            for (int i = 0; i < V; i++) {
                const float s = quick_sigmoid(gate[i]), silu = gate[i] * s, back = g[i] * gain[i];
                g[i] = r * (back * silu - x[i] * pull);
                gate[i] = back * (x[i] * r) * (s + silu * (1.0f - s));
            }
            store(dout.at(p.row, p.col + j), g);
            store(dz.at(p.row, p.col + j), gate);
        }
}

static plim_status check(plim_device *d, const char *op, const plim_gated_norm_args *a)
{
    TRY(plim_cuda_act(d, op, a->o.dtype));
    TRY(plim_cuda_view(d, op, "o", a->o, PLIM_BF16, a->o.rows, a->o.cols));
    TRY(plim_cuda_view(d, op, "z", a->z, PLIM_BF16, a->o.rows, a->o.cols));
    TRY(plim_cuda_view(d, op, "w", a->w, PLIM_F32, 1, a->w.cols));
    if (a->w.cols > 0 && a->o.cols % a->w.cols == 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %lld columns are no multiple of the gain's %lld", op,
                     (long long)a->o.cols, (long long)a->w.cols);
}

plim_status plim_cuda_gated_norm_fwd(plim_device *d, const plim_gated_norm_args *a)
{
    const int64_t rows = a->o.rows, cols = a->o.cols, dim = a->w.cols;
    TRY(check(d, "gated_norm_fwd", a));
    TRY(plim_cuda_view(d, "gated_norm_fwd", "y", a->y, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    const bool wide = dim % 8 == 0 && (uintptr_t)a->w.data % 16 == 0 && plim_cuda_wide(a->o) &&
                      plim_cuda_wide(a->z) && plim_cuda_wide(a->y);
    PLIM_CUDA_LAUNCH_GROUPS(d, wide, gated_norm_fwd_kernel, rows, cols, dim, rows_view<const bf16>(a->o),
                            rows_view<const bf16>(a->z), (const float *)a->w.data, rows_view<bf16>(a->y),
                            (float)a->eps);
    return plim_cuda_launched(d, "gated_norm_fwd");
}

plim_status plim_cuda_gated_norm_bwd(plim_device *d, const plim_gated_norm_args *a)
{
    const int64_t rows = a->o.rows, cols = a->o.cols, dim = a->w.cols;
    TRY(check(d, "gated_norm_bwd", a));
    TRY(plim_cuda_view(d, "gated_norm_bwd", "dy", a->dy, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, "gated_norm_bwd", "dout", a->dout, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, "gated_norm_bwd", "dz", a->dz, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    const bool wide = dim % 8 == 0 && (uintptr_t)a->w.data % 16 == 0 && plim_cuda_wide(a->o) &&
                      plim_cuda_wide(a->z) && plim_cuda_wide(a->dy) && plim_cuda_wide(a->dout) &&
                      plim_cuda_wide(a->dz);
    PLIM_CUDA_LAUNCH_GROUPS(d, wide, gated_norm_bwd_kernel, rows, cols, dim, rows_view<const bf16>(a->o),
                            rows_view<const bf16>(a->z), (const float *)a->w.data,
                            rows_view<const bf16>(a->dy), rows_view<bf16>(a->dout), rows_view<bf16>(a->dz),
                            (float)a->eps);
    return plim_cuda_launched(d, "gated_norm_bwd");
}
