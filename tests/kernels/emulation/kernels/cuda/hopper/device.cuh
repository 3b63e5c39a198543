#pragma once
// kernels/cuda/hopper/device.cuh on the model of tests/kernels/emulation/machine.hpp.

#include <cstdint>

#include "kernels/cuda/hopper/layout.hpp"
#include "kernels/cuda/launch.hpp"
#include "runtime/core/dtype.hpp"
#include "tests/kernels/emulation/machine.hpp"

namespace oomb::kernels::cuda::hopper {

using emulation::shared_address;

template <class Shared>
Shared& shared_memory() {
    std::uint8_t* bytes = emulation::shared_bytes();
    const std::uint32_t beyond = shared_address(bytes) % kAtomBytes;
    return *reinterpret_cast<Shared*>(bytes + (beyond == 0 ? 0 : kAtomBytes - beyond));
}

inline float power_of_two(float x) {
    return exp2f(x);
}
inline std::uint32_t pack(float low, float high) {
    return BFloat16(low).bits | std::uint32_t{BFloat16(high).bits} << 16;
}

// PTX ISA, stmatrix .m8n8.x4: lane l gives row l % 8 of matrix l / 8, and holds two elements of row l / 4 of each.
inline void store_matrices(void* row, const std::uint32_t (&values)[4]) {
    const auto rows = emulation::warp_values(row);
    const unsigned lane = threadIdx.x % 32;
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
        std::memcpy(static_cast<std::uint8_t*>(rows[8 * matrix + lane / 4]) + lane % 4 * 4, &values[matrix], 4);
    }
}

template <class Shared, class Operands>
void launch_blocks(void (*kernel)(Operands), std::int64_t items, int threads, const Operands& op, const char*,
                   cudaStream_t) {
    static_assert(sizeof(Shared) + kAtomBytes <= 232'448, "more than a block of sm_90 may have");
    emulation::run_grid(blocks_for(items, 1), static_cast<unsigned>(threads), sizeof(Shared) + kAtomBytes,
                        [&] { kernel(op); });
}

}  // namespace oomb::kernels::cuda::hopper
