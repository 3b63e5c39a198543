#pragma once
// The copy engine in device code: tiles of tensors to shared memory, and tiles added to a tensor in global memory. One
// thread calls. Maps are __grid_constant__ parameters (tensor_map.hpp).

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/hopper/mbarrier.cuh"

namespace oomb::kernels::cuda::hopper {

// A box of rows of one head, [box rows, 1, box columns] of [rows, heads, columns]; rows beyond the tensor are zero.
__device__ inline void load_rows(void* to, const CUtensorMap& map, int column, int head, int row,
                                 MemoryBarrier& barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];" ::"r"(shared_address(to)),
        "l"(&map), "r"(column), "r"(head), "r"(row), "r"(shared_address(&barrier))
        : "memory");
}

// A box of one head of a page, [1, page rows, 1, box columns] of [frames, rows, heads, columns].
__device__ inline void load_page(void* to, const CUtensorMap& map, int column, int head, int frame,
                                 MemoryBarrier& barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
        "%5}], [%6];" ::"r"(shared_address(to)),
        "l"(&map), "r"(column), "r"(head), "r"(0), "r"(frame), "r"(shared_address(&barrier))
        : "memory");
}

// Adds a box to the tensor, fp32; rows beyond the tensor are left out. The order in which several boxes meet one
// element is not fixed. To be committed.
__device__ inline void add_rows(const CUtensorMap& map, int column, int head, int row, const void* from) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
        "r"(column), "r"(head), "r"(row), "r"(shared_address(from))
        : "memory");
}
__device__ inline void commit_bulk() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Shared memory of all that this thread has committed has been read.
__device__ inline void wait_bulk_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void wait_bulk() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace oomb::kernels::cuda::hopper
