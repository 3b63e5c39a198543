#pragma once
// Threads of the CPU kernels: independent rows over OpenMP, and reductions whose order no thread count changes.

#include <algorithm>
#include <cstdint>

namespace oomb::kernels::cpu {

// Calls fn(row) for every row in [0, rows), each exactly once; fn must not throw and rows must not write to each other.
template <class Fn>
void parallel_rows(std::int64_t rows, const Fn& fn) {
#pragma omp parallel for schedule(static) if (rows > 1)
    for (std::int64_t row = 0; row < rows; ++row) {
        fn(row);
    }
}

constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) {
    return (count + block - 1) / block;
}

// Calls fn(index, begin, end) for blocks of `block` items; the cut depends on count and block alone.
template <class Fn>
void parallel_blocks(std::int64_t count, std::int64_t block, const Fn& fn) {
    parallel_rows(blocks_of(count, block),
                  [&](std::int64_t index) { fn(index, index * block, std::min(count, (index + 1) * block)); });
}

}  // namespace oomb::kernels::cpu
