/* delta_walk.h - in which order a block of a scan visits the chunks of a tile.
 *
 * Documents inside a tile do not depend on each other: blocks share them out.  A segment is what one document
 * has of the tile.  Positions count chunks in the scan's direction (from the end in the backward pass).  Only
 * when state comes in, and the last segment would overwrite it for the block that still has to read it, does
 * one block take the first segment and the last; position 0 is always block 0's. */
#ifndef PLIM_OPS_CUDA_DELTA_WALK_H
#define PLIM_OPS_CUDA_DELTA_WALK_H

#include "ops/cuda/delta.h"

enum { LOADERS = 128 }; /* threads that fill the stages */

/* What a scan's stage is about; position -1: no more. */
struct delta_step {
    int chunk, position, first, rows, restarts; /* restarts: the carried value is 0 here */
};

template <bool REVERSE> struct delta_walk {
    int position, segment, segments, owner, owners;
    bool carried;
    plim_chunk ahead; /* of position: read before it is asked for */

    __device__ int chunk_of(const delta_view &a, int at) const
    {
        return REVERSE ? a.chunk_count - 1 - at : at;
    }
    __device__ static bool restarts(const plim_chunk &c)
    {
        return REVERSE ? c.ends_document != 0 : c.starts_document != 0;
    }
    __device__ void look(const delta_view &a)
    {
        if (position < a.chunk_count) ahead = a.chunks[chunk_of(a, position)];
    }

    /* A warp calls these; every lane gets the same. */
    __device__ void open(const delta_view &a, int which, int of)
    {
        int starts = 0;
        for (int at = 1 + (threadIdx.x & 31); at < a.chunk_count; at += 32)
            starts += restarts(a.chunks[chunk_of(a, at)]);
        for (int i = 16; i > 0; i >>= 1) starts += __shfl_xor_sync(0xffffffffu, starts, i);
        segments = 1 + starts;
        carried = !restarts(a.chunks[chunk_of(a, 0)]);
        position = 0, segment = -1;
        owner = which, owners = of;
        look(a);
    }

    __device__ bool mine(int s) const
    {
        return (carried && s == segments - 1 ? 0 : s % owners) == owner;
    }

    __device__ delta_step next(const delta_view &a)
    {
        while (position < a.chunk_count) {
            segment += position == 0 || restarts(ahead);
            if (mine(segment)) {
                const delta_step s = {chunk_of(a, position), position, ahead.first, ahead.rows,
                                      restarts(ahead)};
                position++;
                look(a);
                return s;
            }
            position++; /* past the rest of the segment */
            for (unsigned hit = 0; !hit; position += hit ? __ffs((int)hit) - 1 : 32) {
                const int at = position + (threadIdx.x & 31);
                hit = __ballot_sync(0xffffffffu, at >= a.chunk_count || restarts(a.chunks[chunk_of(a, at)]));
            }
            look(a);
        }
        return {0, -1, 0, 0, 0};
    }
};

/* How many blocks share a tile's documents. */
static inline unsigned plim_cuda_delta_owners(int64_t chunk_count)
{
    return chunk_count < 8 ? (unsigned)chunk_count : 8;
}

#endif
