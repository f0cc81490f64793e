/* instructions.h - the instructions that CUDA C has no name for: bf16 matrix products by warps, their
 * fragments in shared memory, asynchronous copies.  Together with instructions_hopper.h this is all that a
 * CPU has to imitate to run the kernels (tests/emulated_card).
 *
 * Letters of a 16 x 8 x 16 product: a lane is (g, t) = (lane / 4, lane % 4).  Accumulator words 0, 1 are row
 * g, columns 2t, 2t + 1; words 2, 3 row g + 8.  Words of A: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8,
 * 2t + 8..); of B: rows 2t.., then 2t + 8.., column g.  So two neighbouring accumulators, packed, are a
 * fragment of A, and an accumulator of the transposed product holds words of B. */
#ifndef PLIM_OPS_CUDA_INSTRUCTIONS_H
#define PLIM_OPS_CUDA_INSTRUCTIONS_H

#include "ops/cuda/device.h"

/* The block's dynamic shared memory; _panels: on a multiple of 1,024 bytes, as swizzled tiles need it. */
__device__ static inline unsigned char *dynamic_shared()
{
    extern __shared__ __align__(16) unsigned char dynamic_bytes[];
    return dynamic_bytes;
}

__device__ static inline unsigned char *dynamic_panels()
{
    extern __shared__ __align__(1024) unsigned char dynamic_panel_bytes[];
    return dynamic_panel_bytes;
}

__device__ static inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ static inline void store_shared(uint32_t to, uint32_t word)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

/* c += a b */
__device__ static inline void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 blocks; lane l gives the address of row l % 8 of block l / 8.  _t: each block transposed.  By
 * address they are free to move among ordinary loads and stores: for memory that only copies and
 * store_shared() write. */
__device__ static inline void ldsm(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

__device__ static inline void ldsm_t(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

__device__ static inline void ldsm(uint32_t r[4], const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p))
                 : "memory");
}

__device__ static inline void ldsm_t(uint32_t r[4], const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p))
                 : "memory");
}

/* An 8 x 8 block held as (row g, columns 2t, 2t + 1), transposed. */
__device__ static inline uint32_t transpose8(uint32_t x)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* 16 bytes from global to shared memory, zeros unless valid; complete after cp_wait and a barrier. */
__device__ static inline void cp16(uint32_t shared, const void *global, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(valid ? 16 : 0));
}

__device__ static inline void cp16(void *shared, const void *global, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(shared)), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

__device__ static inline void cp_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the last N groups are there. */
template <int N> __device__ static inline void cp_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* exp2, 0 at -inf; a result below 2^-126 is 0. */
__device__ static inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
