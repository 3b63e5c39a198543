#pragma once
// The CPU backend for a plan, without LibTorch in the header.

#include <memory>

#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

// In the type in which the plan computes; LibTorch's allocations are counted from here on. `plan` outlives the backend.
std::unique_ptr<Backend> make_cpu_backend(const schedule::Plan& plan, int threads);

}  // namespace oomb::trainer
