/* staged_sink.c - decides when a staging half may be used again: when the copy it was given has left it. */
#include "train/staged_sink.h"

#include <string.h>

#include "base/context.h"

#define BLOCK_BYTES ((size_t)64 << 20) /* most at once: the first copy should not wait for the whole half */

static bool on_host(const plim_engine *e, plim_tensor t)
{
    const char *base = e->memory.host.base, *at = t.data;
    return base && at >= base && at < base + e->planned_host_bytes;
}

static size_t half_bytes(const plim_engine *e)
{
    return (size_t)e->step->staging[0].cols;
}

static plim_status take(void *user, size_t bytes, void **out)
{
    plim_staged_sink *k = user;
    plim_engine *e = k->engine;
    if (bytes > half_bytes(e))
        return plim_fail(e->ctx, PLIM_E_RANGE,
                         "a block of %zu bytes of weights does not fit the %zu of half the staging memory",
                         bytes, half_bytes(e));
    if (k->busy[k->next]) TRY(e->ops->settle(e->device, k->next));
    k->busy[k->next] = false;
    *out = e->step->staging[k->next].data;
    return PLIM_OK;
}

static plim_status put_rows(void *user, plim_tensor to, const void *rows)
{
    plim_staged_sink *k = user;
    plim_engine *e = k->engine;
    plim_tensor from = {e->step->staging[k->next].data, to.dtype, to.rows, to.cols, to.cols};
    if (on_host(e, to)) return plim_weight_sink_host().put_rows(NULL, to, rows);
    TRY(e->ops->fetch(e->device, from, to, k->next));
    k->busy[k->next] = true;
    k->next = 1 - k->next;
    return PLIM_OK;
}

static plim_status zero(void *user, plim_tensor view)
{
    plim_staged_sink *k = user;
    plim_engine *e = k->engine;
    plim_fill_args fill = {.x = view};
    if (!on_host(e, view)) return e->ops->fill(e->device, &fill);
    for (int64_t i = 0; i < view.rows; i++)
        memset(plim_tensor_rows(view, i, 1).data, 0, (size_t)view.cols * plim_dtype_bytes(view.dtype));
    return PLIM_OK;
}

static plim_status fill(void *user, const plim_fill_args *a, bool *done)
{
    plim_staged_sink *k = user;
    plim_engine *e = k->engine;
    *done = !on_host(e, a->x);
    return *done ? e->ops->fill(e->device, a) : PLIM_OK;
}

static plim_status finish(void *user)
{
    plim_staged_sink *k = user;
    plim_engine *e = k->engine;
    for (int i = 0; i < 2; i++) {
        if (k->busy[i]) TRY(e->ops->settle(e->device, i));
        k->busy[i] = false;
    }
    return PLIM_OK;
}

plim_weight_sink plim_weight_sink_staged(plim_engine *e, plim_staged_sink *state)
{
    *state = (plim_staged_sink){.engine = e};
    size_t half = half_bytes(e);
    return (plim_weight_sink){.put_rows = put_rows,
                              .take = take,
                              .block_bytes = half < BLOCK_BYTES ? half : BLOCK_BYTES,
                              .zero = zero,
                              .fill = fill,
                              .finish = finish,
                              .user = state};
}
