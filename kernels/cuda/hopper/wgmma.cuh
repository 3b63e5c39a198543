#pragma once
// Products of a warpgroup on the tensor cores, bf16 in, fp32 out: D[64 x N] (+)= A[64 x 16] B[16 x N]. All 128 threads
// call.
//
// Products run beside the threads, in the order they were called. Accumulators and operands in registers must not be
// touched between begin_products() and the wait_products() that covers them; arrays are indexed by constants only.

#include <cstdint>

#include "kernels/cuda/hopper/layout.hpp"

namespace oomb::kernels::cuda::hopper {

// Registers written by this thread may be read by the products that follow.
__device__ inline void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Products since the last end are one group.
__device__ inline void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// The compiler may not move accesses to `registers` across this point, which it cannot see to matter.
template <int kCount>
__device__ inline void pin(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}
template <int kSteps>
__device__ inline void pin(std::uint32_t (&registers)[kSteps][4]) {
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) {
        asm volatile("" : "+r"(registers[i / 4][i % 4])::"memory");
    }
}
// All groups but the last `kPending` are done; `registers` are those that they wrote or read.
template <int kPending, class... Registers>
__device__ inline void wait_products(Registers&... registers) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
    (pin(registers), ...);
}

#define OOMB_WGMMA_8(d, i)                                                                                          \
    "+f"(d[i + 0]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define OOMB_WGMMA_32(d, i) OOMB_WGMMA_8(d, i), OOMB_WGMMA_8(d, i + 8), OOMB_WGMMA_8(d, i + 16), OOMB_WGMMA_8(d, i + 24)
#define OOMB_WGMMA_D32                                                        \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define OOMB_WGMMA_D64                                                                 \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

template <int kColumns>
struct Product;

template <>
struct Product<64> {
    template <Summed kA, Summed kB>
    static __device__ void add(float (&d)[32], std::uint64_t a, std::uint64_t b, bool accumulate) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.b32 p, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " OOMB_WGMMA_D32
            ", %32, %33, p, 1, 1, %35, %36;\n"
            "}\n"
            : OOMB_WGMMA_32(d, 0)
            : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(kA)), "n"(int(kB)));
    }
    template <Summed kB>
    static __device__ void add(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.b32 p, %37, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " OOMB_WGMMA_D32
            ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n"
            "}\n"
            : OOMB_WGMMA_32(d, 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(kB)));
    }
};

template <>
struct Product<128> {
    template <Summed kA, Summed kB>
    static __device__ void add(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.b32 p, %66, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " OOMB_WGMMA_D64
            ", %64, %65, p, 1, 1, %67, %68;\n"
            "}\n"
            : OOMB_WGMMA_32(d, 0), OOMB_WGMMA_32(d, 32)
            : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(kA)), "n"(int(kB)));
    }
    template <Summed kB>
    static __device__ void add(float (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "setp.ne.b32 p, %69, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " OOMB_WGMMA_D64
            ", {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n"
            "}\n"
            : OOMB_WGMMA_32(d, 0), OOMB_WGMMA_32(d, 32)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(kB)));
    }
};

#undef OOMB_WGMMA_8
#undef OOMB_WGMMA_32
#undef OOMB_WGMMA_D32
#undef OOMB_WGMMA_D64

}  // namespace oomb::kernels::cuda::hopper
