#pragma once
// The machines of hardware/*.json as they were when the program was built, by the names of the files: "h200_sxm".

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/hardware_profile.hpp"

namespace oomb {

std::vector<std::string> known_hardware_names();
const HardwareProfile* known_hardware(std::string_view name);  // nullptr when there is none of this name

// The machine whose GPU the driver calls so ("NVIDIA H200": "h200_sxm"); empty where none of them has it. Cards of
// the same chip in another form (NVL, PCIe) are others: power limit and memory differ.
std::string known_hardware_of_gpu(std::string_view gpu_name);

// The machine that a time is predicted for where none is named: an H200 SXM.
const HardwareProfile& default_hardware();

}  // namespace oomb
