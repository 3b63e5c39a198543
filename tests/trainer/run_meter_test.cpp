#include "trainer/run/run_meter.hpp"

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {
namespace {

using trainer::RunMeter;
using trainer::StepUse;

// A CPU backend with a GPU's counters.
class Metered : public trainer::CpuBackend<double> {
  public:
    using CpuBackend::CpuBackend;
    DeviceReading device_reading() const override { return reading; }
    std::int64_t library_plans() const override { return plans; }
    DeviceReading reading;
    std::int64_t plans = 30;  // made before the first step
};

TEST_CASE("a step is the difference of the counters around it, the total its sum") {
    const StepCase step(step_run(DType::kF64, Offload::kHost, Keep::kInputAndOutput));
    Metered backend(step.plan);
    std::copy(step.weights.begin(), step.weights.end(), backend.weights());
    trainer::Executor executor(step.plan, backend);
    RunMeter meter(backend, executor);
    const std::vector<trainer::SequenceView> views = {step.sequences[0].view(), step.sequences[1].view()};
    std::vector<StepUse> steps;
    for (int i = 0; i < 2; ++i) {
        backend.reading.joules = 1000.0 * i;
        meter.begin_step();
        executor.compute_gradients(views, {});
        backend.reading.joules = 1000.0 * i + 10.0 + i;
        backend.reading.watts = 500.0;
        backend.plans += 3 * i;
        steps.push_back(meter.end_step(2.0 + i, 72, 1e9));
    }
    CHECK(meter.reading().watts == 500.0);
    CHECK(steps[0].joules == 10.0);
    CHECK(steps[1].joules == 11.0);
    CHECK(steps[0].library_plans == 0);
    CHECK(steps[1].library_plans == 3);
    CHECK(meter.total().library_plans == 3);
    // Both steps are the same work.
    for (const auto side : {&StepUse::to_device, &StepUse::to_host}) {
        CHECK((steps[0].*side).scheduled_bytes > 0);
        CHECK((steps[0].*side).scheduled_bytes == (steps[1].*side).scheduled_bytes);
        CHECK((steps[0].*side).moved_bytes == (steps[0].*side).scheduled_bytes);
        CHECK((meter.total().*side).moved_bytes == 2 * (steps[0].*side).moved_bytes);
        CHECK((steps[1].*side).busy_seconds > 0);
    }
    for (const auto phase : {schedule::Phase::kFill, schedule::Phase::kBackward}) {
        const int i = static_cast<int>(phase);
        CHECK(steps[1].phase_seconds[i] > 0);
        CHECK(meter.total().phase_seconds[i] == steps[0].phase_seconds[i] + steps[1].phase_seconds[i]);
    }
    const StepUse& total = meter.total();
    CHECK(total.steps == 2);
    CHECK(total.tokens == 144);
    CHECK(total.seconds == 5.0);
    CHECK(total.joules == 21.0);
    CHECK(tokens_per_second(total) == 144 / 5.0);
    CHECK(joules_per_token(total) == 21.0 / 144);
    CHECK(flop_utilisation(total, 1e9) == 2e9 / 5 / 1e9);
    CHECK_FALSE(flop_utilisation(total, std::nullopt));
    // One thread does everything: nothing is hidden.
    CHECK(hidden_copy_share(total).value() == doctest::Approx(0.0).epsilon(1e-9));
}

TEST_CASE("what is hidden is the share of busy time in which compute did not wait") {
    StepUse use;
    CHECK_FALSE(hidden_copy_share(use));
    use.to_device.busy_seconds = 3;
    use.to_host.busy_seconds = 1;
    use.exposed_copy_seconds = 1;
    CHECK(hidden_copy_share(use) == 0.75);
    use.exposed_copy_seconds = 5;
    CHECK(hidden_copy_share(use) == 0.0);
}

TEST_CASE("a sum with a step whose energy nobody counted has no energy") {
    StepUse counted, not_counted, total;
    counted.steps = not_counted.steps = 1;
    counted.tokens = not_counted.tokens = 5;
    counted.joules = 3.0;
    total += counted;
    CHECK(total.joules == 3.0);
    total += not_counted;
    CHECK_FALSE(total.joules);
    total += counted;
    CHECK_FALSE(total.joules);
    CHECK_FALSE(joules_per_token(total));
}

}  // namespace
}  // namespace oomb::testing
