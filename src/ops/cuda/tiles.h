/* tiles.h - bf16 matrix products by warps: fragments, shared memory, asynchronous loads.
 *
 * Letters of a 16 x 8 x 16 product: a lane is (g, t) = (lane / 4, lane % 4).  Accumulator words 0, 1 are row
 * g, columns 2t, 2t + 1; words 2, 3 row g + 8.  Words of A: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8,
 * 2t + 8..); of B: rows 2t.., then 2t + 8.., column g.  So two neighbouring accumulators, packed, are a
 * fragment of A, and an accumulator of the transposed product holds words of B. */
#ifndef PLIM_OPS_CUDA_TILES_H
#define PLIM_OPS_CUDA_TILES_H

#include "ops/cuda/device.h"

__device__ static inline uint32_t pack(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t &>(pair);
}

__device__ static inline float2 unpack(uint32_t word)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

/* c += a b */
__device__ static inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 blocks; lane l gives the address of row l % 8 of block l / 8.  _t: each block transposed. */
__device__ static inline void ldsm(uint32_t (&r)[4], const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(p))
                 : "memory");
}

__device__ static inline void ldsm_t(uint32_t (&r)[4], const bf16 *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(p))
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
__device__ static inline void cp16(void *shared, const void *global, bool valid)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "l"(global), "r"(valid ? 16 : 0)
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

#endif
