#pragma once
// A multiprocessor of sm_90a on the host, slow and literal, to run the Hopper kernels as they stand where there is no
// GPU.
//
// Threads of a block are fibers that switch wherever hardware might make them wait, in random order. What runs beside
// the threads is done as late or as early as chance has it, and its registers hold NaN meanwhile: a wait that is
// missing, a stage that is released too early, a barrier with the wrong count show as wrong numbers or as a deadlock,
// which throws. The model knows what PTX says of mbarriers, named barriers, warps, tensor maps with the 128-byte
// swizzle, matrix descriptors and fragments; it does not know memory ordering between proxies (fences do nothing) or
// time.
//
// This header is included before all else where kernels are compiled for it. Beside it, emulation/kernels/ has the four
// headers of the device (device.cuh, mbarrier.cuh, tma.cuh, wgmma.cuh) on this model; they are found before the real
// ones.

#include <cuda_runtime_api.h>
#include <math.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

namespace oomb::emulation {

struct Place {
    unsigned x = 0;
};

// Blocks of `threads`, begun in order, each with `shared_bytes` filled with 0xff; as many at once as set_resident()
// said last, 1 at first. Throws Error at a deadlock.
void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel);
// Of the order of fibers and of what runs beside them, for the grids that follow.
void set_seed(unsigned seed);
void set_resident(unsigned blocks);

std::uint8_t* shared_bytes();
std::uint32_t shared_address(const void* pointer);

// The calling fiber goes on once `condition` holds.
void wait_until(const std::function<bool()>& condition);

struct Barrier {
    int expected = 0, missing = 0, bytes = 0;
    std::uint32_t phase = 0;

    void init(int arrivals);
    void arrive(int more_bytes);
    void come(int copied_bytes);
    void wait(std::uint32_t parity);

  private:
    void end_phase_if_complete();
};

void named_barrier(int barrier, int threads, bool waits);

// Of the lanes of a warp; every lane calls. Returns what each gave.
std::vector<std::uint64_t> meet_in_warp(std::uint64_t value);
template <class T>
std::vector<T> warp_values(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    std::vector<T> values;
    for (const std::uint64_t lane : meet_in_warp(bits)) {
        std::memcpy(&values.emplace_back(), &lane, sizeof(T));
    }
    return values;
}

// Copies of boxes, `map` as encode_map() (emulation/driver.cpp) made it.
void copy_box(void* to, const void* map, const std::vector<std::int64_t>& coordinates, Barrier& barrier);
void add_box(const void* map, const std::vector<std::int64_t>& coordinates, const void* from);
void commit_adds();
void wait_adds();

// A product of the calling warpgroup. `a` is the thread's operand in registers, or null.
struct Operand {
    std::uint64_t descriptor = 0;
    bool along_rows = false;
};
void multiply(float* d, int columns, const std::uint32_t* a, Operand of_a, Operand of_b, bool accumulate);
void commit_products();
void wait_products(int pending);

}  // namespace oomb::emulation

extern oomb::emulation::Place threadIdx, blockIdx, gridDim;

void __syncthreads();
inline float __uint_as_float(std::uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}
inline void __syncwarp() {
    oomb::emulation::meet_in_warp(0);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
    return oomb::emulation::warp_values(value)[threadIdx.x % 32 ^ distance];
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return oomb::emulation::warp_values(value)[lane];
}
inline int reduce(int value, const std::function<int(int, int)>& combine) {
    const auto values = oomb::emulation::warp_values(value);
    int result = values[0];
    for (std::size_t lane = 1; lane < values.size(); ++lane) {
        result = combine(result, values[lane]);
    }
    return result;
}
inline int __reduce_min_sync(unsigned, int value) {
    return reduce(value, [](int a, int b) { return a < b ? a : b; });
}
inline int __reduce_max_sync(unsigned, int value) {
    return reduce(value, [](int a, int b) { return a > b ? a : b; });
}
inline int __reduce_add_sync(unsigned, int value) {
    return reduce(value, [](int a, int b) { return a + b; });
}
inline bool __any_sync(unsigned, bool value) {
    return reduce(value ? 1 : 0, [](int a, int b) { return a | b; }) != 0;
}
inline bool __all_sync(unsigned, bool value) {
    return reduce(value ? 1 : 0, [](int a, int b) { return a & b; }) != 0;
}
