#include "profiler/cli/roofline_flags.hpp"

#include <fmt/ranges.h>

#include "runtime/core/known_hardware.hpp"
#include "runtime/flags/run_flags.hpp"
#include "runtime/trace/trace.hpp"
#include "simulator/cli/recorded_plan.hpp"

namespace oomb::profiler {

void add_roofline_flags(CLI::App& app, RooflineFlags& flags) {
    app.add_option("--trace", flags.trace,
                   "of the same run (oomb-train --trace): its FLOPs and bytes, held against the machine, and the "
                   "critical path of a step")
        ->type_name("FILE");
    app.add_option("--hardware", flags.hardware, "machine or hardware profile that rates are held against")
        ->type_name("NAME|FILE")
        ->default_str("of the recording's GPU, if known");
}

std::optional<HardwareProfile> recorded_hardware(const RooflineFlags& flags, const Profile& profile) {
    if (!flags.hardware.empty()) {
        return read_gpu_profile(flags.hardware, DeviceKind::kCuda);
    }
    for (const Device& device : profile.devices) {
        if (const auto* known = known_hardware(known_hardware_of_gpu(profile.text(device.name)))) {
            return *known;
        }
    }
    if (!flags.trace.empty()) {
        fail<UsageError>(
            "--trace: the recording names no GPU of a known machine to hold the run against; name one with "
            "--hardware ({}, or a file)",
            fmt::join(known_hardware_names(), ", "));
    }
    return std::nullopt;
}

std::optional<schedule::StepShape> recorded_step(const RooflineFlags& flags, const Profile& profile) {
    if (flags.trace.empty()) {
        return std::nullopt;
    }
    if (profile.marks.empty() || !profile.kinds_match) {
        fail<FileError>(
            "--trace: found {}, but no work of the recording is attributed to operations of this version; leave it "
            "out, "
            "or record with oomb-train --profile",
            flags.trace);
    }
    const trace::TraceReader reader(flags.trace);
    const schedule::Plan plan =
        simulator::recorded_plan(JsonNode(reader.header().plan, flags.trace + ", line 1, plan")).plan;
    return schedule::StepShape(plan.model, plan.run);
}

}  // namespace oomb::profiler
