#include "trainer/run/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/core/units.hpp"
#include "runtime/schedule/generator.hpp"

namespace oomb::trainer {
namespace {

constexpr double kTerminalSeconds = 0.2, kLogSeconds = 60.0;

class FlopSum : public schedule::OperationSink {
  public:
    void take(const schedule::Operation& operation) override { sum += schedule::flops_of(operation.cost); }
    double sum = 0.0;
};

}  // namespace

double sequence_flops(const schedule::StepShape& step) {
    FlopSum flops;
    schedule::SequenceGenerator(step, 0, 1, flops).generate();
    return flops.sum;
}

Progress::Progress(std::int64_t steps, const Step& each, std::FILE* out)
    : steps_(steps), each_(each), out_(out), terminal_(isatty(fileno(out)) != 0) {}

void Progress::begin_step(std::int64_t step, const Step& of) {
    {
        const std::lock_guard lock(mutex_);
        each_ = of;
    }
    begin_step(step);
}

void Progress::begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    done_flops_ = 0.0;
    step_start_ = Clock::now();
    if (step == 1) {
        last_shown_ = step_start_;
    }
}

void Progress::done(const schedule::Operation& operation) {
    const std::lock_guard lock(mutex_);
    if (operation.engine != schedule::Engine::kCompute) {
        return;
    }
    done_flops_ += schedule::flops_of(operation.cost);
    last_ = operation.id;
    if (seconds_since(last_shown_) >= (terminal_ ? kTerminalSeconds : kLogSeconds)) {
        last_shown_ = Clock::now();
        std::fputs(terminal_ ? fmt::format("\r{}\033[K", line()).c_str() : fmt::format("{}\n", line()).c_str(), out_);
        std::fflush(out_);
    }
}

void Progress::end_step() {
    const std::lock_guard lock(mutex_);
    if (terminal_) {
        std::fputs("\r\033[K", out_);
        std::fflush(out_);
    }
}

std::string Progress::line() const {
    const double share = std::min(1.0, done_flops_ / each_.flops);
    const double passed = seconds_since(step_start_);
    const double whole = share > 0 ? passed / share : 0.0;
    const double left = std::max(0.0, whole - passed);
    return fmt::format("{} {}/{}: {} of chunk {}/{}, {:.0f} % of the {}, {:.0f} tokens/s, {} left of it, {} of all",
                       each_.name, step_, steps_, name_of(last_.phase), last_.chunk + 1, each_.chunks, 100 * share,
                       each_.name, whole > 0 ? static_cast<double>(each_.tokens) / whole : 0.0, format_duration(left),
                       format_duration(left + static_cast<double>(steps_ - step_) * whole));
}

double Progress::seconds_since(Clock::time_point start) const {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace oomb::trainer
