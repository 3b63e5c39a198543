#pragma once
// kernels/cuda/hopper/turns.cuh on the model of tests/kernels/emulation/machine.hpp.

#include <cstdint>

#include "tests/kernels/emulation/machine.hpp"

namespace oomb::kernels::cuda::hopper {

inline int begun_before(std::int32_t* counter) {
    return (*counter)++;
}
inline void await_turn(const std::int32_t* counter, int turn) {
    emulation::wait_until([counter, turn] { return *counter == turn; });
}
inline void pass_turn(std::int32_t* counter, int next) {
    *counter = next;
}

}  // namespace oomb::kernels::cuda::hopper
