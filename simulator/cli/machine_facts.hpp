#pragma once
// What the system says of the machine, for the profile that is measured on it.

#include <filesystem>
#include <string>

namespace oomb::simulator {

// "NVIDIA driver 580.159.04, GPU on NUMA node 0, 1 NUMA node"; what the system does not say is left out.
std::string machine_facts(const std::filesystem::path& root = "/");

}  // namespace oomb::simulator
