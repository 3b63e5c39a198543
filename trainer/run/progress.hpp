#pragma once
// Progress inside a step, on standard error: a line that rewrites itself on a terminal, a line a minute elsewhere.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::trainer {

// FLOPs of one sequence, from its schedule.
double sequence_flops(const schedule::StepShape& step);

class Progress {
  public:
    // What a step is: its name to the user, FLOPs, tokens and chunks.
    struct Step {
        std::string_view name = "step";
        double flops = 0.0;
        std::int64_t tokens = 0;
        std::int64_t chunks = 0;
    };
    Progress(std::int64_t steps, const Step& each, std::FILE* out);

    void begin_step(std::int64_t step);
    void begin_step(std::int64_t step, const Step& of);  // this one and, as far as known, the ones after it
    void done(const schedule::Operation& operation);     // thread-safe
    void end_step();                                     // clears the line
    // What is shown: "step 2/8: backward of chunk 3/8, 61 % of the step, 412 tokens/s, 9.10 s left of it, 2 min of
    // all".
    std::string line() const;

  private:
    using Clock = std::chrono::steady_clock;
    void show(bool at_once);
    double seconds_since(Clock::time_point start) const;

    const std::int64_t steps_;
    Step each_;
    std::FILE* out_;
    const bool terminal_;
    std::mutex mutex_;
    std::int64_t step_ = 0;
    double done_flops_ = 0.0;
    schedule::OperationId last_;
    Clock::time_point step_start_, last_shown_;
};

}  // namespace oomb::trainer
