#pragma once
// Names and explanations that the programs share when they speak of a plan.

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/hardware_profile.hpp"
#include "simulator/report/limits.hpp"

namespace oomb::simulator {

// "models/qwen2.5-7b.json" and "Qwen2.5-7B/config.json" are what the user calls the model, without folders and suffix.
std::string model_name(const std::filesystem::path& given);

// For a plan that does not fit: which memory, asked and available, and what other flags would do.
std::string explain_excess(const schedule::Plan& plan, const std::vector<Excess>& excesses, const Limits& limits,
                           const HardwareProfile& profile);

}  // namespace oomb::simulator
