#pragma once
// A profile as a table for a terminal, and as JSON (docs/profile-format.md).

#include <string>

#include "profiler/analysis/call_sums.hpp"
#include "profiler/analysis/memory_use.hpp"
#include "profiler/analysis/overlap.hpp"
#include "profiler/analysis/roofline.hpp"
#include "profiler/analysis/sums.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {

struct ReportOptions {
    std::size_t rows = 12;                      // of kernels, of operations, and of gaps half as many
    const HardwareProfile* hardware = nullptr;  // what work is held against; none: against nothing
    const schedule::StepShape* step = nullptr;  // the run that was recorded; none: copies alone are held against it
};

struct Roofline {
    std::string hardware;  // its name
    Roofs roofs;
    std::vector<RooflineRow> rows;  // copies, then operations
};

// All that is said of a profile, worked out once.
struct Findings {
    const Profile& profile;
    std::vector<DeviceOverlap> devices;
    std::vector<std::vector<Gap>> gaps;  // of each device
    std::vector<NameSum> kernels;
    std::optional<OperationSums> operations;
    MemoryUses memory;
    std::optional<Roofline> roofline;
    std::vector<NameSum> calls;
    std::vector<CounterSum> counters;

    bool has_operations() const { return operations && profile.kinds_match; }
    std::string device_name(std::uint32_t device) const;  // "device 0, NVIDIA H200"
};
Findings find(const Profile& profile, const ReportOptions& options);

std::string report_text(const Findings& findings, const ReportOptions& options);
Json report_json(const Findings& findings);

// One line for everything that makes the numbers less than the whole truth; empty when there is nothing.
std::vector<std::string> warnings_of(const Profile& profile);

}  // namespace oomb::profiler
