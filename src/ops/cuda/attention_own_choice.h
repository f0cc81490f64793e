/* attention_own_choice.h - which of our attention kernels run, and with how much shared memory: pure
 * arithmetic. */
#ifndef PLIM_OPS_CUDA_ATTENTION_OWN_CHOICE_H
#define PLIM_OPS_CUDA_ATTENTION_OWN_CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* rows of both tiles of the dk, dv kernel; stages: buffers of the operands that stream by. */
struct own_choice {
    bool hopper; /* the kernels of capability 9.0 */
    int fwd_warps, dkv_rows, dq_warps, dq_keys;
    int dkv_stages, dq_stages;
    size_t fwd_bytes, dkv_bytes, dq_bytes; /* of dynamic shared memory */
};

/* Head sizes are zero-padded to 64, 128 or 256. */
int own_padded_dim(int64_t dim);

/* shared_bytes: what one block may have on this card; hopper: the card runs the kernels of capability 9.0. */
own_choice own_choose(int padded_dim, size_t shared_bytes, bool hopper);

#endif
