#pragma once
// What training and evaluation share as programs: the backend of a plan, signals, the first lines.

#include <atomic>
#include <memory>
#include <string>

#include "simulator/report/limits.hpp"
#include "trainer/executor/backend.hpp"

namespace oomb::trainer {

inline constexpr const char* kProgram = "oomb-train";

// Throws UsageError or UnsupportedError for what cannot run with this build or device. `plans_only`: of what a run
// needs the build is not asked for.
void check_device(const RunConfiguration& run, bool plans_only);

// The backend that the plan's device names; what it prepares is told on standard error. `plan` outlives it.
std::unique_ptr<Backend> make_backend(const schedule::Plan& plan, std::int64_t threads);

// From now on the first SIGINT or SIGTERM sets the flag, for an orderly end; the second one ends the program at once.
const std::atomic<bool>& stop_on_signals();

// The command line as typed.
std::string command_of(int argc, const char* const* argv);

// "plan: GPU memory 100.0 GiB (...), host memory ...".
std::string peaks_text(const schedule::Plan& plan);

}  // namespace oomb::trainer
