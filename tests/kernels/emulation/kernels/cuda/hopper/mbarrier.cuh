#pragma once
// kernels/cuda/hopper/mbarrier.cuh on the model of tests/kernels/emulation/machine.hpp.

#include "kernels/cuda/hopper/device.cuh"

namespace oomb::kernels::cuda::hopper {

struct MemoryBarrier {
    emulation::Barrier barrier;

    void init(int arrivals) { barrier.init(arrivals); }
    void arrive() { barrier.arrive(0); }
    void expect(std::uint32_t bytes) { barrier.bytes += static_cast<int>(bytes); }
    void arrive_expecting(std::uint32_t bytes) { barrier.arrive(static_cast<int>(bytes)); }
    void wait(std::uint32_t parity) { barrier.wait(parity); }
};

inline void fence_initialised() {}
inline void fence_for_async_reads() {}

inline void wait_at(int barrier, int threads) {
    emulation::named_barrier(barrier, threads, true);
}
inline void arrive_at(int barrier, int threads) {
    emulation::named_barrier(barrier, threads, false);
}

template <int kRegisters>
void give_up_registers() {}
template <int kRegisters>
void take_registers() {}

}  // namespace oomb::kernels::cuda::hopper
