#pragma once
// What `oomb-profile report` holds a recording against: a machine, and the run that was recorded.

#include <optional>
#include <string>

#include "profiler/analysis/profile.hpp"
#include "runtime/core/hardware_profile.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::profiler {

struct RooflineFlags {
    std::string hardware;  // empty: the machine whose GPU the recording names
    std::string trace;     // empty: not given
};
void add_roofline_flags(CLI::App& app, RooflineFlags& flags);

// None where no machine is named and the recording's GPU is none of those known.
std::optional<HardwareProfile> recorded_hardware(const RooflineFlags& flags, const Profile& profile);

// The run that the trace's header says. Throws FileError: it is no trace, or the recording has no operations.
std::optional<schedule::StepShape> recorded_step(const RooflineFlags& flags, const Profile& profile);

}  // namespace oomb::profiler
