/* device.h - the CPU as a plim_device: its context, its threads, and one bounded scratch a thread.
 *
 * All threads are OpenMP's.  OpenBLAS is called from inside them and told to stay single-threaded, so that
 * two pools never fight over the cores and results do not depend on how many threads there are: every
 * operation splits its work by shape alone.  Scratch is taken once, at plim_cpu_open; operations allocate
 * nothing. */
#ifndef PLIM_OPS_CPU_DEVICE_H
#define PLIM_OPS_CPU_DEVICE_H

#include <omp.h>

#include "base/context.h"
#include "ops/ops.h"

#define PLIM_CPU_MAX_THREADS 128
#define PLIM_CPU_SCRATCH_BYTES                                                                               \
    ((size_t)6 << 20)         /* a thread; what the widest attention tile takes in double */
#define PLIM_CPU_SERIAL 16384 /* elements below which waking threads costs more than it saves */

struct plim_device {
    plim_ctx *ctx;
    int threads;
    int blas_threads_before; /* OpenBLAS's own count at open, given back at close */
    char *scratch;           /* threads * PLIM_CPU_SCRATCH_BYTES, 64-byte aligned */
};

/* The calling thread's scratch, inside a parallel region of at most d->threads or outside of any. */
static inline void *plim_cpu_scratch(const plim_device *d)
{
    return d->scratch + (size_t)omp_get_thread_num() * PLIM_CPU_SCRATCH_BYTES;
}

/* Threads for a loop over work elements in all. */
static inline int plim_cpu_threads(const plim_device *d, int64_t work)
{
    return work < PLIM_CPU_SERIAL ? 1 : d->threads;
}

static inline bool plim_cpu_is_float(plim_dtype t)
{
    return t == PLIM_F32 || t == PLIM_BF16 || t == PLIM_F64;
}

/* STAT of a run whose activations are act. */
static inline plim_dtype plim_cpu_stat(plim_dtype act)
{
    return act == PLIM_F64 ? PLIM_F64 : PLIM_F32;
}

/* Element (row, 0) and (row, col) of a view. */
static inline void *plim_cpu_at(plim_tensor t, int64_t row, int64_t col)
{
    return (char *)t.data + (size_t)(row * t.pitch + col) * plim_dtype_bytes(t.dtype);
}

static inline void *plim_cpu_row(plim_tensor t, int64_t row)
{
    return plim_cpu_at(t, row, 0);
}

/* PLIM_E_SHAPE, naming op and view, unless t is rows x cols of dtype with pitch >= cols and, when it is not
 * empty, memory. */
plim_status plim_cpu_view(const plim_device *d, const char *op, const char *name, plim_tensor t,
                          plim_dtype dtype, int64_t rows, int64_t cols);

/* PLIM_E_SHAPE unless act is a dtype activations may have. */
plim_status plim_cpu_act(const plim_device *d, const char *op, plim_dtype act);

/* PLIM_E_SHAPE unless the documents are in order and cover rows 0 .. tokens - 1. */
plim_status plim_cpu_docs(const plim_device *d, const char *op, const plim_docs *docs, int64_t tokens);

#endif
