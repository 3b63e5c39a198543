#pragma once
// The devices of this process as the driver tells of them, which is loaded by name: nothing here links against one.

#include "profiler/record/decode.hpp"

namespace oomb::profiler {

// A Device for each. None where there is no driver, or CUDA has not begun or has ended in this process.
void add_driver_devices(const RecordSink& sink);

// Begins CUDA in this process, without a context, and counts its devices. Throws UnsupportedError: no driver, no
// device.
std::uint32_t begin_driver();

}  // namespace oomb::profiler
