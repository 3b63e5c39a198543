#include "trainer/run/run_meter.hpp"

#include <algorithm>

namespace oomb::trainer {
namespace {

using schedule::Engine;

// `to` - `from`, member by member.
CopyUse difference(const CopyUse& to, const CopyUse& from) {
    return {to.scheduled_bytes - from.scheduled_bytes, to.moved_bytes - from.moved_bytes,
            to.busy_seconds - from.busy_seconds};
}

void add(CopyUse& sum, const CopyUse& use) {
    sum.scheduled_bytes += use.scheduled_bytes;
    sum.moved_bytes += use.moved_bytes;
    sum.busy_seconds += use.busy_seconds;
}

}  // namespace

StepUse& StepUse::operator+=(const StepUse& other) {
    if (steps == 0) {
        joules = other.joules;
    } else {
        joules = joules && other.joules ? std::optional(*joules + *other.joules) : std::nullopt;
    }
    steps += other.steps;
    tokens += other.tokens;
    seconds += other.seconds;
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        phase_seconds[phase] += other.phase_seconds[phase];
    }
    add(to_device, other.to_device);
    add(to_host, other.to_host);
    exposed_copy_seconds += other.exposed_copy_seconds;
    model_flops += other.model_flops;
    library_plans += other.library_plans;
    return *this;
}

double tokens_per_second(const StepUse& use) {
    return use.seconds > 0 ? static_cast<double>(use.tokens) / use.seconds : 0.0;
}

std::optional<double> hidden_copy_share(const StepUse& use) {
    const double busy = use.to_device.busy_seconds + use.to_host.busy_seconds;
    return busy > 0 ? std::optional(std::clamp(1.0 - use.exposed_copy_seconds / busy, 0.0, 1.0)) : std::nullopt;
}

std::optional<double> joules_per_token(const StepUse& use) {
    return use.joules && use.tokens > 0 ? std::optional(*use.joules / static_cast<double>(use.tokens)) : std::nullopt;
}

std::optional<double> flop_utilisation(const StepUse& use, std::optional<double> peak_flops) {
    return peak_flops && use.seconds > 0 ? std::optional(use.model_flops / use.seconds / *peak_flops) : std::nullopt;
}

// All counters as they stand.
StepUse RunMeter::now() {
    StepUse use;
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        use.phase_seconds[phase] = backend_.phase_seconds(static_cast<schedule::Phase>(phase));
    }
    const auto copies = [&](Engine engine) -> CopyUse {
        const CopyTotals moved = backend_.copied(engine);
        return {executor_.scheduled(engine).bytes, moved.bytes, moved.seconds};
    };
    use.to_device = copies(Engine::kHostToDevice);
    use.to_host = copies(Engine::kDeviceToHost);
    use.exposed_copy_seconds = backend_.exposed_copy_seconds();
    use.library_plans = backend_.library_plans();
    reading_ = backend_.device_reading();
    use.joules = reading_.joules;
    return use;
}

void RunMeter::begin_step() {
    start_ = now();
}

StepUse RunMeter::end_step(double seconds, std::int64_t tokens, double model_flops) {
    StepUse use = now();
    use.steps = 1;
    use.tokens = tokens;
    use.seconds = seconds;
    use.model_flops = model_flops;
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        use.phase_seconds[phase] -= start_.phase_seconds[phase];
    }
    use.to_device = difference(use.to_device, start_.to_device);
    use.to_host = difference(use.to_host, start_.to_host);
    use.exposed_copy_seconds -= start_.exposed_copy_seconds;
    use.library_plans -= start_.library_plans;
    use.joules = use.joules && start_.joules ? std::optional(*use.joules - *start_.joules) : std::nullopt;
    total_ += use;
    return use;
}

}  // namespace oomb::trainer
