#pragma once
// What LibTorch allocates on its own, counted at its CPU allocator, and the number of threads it computes with.

#include <cstdint>

namespace oomb::trainer {

// From now on every allocation of LibTorch's CPU allocator is counted. Once per process, before the first tensor.
void count_libtorch_memory();
// Most bytes allocated at once since then; 0 if not counted.
std::int64_t libtorch_peak_bytes();

// Threads for LibTorch, its BLAS and our kernels. Results have the same bits for the same number.
void set_compute_threads(int threads);

}  // namespace oomb::trainer
