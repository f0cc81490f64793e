// decay.cu - from two projections to the decay and the write strength of the delta rule, and back.
#include "ops/cuda/elements.h"

__device__ static inline float softplus(float x)
{
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

/* g = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(bl); all fp32.  ba holds bl, then a.
 * Launch: rows x heads, V a thread.  Moves 16 B a row and head.  Full-range exp and log1p. */
template <int V>
static __global__ void decay_fwd_kernel(rows_of<const float> ba, const float *a_log, const float *dt_bias,
                                        rows_of<float> g, rows_of<float> beta, int64_t rows, int64_t heads)
{
    PLIM_CUDA_EACH(i, h, rows, heads, V)
    {
        float bl[V], a[V], rate[V], bias[V];
        load(ba.at(i, h), bl);
        load(ba.at(i, heads + h), a);
        load(a_log + h, rate);
        load(dt_bias + h, bias);
        for (int v = 0; v < V; v++) {
            a[v] = -expf(rate[v]) * softplus(a[v] + bias[v]);
            bl[v] = 1.0f / (1.0f + expf(-bl[v]));
        }
        store(g.at(i, h), a);
        store(beta.at(i, h), bl);
    }
}

/* dba = [dbl, -exp(a_log) sigmoid(a + dt_bias) dg], rounded to bf16.
 * Launch: as above.  Moves 16 B a row and head. */
template <int V>
static __global__ void decay_bwd_kernel(rows_of<const float> ba, const float *a_log, const float *dt_bias,
                                        rows_of<const float> dg, rows_of<const float> dbl, rows_of<bf16> dba,
                                        int64_t rows, int64_t heads)
{
    PLIM_CUDA_EACH(i, h, rows, heads, V)
    {
        float a[V], rate[V], bias[V], slope[V], write[V];
        load(ba.at(i, heads + h), a);
        load(a_log + h, rate);
        load(dt_bias + h, bias);
        load(dg.at(i, h), slope);
        load(dbl.at(i, h), write);
        for (int v = 0; v < V; v++) slope[v] *= -expf(rate[v]) / (1.0f + expf(-(a[v] + bias[v])));
        store(dba.at(i, h), write);
        store(dba.at(i, heads + h), slope);
    }
}

static plim_status check(plim_device *d, const char *op, const plim_decay_args *a, int64_t rows,
                         int64_t heads)
{
    TRY(plim_cuda_view(d, op, "ba", a->ba, PLIM_F32, rows, 2 * heads));
    TRY(plim_cuda_view(d, op, "a_log", a->a_log, PLIM_F32, 1, heads));
    return plim_cuda_view(d, op, "dt_bias", a->dt_bias, PLIM_F32, 1, heads);
}

/* The second half of ba starts heads columns later, and has to be aligned too. */
static bool wide_inputs(const plim_decay_args *a, int64_t heads)
{
    return heads % 8 == 0 && plim_cuda_wide(a->ba) && (uintptr_t)a->a_log.data % 16 == 0 &&
           (uintptr_t)a->dt_bias.data % 16 == 0;
}

plim_status plim_cuda_decay_fwd(plim_device *d, const plim_decay_args *a)
{
    const int64_t rows = a->g.rows, heads = a->g.cols;
    TRY(check(d, "decay_fwd", a, rows, heads));
    TRY(plim_cuda_view(d, "decay_fwd", "g", a->g, PLIM_F32, rows, heads));
    TRY(plim_cuda_view(d, "decay_fwd", "beta", a->beta, PLIM_F32, rows, heads));
    if (rows == 0 || heads == 0) return PLIM_OK;
    const bool wide = wide_inputs(a, heads) && plim_cuda_wide(a->g) && plim_cuda_wide(a->beta);
    PLIM_CUDA_LAUNCH_ROWS(d, wide, decay_fwd_kernel, rows, heads, rows_view<const float>(a->ba),
                          (const float *)a->a_log.data, (const float *)a->dt_bias.data,
                          rows_view<float>(a->g), rows_view<float>(a->beta));
    return plim_cuda_launched(d, "decay_fwd");
}

plim_status plim_cuda_decay_bwd(plim_device *d, const plim_decay_args *a)
{
    const int64_t rows = a->dg.rows, heads = a->dg.cols;
    TRY(plim_cuda_act(d, "decay_bwd", a->dba.dtype));
    TRY(check(d, "decay_bwd", a, rows, heads));
    TRY(plim_cuda_view(d, "decay_bwd", "dg", a->dg, PLIM_F32, rows, heads));
    TRY(plim_cuda_view(d, "decay_bwd", "dbl", a->dbl, PLIM_F32, rows, heads));
    TRY(plim_cuda_view(d, "decay_bwd", "dba", a->dba, PLIM_BF16, rows, 2 * heads));
    if (rows == 0 || heads == 0) return PLIM_OK;
    const bool wide =
        wide_inputs(a, heads) && plim_cuda_wide(a->dg) && plim_cuda_wide(a->dbl) && plim_cuda_wide(a->dba);
    PLIM_CUDA_LAUNCH_ROWS(d, wide, decay_bwd_kernel, rows, heads, rows_view<const float>(a->ba),
                          (const float *)a->a_log.data, (const float *)a->dt_bias.data,
                          rows_view<const float>(a->dg), rows_view<const float>(a->dbl),
                          rows_view<bf16>(a->dba));
    return plim_cuda_launched(d, "decay_bwd");
}
