#pragma once
// Gradients of a step as a safetensors file under the parameters' names, in the accumulator's type.

#include <filesystem>

#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

// Written beside, flushed, renamed. Throws FileError; an existing file is refused.
void write_gradients(Backend& backend, const std::filesystem::path& path);

}  // namespace oomb::trainer
