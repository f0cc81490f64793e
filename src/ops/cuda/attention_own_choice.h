/* attention_own_choice.h - which of our attention kernels run, and with how much shared memory: pure
 * arithmetic. For C and CUDA. */
#ifndef PLIM_OPS_CUDA_ATTENTION_OWN_CHOICE_H
#define PLIM_OPS_CUDA_ATTENTION_OWN_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Beside the dynamic shared memory, what the dk, dv kernels declare. */
#define OWN_DKV_STATIC_BYTES    1024
#define HOPPER_DKV_STATIC_BYTES 9216

/* rows of both tiles of the dk, dv kernel; stages: buffers of the operands that stream by. */
typedef struct own_choice {
    bool hopper; /* the kernels of capability 9.0 */
    int fwd_warps, dkv_rows, dq_warps, dq_keys;
    int dkv_stages, dq_stages;
    size_t fwd_bytes, dkv_bytes, dq_bytes; /* of dynamic shared memory */
} own_choice;

/* Head sizes are zero-padded to 64, 128 or 256. */
static inline int own_padded_dim(int64_t dim)
{
    return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

/* Tiles as large as the registers carry, then a second buffer where shared memory has room.  A head of up to
 * 64 leaves the tensor cores of 9.0 waiting either way, and has the older kernels. shared_bytes: what one
 * block may have on this card; hopper: the card runs the kernels of capability 9.0. */
static inline own_choice own_choose(int padded_dim, size_t shared_bytes, bool hopper)
{
    const size_t row = (size_t)padded_dim * 2;
    own_choice c = {false, 4, 64, 4, 64, 1, 1, 0, 0, 0};
    if (hopper && padded_dim >= 128) {
        own_choice h = {
            true, 8, 64, 8, 64, 4, 2, (128 + 4 * 64) * row, 4 * 64 * row, (2 * 128 + 3 * 64) * row};
        return h;
    }
    if (padded_dim == 256) {
        if (256 * row <= shared_bytes) c.fwd_warps = 8;
        if (4 * 64 * row + 2 * 64 * 128 + OWN_DKV_STATIC_BYTES > shared_bytes) c.dkv_rows = 32;
        c.dq_warps = 320 * row <= shared_bytes ? 8 : 4;
        c.dq_keys = 384 * row <= shared_bytes ? 64 : 32;
    }
    const size_t fwd_rows = (size_t)c.fwd_warps * 16, dq_rows = (size_t)c.dq_warps * 16;
    const size_t side = (size_t)c.dkv_rows, keys = (size_t)c.dq_keys;
    c.fwd_bytes = (fwd_rows + 2 * 64) * row;
    c.dkv_bytes = 4 * side * row + 2 * side * 128;
    if (c.dkv_bytes + 2 * side * row + OWN_DKV_STATIC_BYTES <= shared_bytes) {
        c.dkv_bytes += 2 * side * row;
        c.dkv_stages = 2;
    }
    c.dq_bytes = (2 * dq_rows + 2 * keys) * row;
    if (c.dq_bytes + keys * row <= shared_bytes) {
        c.dq_bytes += keys * row;
        c.dq_stages = 2;
    }
    return c;
}

#endif
