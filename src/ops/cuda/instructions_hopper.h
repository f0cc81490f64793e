/* instructions_hopper.h - instructions of capability 9.0: matrix products by a warp group whose right
 * operand, and mostly the left too, is read from shared memory by the tensor cores themselves. */
#ifndef PLIM_OPS_CUDA_INSTRUCTIONS_HOPPER_H
#define PLIM_OPS_CUDA_INSTRUCTIONS_HOPPER_H

#include "ops/cuda/instructions.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* What was copied, but for the last PENDING commits, is there for the tensor cores of every warp after the
 * barrier. */
template <int PENDING> __device__ static inline void panels_ready()
{
    cp_wait<PENDING>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

/* An operand whose neighbours are worked out anew each time: kept, they would fill the registers. */
__device__ static inline uint64_t afresh(uint64_t x)
{
    asm volatile("" : "+l"(x));
    return x;
}

__device__ static inline void group_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void group_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> __device__ static inline void group_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* The same as group_wait<0>(), and never merged with another: the compiler leaves it in its branch. */
__device__ static inline void group_wait_apart()
{
    asm volatile("wgmma.wait_group.sync.aligned 0; // apart" ::: "memory");
}

/* Keeps uses of c after the wait above it, and what makes c before the wait below. */
template <int N> __device__ static inline void settle(float (&c)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(c[i])::"memory");
}

/* c [64, 64] = or += (by add) a b^T over 16 columns of both tiles. */
__device__ static inline void group_multiply(float (&c)[32], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, add, 1, 1, 0, 0; }"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
                   "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
                   "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
                   "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                   "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
                 : "l"(a), "l"(b), "r"((int)add));
}

/* c [64, 128] += a b: a [64, 16] in registers, b a tile of 16 rows. */
__device__ static inline void group_multiply_own(float (&c)[64], const uint32_t (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
                   "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
                   "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
                   "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                   "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]),
                   "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
                   "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
                   "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
                   "+f"(c[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* c [64, 32] = or += (by add) a b^T: a [64, 16] in registers, b 16 columns of a tile of 32 rows. */
__device__ static inline void group_multiply_held(float (&c)[16], const uint32_t (&a)[4], uint64_t b,
                                                  bool add)
{
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %21, 0; "
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, add, 1, 1, 0; }"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
                   "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
                   "+f"(c[14]), "+f"(c[15])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

/* A barrier of 256 threads of which half only arrive. */
__device__ static inline void pair_arrive()
{
    asm volatile("bar.arrive 1, 256;" ::: "memory");
}

__device__ static inline void pair_sync()
{
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

#endif
#endif
