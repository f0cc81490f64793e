/* instructions_hopper.h - stands before src/ops/cuda/instructions_hopper.h (matrices_hopper.cpp). */
#ifndef PLIM_OPS_CUDA_INSTRUCTIONS_HOPPER_H
#define PLIM_OPS_CUDA_INSTRUCTIONS_HOPPER_H

#include "ops/cuda/instructions.h"

template <int PENDING> static inline void panels_ready()
{
    cp_wait<PENDING>();
    __syncthreads();
}

static inline uint64_t afresh(uint64_t x)
{
    return x;
}

static inline void group_begin()
{
}
void group_commit();
void emulated_group_wait(int left);
template <int LEFT> static inline void group_wait()
{
    emulated_group_wait(LEFT);
}
static inline void group_wait_apart()
{
    emulated_group_wait(0);
}
template <int N> static inline void settle(float (&)[N])
{
}

void group_multiply(float (&c)[32], uint64_t a, uint64_t b, bool add);
void group_multiply_own(float (&c)[64], const uint32_t (&a)[4], uint64_t b);
void group_multiply_held(float (&c)[16], const uint32_t (&a)[4], uint64_t b, bool add);

void pair_arrive();
void pair_sync();

#endif
