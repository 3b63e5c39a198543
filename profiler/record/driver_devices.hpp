#pragma once
// The devices of this process as the driver tells of them, which is loaded by name: nothing here links against one.

#include <cstdint>
#include <string>
#include <vector>

namespace oomb::profiler {

struct DriverDevice {
    std::uint32_t device = 0;  // CUDA's number
    std::string name;
    std::int64_t memory_bytes = 0;
    std::uint32_t multiprocessors = 0;
};

// None where there is no driver, or CUDA has not begun or has ended in this process.
std::vector<DriverDevice> driver_devices();

}  // namespace oomb::profiler
