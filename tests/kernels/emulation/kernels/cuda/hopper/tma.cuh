#pragma once
// kernels/cuda/hopper/tma.cuh on the model of tests/kernels/emulation/machine.hpp.

#include <cuda.h>

#include "kernels/cuda/hopper/mbarrier.cuh"

namespace oomb::kernels::cuda::hopper {

inline void load_rows(void* to, const CUtensorMap& map, int column, int head, int row, MemoryBarrier& barrier) {
    emulation::copy_box(to, &map, {column, head, row}, barrier.barrier);
}
inline void load_page(void* to, const CUtensorMap& map, int column, int head, int frame, MemoryBarrier& barrier) {
    emulation::copy_box(to, &map, {column, head, 0, frame}, barrier.barrier);
}
inline void add_rows(const CUtensorMap& map, int column, int head, int row, const void* from) {
    emulation::add_box(&map, {column, head, row}, from);
}
inline void commit_bulk() {}
inline void wait_bulk_read() {
    emulation::wait_adds();
}
inline void wait_bulk() {
    emulation::wait_adds();
}

}  // namespace oomb::kernels::cuda::hopper
