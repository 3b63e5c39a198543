#pragma once
// What steps took: differences of the backend's counters.

#include <array>
#include <cstdint>
#include <optional>

#include "trainer/executor/executor.hpp"

namespace oomb::trainer {

struct CopyUse {
    std::int64_t scheduled_bytes = 0;  // issued by the schedule
    std::int64_t moved_bytes = 0;      // counted by the backend
    double busy_seconds = 0.0;         // of the engine
};

// Of one step, or of several added up.
struct StepUse {
    std::int64_t steps = 0;
    std::int64_t tokens = 0;
    double seconds = 0.0;                                   // wall clock
    std::array<double, schedule::kPhases> phase_seconds{};  // of the compute engine
    CopyUse to_device, to_host;
    double exposed_copy_seconds = 0.0;  // compute waited for copies
    double model_flops = 0.0;           // runtime/core/model_flops.hpp
    std::int64_t library_plans = 0;     // made within the step, Backend::library_plans()
    std::optional<double> joules;       // of the GPU; nothing where its driver does not count

    StepUse& operator+=(const StepUse& other);
};

double tokens_per_second(const StepUse& use);
// 1 - exposed / busy, busy of both directions added, within [0, 1]; nothing when nothing was copied.
std::optional<double> hidden_copy_share(const StepUse& use);
std::optional<double> joules_per_token(const StepUse& use);
// Model FLOPs per second over the peak of the hardware (FLOP/s); nothing without a peak.
std::optional<double> flop_utilisation(const StepUse& use, std::optional<double> peak_flops);

class RunMeter {
  public:
    // Both outlive the meter.
    RunMeter(const Backend& backend, const Executor& executor) : backend_(backend), executor_(executor) {}

    // Around a step, while the backend is idle. What lies between two steps counts for neither.
    void begin_step();
    StepUse end_step(double seconds, std::int64_t tokens, double model_flops);

    // Of all complete steps.
    const StepUse& total() const { return total_; }
    // At the end of the last step.
    const DeviceReading& reading() const { return reading_; }

  private:
    StepUse now();

    const Backend& backend_;
    const Executor& executor_;
    DeviceReading reading_;
    StepUse start_;
    StepUse total_;
};

}  // namespace oomb::trainer
