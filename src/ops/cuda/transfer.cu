// transfer.cu - copies over the host link, beside the compute stream.
#include "ops/cuda/device.h"

/* Rows of equal length, pitched on both sides. */
static plim_status copy_rows(plim_device *d, plim_tensor from, plim_tensor to, cudaMemcpyKind kind,
                             cudaStream_t stream)
{
    size_t width = plim_dtype_bytes(from.dtype);
    if (from.rows == 0 || from.cols == 0) return PLIM_OK;
    if (from.pitch == from.cols && to.pitch == to.cols) {
        CUDA_TRY(d,
                 cudaMemcpyAsync(to.data, from.data, (size_t)(from.rows * from.cols) * width, kind, stream),
                 "a copy");
        return PLIM_OK;
    }
    CUDA_TRY(d,
             cudaMemcpy2DAsync(to.data, (size_t)to.pitch * width, from.data, (size_t)from.pitch * width,
                               (size_t)from.cols * width, (size_t)from.rows, kind, stream),
             "a copy");
    return PLIM_OK;
}

static plim_status beside(plim_device *d, const char *op, plim_tensor from, plim_tensor to,
                          cudaMemcpyKind kind, cudaStream_t stream, int event)
{
    if (event < 0 || event >= PLIM_EVENTS) return plim_fail(d->ctx, PLIM_E_RANGE, "%s: event %d", op, event);
    TRY(plim_cuda_view(d, op, "to", to, from.dtype, from.rows, from.cols));
    CUDA_TRY(d, cudaEventRecord(d->ready, d->compute), op);
    CUDA_TRY(d, cudaStreamWaitEvent(stream, d->ready, 0), op);
    TRY(copy_rows(d, from, to, kind, stream));
    CUDA_TRY(d, cudaEventRecord(d->event[event], stream), op);
    return PLIM_OK;
}

plim_status plim_cuda_offload(plim_device *d, plim_tensor x, plim_tensor host, int event)
{
    return beside(d, "offload", x, host, cudaMemcpyDeviceToHost, d->out, event);
}

plim_status plim_cuda_fetch(plim_device *d, plim_tensor host, plim_tensor x, int event)
{
    return beside(d, "fetch", host, x, cudaMemcpyHostToDevice, d->in, event);
}

plim_status plim_cuda_wait(plim_device *d, int event)
{
    if (event < 0 || event >= PLIM_EVENTS) return plim_fail(d->ctx, PLIM_E_RANGE, "wait: event %d", event);
    CUDA_TRY(d, cudaStreamWaitEvent(d->compute, d->event[event], 0), "waiting for a copy");
    return PLIM_OK;
}

plim_status plim_cuda_settle(plim_device *d, int event)
{
    if (event < 0 || event >= PLIM_EVENTS) return plim_fail(d->ctx, PLIM_E_RANGE, "settle: event %d", event);
    CUDA_TRY(d, cudaEventSynchronize(d->event[event]), "waiting for a copy");
    return PLIM_OK;
}

plim_status plim_cuda_read(plim_device *d, const void *device, void *host, size_t bytes)
{
    CUDA_TRY(d, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, d->compute), "reading back");
    cudaStream_t const streams[] = {d->compute, d->out, d->in};
    for (cudaStream_t s : streams) CUDA_TRY(d, cudaStreamSynchronize(s), "waiting for the card");
    return PLIM_OK;
}

/* The source may be pageable: CUDA has taken it in when this returns, and it may be reused. */
plim_status plim_cuda_write(plim_device *d, const void *host, void *device, size_t bytes)
{
    CUDA_TRY(d, cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, d->compute), "writing a table");
    return PLIM_OK;
}
