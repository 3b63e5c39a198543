#pragma once
// What the work of a recording achieved, held against what the machine can do.
//
// FLOPs and bytes of an operation are those of its cost descriptor (runtime/schedule/operation.hpp): FLOPs as
// schedule::flops_of counts them, bytes of HBM with every operand read, and every result written, once. Work takes at
// least the longer of FLOPs over the roof of compute and bytes over the bandwidth (S. Williams, A. Waterman, D.
// Patterson, "Roofline", CACM 52, 2009).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::profiler {

// Per second; 0: the hardware profile does not have it.
struct Roofs {
    double flops = 0;            // of matrix products in the type that the run computes in
    double memory_bytes = 0;     // of HBM, read and written (hbm_copy)
    double to_device_bytes = 0;  // of the bus, one direction alone
    double to_host_bytes = 0;
};
Roofs roofs_of(const HardwareProfile& hardware, DType compute);

enum class Bound : std::uint8_t { kCompute, kMemory, kBus };
std::string_view name_of(Bound bound);

struct RooflineRow {
    std::string name;                                   // of the kind of operation; "copies host to device"
    std::optional<schedule::Kind> kind = std::nullopt;  // none: all copies of a direction
    std::int64_t count = 0;                             // operations that gave the device work; copies
    std::int64_t busy_ns = 0;                           // of their kernels, memsets and copies
    double flops = 0, bytes = 0;
    double least_ns = 0;  // that the machine needs; 0 where the roof is not known
    Bound bound = Bound::kMemory;

    double flops_per_second() const { return busy_ns > 0 ? flops * 1e9 / static_cast<double>(busy_ns) : 0; }
    double bytes_per_second() const { return busy_ns > 0 ? bytes * 1e9 / static_cast<double>(busy_ns) : 0; }
    double share_of_roof() const { return busy_ns > 0 ? least_ns / static_cast<double>(busy_ns) : 0; }
};

// Copies between host and device, a row per direction that has any: bytes over the time in which at least one ran.
std::vector<RooflineRow> copies_under_roof(const Profile& profile, const Roofs& roofs);

// Kinds of operations that gave the device work, in the order of a step. `step` is the run that was recorded; what
// it does not have is left out. Goes once over the schedule of a sequence; memory for the operations that the recording
// has.
std::vector<RooflineRow> operations_under_roof(const Profile& profile, const schedule::StepShape& step,
                                               const Roofs& roofs);

}  // namespace oomb::profiler
