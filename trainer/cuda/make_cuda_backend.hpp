#pragma once
// Choice of the CUDA backend by the plan's types. No header of CUDA comes with this one.

#include <functional>
#include <memory>

#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

// Told how far the start is; either may be empty.
struct StartProgress {
    std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> reserving;  // host memory
    std::function<void(std::int64_t done, std::int64_t total)> preparing;              // shapes of operations
};

// Throws as CudaBackend's constructor.
std::unique_ptr<Backend> make_cuda_backend(const schedule::Plan& plan, StartProgress progress);

}  // namespace oomb::trainer
