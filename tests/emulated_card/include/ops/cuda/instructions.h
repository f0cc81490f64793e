/* instructions.h - stands before src/ops/cuda/instructions.h: the same functions, computed on the CPU by the
 * lanes of a warp together (matrices.cpp, copies_async.cpp). */
#ifndef PLIM_OPS_CUDA_INSTRUCTIONS_H
#define PLIM_OPS_CUDA_INSTRUCTIONS_H

#include "ops/cuda/device.h"

unsigned char *dynamic_shared();
unsigned char *dynamic_panels();
uint32_t smem_address(const void *p);
void store_shared(uint32_t to, uint32_t word);

void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void ldsm(uint32_t r[4], uint32_t at);
void ldsm_t(uint32_t r[4], uint32_t at);
static inline void ldsm(uint32_t r[4], const bf16 *p)
{
    ldsm(r, smem_address(p));
}
static inline void ldsm_t(uint32_t r[4], const bf16 *p)
{
    ldsm_t(r, smem_address(p));
}
uint32_t transpose8(uint32_t x);

void cp16(uint32_t shared, const void *global, bool valid);
static inline void cp16(void *shared, const void *global, bool valid)
{
    cp16(smem_address(shared), global, valid);
}
void cp_commit();
void emulated_cp_wait(int left);
template <int N> static inline void cp_wait()
{
    emulated_cp_wait(N);
}

static inline float exp2_fast(float x)
{
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0 : y;
}

#endif
