#pragma once
// kernels/cuda/hopper/wgmma.cuh on the model of tests/kernels/emulation/machine.hpp.

#include "kernels/cuda/hopper/layout.hpp"
#include "tests/kernels/emulation/machine.hpp"

namespace oomb::kernels::cuda::hopper {

inline void begin_products() {}
inline void end_products() {
    emulation::commit_products();
}
template <class Registers>
void pin(Registers&) {}
template <int kPending, class... Registers>
void wait_products(Registers&...) {
    emulation::wait_products(kPending);
}

template <int kColumns>
struct Product {
    template <Summed kA, Summed kB>
    static void add(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b, bool accumulate) {
        emulation::multiply(d, kColumns, nullptr, {a, kA == Summed::kAlongRows}, {b, kB == Summed::kAlongRows},
                            accumulate);
    }
    template <Summed kB>
    static void add(float (&d)[kColumns / 2], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate) {
        emulation::multiply(d, kColumns, a, {}, {b, kB == Summed::kAlongRows}, accumulate);
    }
};

}  // namespace oomb::kernels::cuda::hopper
