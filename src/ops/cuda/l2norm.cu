// l2norm.cu - unit length for the keys and queries of the delta rule, and its gradient.
#include "ops/cuda/groups.h"

static constexpr float L2_EPS = 1e-6f; /* inside the root; the models' own constant */

/* y = scale x / sqrt(sum x^2 + eps) over groups of dim columns; bf16 in and out, fp32 inside.
 * Launch: a few lanes a group, V columns each, 256 threads.  Moves 4 B an element.
 * Sums in a fixed order; one rounding on store.  y may be x: an element is read before it is written. */
template <int V>
static __global__ void l2norm_fwd_kernel(rows_of<const bf16> x, rows_of<bf16> y, float scale, int64_t rows,
                                         int64_t cols, int64_t dim, int lanes)
{
    const group_part p = group_part_of<V>(rows, cols, dim, lanes);
    float sum = 0;
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float v[V];
            load(x.at(p.row, p.col + j), v);
            for (int i = 0; i < V; i++) sum += v[i] * v[i];
        }
    const float r = scale * rsqrtf(group_sum(sum, lanes) + L2_EPS);
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float v[V];
            load(x.at(p.row, p.col + j), v);
            for (int i = 0; i < V; i++) v[i] *= r;
            store(y.at(p.row, p.col + j), v);
        }
}

/* dx = scale r (dy - x r^2 <x, dy>).  Launch: as above.  Moves 6 B an element.  dx may be dy. */
template <int V>
static __global__ void l2norm_bwd_kernel(rows_of<const bf16> x, rows_of<const bf16> dy, rows_of<bf16> dx,
                                         float scale, int64_t rows, int64_t cols, int64_t dim, int lanes)
{
    const group_part p = group_part_of<V>(rows, cols, dim, lanes);
    float sum = 0, dot = 0;
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float v[V], g[V];
            load(x.at(p.row, p.col + j), v);
            load(dy.at(p.row, p.col + j), g);
            for (int i = 0; i < V; i++) sum += v[i] * v[i], dot += v[i] * g[i];
        }
    const float r = rsqrtf(group_sum(sum, lanes) + L2_EPS), pull = r * r * group_sum(dot, lanes);
    if (p.inside)
        for (int64_t j = p.first; j < dim; j += p.step) {
            float v[V], g[V];
            load(x.at(p.row, p.col + j), v);
            load(dy.at(p.row, p.col + j), g);
            for (int i = 0; i < V; i++) g[i] = scale * r * (g[i] - v[i] * pull);
            store(dx.at(p.row, p.col + j), g);
        }
}

static plim_status check(plim_device *d, const char *op, const plim_l2norm_args *a)
{
    TRY(plim_cuda_act(d, op, a->x.dtype));
    TRY(plim_cuda_view(d, op, "x", a->x, PLIM_BF16, a->x.rows, a->x.cols));
    if (a->dim > 0 && a->x.cols % a->dim == 0) return PLIM_OK;
    return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %lld columns are no whole number of groups of %lld", op,
                     (long long)a->x.cols, (long long)a->dim);
}

plim_status plim_cuda_l2norm_fwd(plim_device *d, const plim_l2norm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols;
    TRY(check(d, "l2norm_fwd", a));
    TRY(plim_cuda_view(d, "l2norm_fwd", "y", a->y, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    const bool wide = a->dim % 8 == 0 && plim_cuda_wide(a->x) && plim_cuda_wide(a->y);
    PLIM_CUDA_LAUNCH_GROUPS(d, wide, l2norm_fwd_kernel, rows, cols, a->dim, rows_view<const bf16>(a->x),
                            rows_view<bf16>(a->y), (float)a->scale);
    return plim_cuda_launched(d, "l2norm_fwd");
}

plim_status plim_cuda_l2norm_bwd(plim_device *d, const plim_l2norm_args *a)
{
    const int64_t rows = a->x.rows, cols = a->x.cols;
    TRY(check(d, "l2norm_bwd", a));
    TRY(plim_cuda_view(d, "l2norm_bwd", "dy", a->dy, PLIM_BF16, rows, cols));
    TRY(plim_cuda_view(d, "l2norm_bwd", "dx", a->dx, PLIM_BF16, rows, cols));
    if (rows == 0 || cols == 0) return PLIM_OK;
    const bool wide =
        a->dim % 8 == 0 && plim_cuda_wide(a->x) && plim_cuda_wide(a->dy) && plim_cuda_wide(a->dx);
    PLIM_CUDA_LAUNCH_GROUPS(d, wide, l2norm_bwd_kernel, rows, cols, a->dim, rows_view<const bf16>(a->x),
                            rows_view<const bf16>(a->dy), rows_view<bf16>(a->dx), (float)a->scale);
    return plim_cuda_launched(d, "l2norm_bwd");
}
