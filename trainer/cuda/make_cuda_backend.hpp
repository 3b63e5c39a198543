#pragma once
// Choice of the CUDA backend by the plan's types. No header of CUDA comes with this one.

#include <functional>
#include <memory>

#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

// `progress` is told how much of the host memory has been reserved. Throws as CudaBackend's constructor.
std::unique_ptr<Backend> make_cuda_backend(
    const schedule::Plan& plan, std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress);

}  // namespace oomb::trainer
