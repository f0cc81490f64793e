// attention_own.cu - our own attention: which kernels a card and a head size get, and their launches.
#include "ops/cuda/attention_hopper.cuh"
#include "ops/cuda/attention_own.cuh"
#include "ops/cuda/attention_own_choice.h"
#include "ops/cuda/attention_parts.h"

#define MOST_BLOCKS 65535 /* of a grid's second dimension */

static own_choice choose(const plim_device *d, int padded_dim)
{
    return own_choose(padded_dim, d->prop.sharedMemPerBlockOptin, d->attention_hopper);
}

static own_kernel *fwd_kernel(int dim, const own_choice *c)
{
    return c->hopper ? hopper_fwd_kernel(dim) : own_fwd_kernel(dim, c->fwd_warps);
}

static own_kernel *dkv_kernel(int dim, const own_choice *c)
{
    return c->hopper ? hopper_dkv_kernel(dim) : own_dkv_kernel(dim, c->dkv_rows);
}

static own_kernel *dq_kernel(int dim, const own_choice *c)
{
    return c->hopper ? hopper_dq_kernel(dim) : own_dq_kernel(dim, c->dq_warps, c->dq_keys);
}

static plim_status allow(plim_device *d, own_kernel *kernel, size_t bytes)
{
    CUDA_TRY(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
             "loading the attention kernels");
    return PLIM_OK;
}

plim_status plim_cuda_attention_own_open(plim_device *d)
{
    static const int padded[] = {64, 128, 256};
    if (d->prop.major == 9 && d->prop.minor == 0) {
        cudaFuncAttributes kernel;
        CUDA_TRY(d, cudaFuncGetAttributes(&kernel, hopper_fwd_kernel(256)), "loading the attention kernels");
        d->attention_hopper = kernel.maxThreadsPerBlock >= HOPPER_THREADS; /* else built without a body */
    }
    for (int dim : padded) {
        const own_choice c = choose(d, dim);
        TRY(allow(d, fwd_kernel(dim, &c), c.fwd_bytes));
        TRY(allow(d, dkv_kernel(dim, &c), c.dkv_bytes));
        TRY(allow(d, dq_kernel(dim, &c), c.dq_bytes));
    }
    return PLIM_OK;
}

static own_view view(plim_tensor t)
{
    return {(bf16 *)t.data, t.pitch};
}

static own_attention arguments(const plim_attention_args *a)
{
    own_attention p = {};
    p.q = view(a->q);
    p.k = view(a->k);
    p.v = view(a->v);
    p.o = view(a->o);
    p.dout = view(a->dout);
    p.dq = view(a->dq);
    p.dk = view(a->dk);
    p.dv = view(a->dv);
    p.lse = (float *)a->lse.data;
    p.lse_pitch = a->lse.pitch;
    p.delta = (const float *)a->delta.data;
    p.delta_pitch = a->delta.pitch;
    p.start = a->docs.start;
    p.documents = a->docs.count;
    p.rows = (int)a->q.rows;
    p.heads = (int)a->heads;
    p.kv_heads = (int)a->kv_heads;
    p.dim = (int)a->head_dim;
    p.scale = (float)a->scale;
    return p;
}

static plim_status launch(plim_device *d, const char *name, own_kernel *kernel, const own_attention *p,
                          int lanes, int block_rows, int warps, size_t bytes)
{
    const int64_t blocks = ((int64_t)p->rows + block_rows - 1) / block_rows;
    if (blocks > MOST_BLOCKS)
        return plim_fail(d->ctx, PLIM_E_SHAPE, "%s: %d rows; to %d would work", name, p->rows,
                         MOST_BLOCKS * block_rows);
    PLIM_LAUNCH(kernel, dim3((unsigned)lanes, (unsigned)blocks), warps * 32, bytes, d->compute)(*p);
    return plim_cuda_launched(d, name);
}

plim_status plim_cuda_attention_own_fwd(plim_device *d, const plim_attention_args *a)
{
    const int dim = own_padded_dim(a->head_dim);
    const own_choice c = choose(d, dim);
    const own_attention p = arguments(a);
    return launch(d, "attention_fwd", fwd_kernel(dim, &c), &p, p.heads, c.fwd_warps * 16, c.fwd_warps,
                  c.fwd_bytes);
}

plim_status plim_cuda_attention_own_bwd(plim_device *d, const plim_attention_args *a)
{
    const int dim = own_padded_dim(a->head_dim);
    const own_choice c = choose(d, dim);
    own_attention p = arguments(a);
    p.stages = c.dkv_stages;
    TRY(launch(d, "attention_bwd: dk, dv", dkv_kernel(dim, &c), &p, p.kv_heads, c.dkv_rows, c.dkv_rows / 8,
               c.dkv_bytes));
    p.stages = c.dq_stages;
    return launch(d, "attention_bwd: dq", dq_kernel(dim, &c), &p, p.heads, c.dq_warps * 16, c.dq_warps,
                  c.dq_bytes);
}
