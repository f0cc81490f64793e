// attention_cudnn_plans.cu - cuDNN's handle and the plans built so far, kept by shape.
#include "ops/cuda/attention_cudnn_plan.h"
#include "ops/cuda/attention_parts.h"

#ifdef PLIM_HAVE_CUDNN

#include <string.h>

plim_status plim_cudnn_attention_open(plim_device *d)
{
    TRY(plim_alloc(d->ctx, 1, sizeof *d->cudnn, "cuDNN's plans", &d->cudnn));
    cudnnStatus_t s = d->lib.cudnnCreate(&d->cudnn->handle);
    if (s == CUDNN_STATUS_SUCCESS) s = d->lib.cudnnSetStream(d->cudnn->handle, d->compute);
    return s ? plim_cudnn_fail(d, s, "opening", "") : PLIM_OK;
}

static void free_plan(plim_device *d, cudnn_plan *p)
{
    if (p->plan) d->lib.cudnnBackendDestroyDescriptor(p->plan);
    graph_close(&p->parts);
    memset(p, 0, sizeof *p);
}

void plim_cudnn_attention_close(plim_device *d)
{
    if (!d->cudnn) return;
    for (cudnn_plan &p : d->cudnn->slot) free_plan(d, &p);
    if (d->cudnn->handle) d->lib.cudnnDestroy(d->cudnn->handle);
    plim_release(d->ctx, d->cudnn);
    d->cudnn = NULL;
}

static plim_status build(plim_device *d, const cudnn_key *key, cudnn_plan *p)
{
    memset(p, 0, sizeof *p);
    p->parts.lib = &d->lib;
    if (key->backward) plim_cudnn_describe_bwd(&p->parts, key);
    else plim_cudnn_describe_fwd(&p->parts, key);
    p->plan = graph_plan(&p->parts, d->cudnn->handle, &p->workspace_bytes);
    p->key = *key;
    if (p->plan) return PLIM_OK;
    graph one = p->parts;
    free_plan(d, p);
    return plim_cudnn_fail(d, one.status, one.where, one.why);
}

plim_status plim_cudnn_plan_get(plim_device *d, const cudnn_key *key, cudnn_plan **out)
{
    plim_cudnn_plans *c = d->cudnn;
    cudnn_plan *oldest = &c->slot[0];
    for (cudnn_plan &p : c->slot) {
        if (p.plan && memcmp(&p.key, key, sizeof *key) == 0) {
            p.used = ++c->clock;
            *out = &p;
            return PLIM_OK;
        }
        if (p.used < oldest->used) oldest = &p; /* a free slot was never used */
    }
    free_plan(d, oldest);
    TRY(build(d, key, oldest));
    oldest->used = ++c->clock;
    *out = oldest;
    return PLIM_OK;
}

#endif
