#pragma once
// The sub-commands of oomb-plan, and what they have in common.

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "runtime/core/error.hpp"
#include "runtime/flags/run_flags.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// What a sub-command was called with; `program` is "oomb-plan best".
struct Call {
    std::string program;
    int argc = 0;
    const char* const* argv = nullptr;  // argv[0] is not looked at
    std::ostream& out;
    std::ostream& err;
};

// Each reads its flags and prints; the exit codes are in its help. Errors are thrown.
ExitCode fit(const Call& call);
ExitCode best(const Call& call);
ExitCode max_context(const Call& call);
ExitCode sweep(const Call& call);
ExitCode timeline(const Call& call);
ExitCode replay(const Call& call);
ExitCode policies(const Call& call);
ExitCode locality(const Call& call);
ExitCode calibrate(const Call& call);

struct PlanFlags {
    RunFlags run;
    std::string hardware;    // a known machine or a file; empty: default_hardware()
    std::string json_path;   // empty: not given
    std::string locality;    // three numbers or a file; empty: default_locality()
    std::string page_trace;  // empty: not given
};

// The flags of the run, --hardware and --json, with --device cuda as the default. `flags` outlives `app`.
void add_plan_flags(CLI::App& app, PlanFlags& flags, const std::string& what_json_gets);

// --page-trace, for sub-commands that look at one run as it is given.
void add_page_trace_flag(CLI::App& app, PlanFlags& flags);

// Where lists of top-K pages come from. UsageError where they are given and `run` is dense; as read_locality() and
// read_page_trace().
ListSource list_source(const PlanFlags& flags, const RunConfiguration& run);

HardwareProfile profile_of(const PlanFlags& flags, DeviceKind device);

// For sub-commands that are about time. UsageError with --device cpu, FileError where the profile lacks a rate.
void require_times(const std::string& program, const RunConfiguration& run, const HardwareProfile& profile);

// The command that trains, or evaluates, with `run` in place of what the flags say of cuts and places.
std::string train_command(const PlanFlags& flags, const RunConfiguration& run);

// What `run` says of cuts and places, as flags, without those that are as by default.
std::string setting_text(const RunConfiguration& run);

// A setting in a file of oomb-plan: command, peaks, what is kept and held, and its time (null: not predicted).
nlohmann::ordered_json setting_json(const schedule::Plan& plan, const std::optional<Prediction>& prediction,
                                    const std::string& command);

// To `call.err`: that the context is longer than the model's positions; numbers that pass what there is.
void print_remarks(const Call& call, const schedule::Plan& plan);

void write_json(const std::string& path, const nlohmann::ordered_json& json);  // nothing for an empty path

// Flushes `out`. FileError where that fails.
void finish(std::ostream& out);

}  // namespace oomb::simulator
