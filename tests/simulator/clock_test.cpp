// The laws that a predicted time obeys, whatever the step.
#include "simulator/step/clock.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "runtime/issue/issuer.hpp"
#include "runtime/schedule/flops.hpp"
#include "simulator/step/prediction.hpp"
#include "simulator/step/step_size.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "trainer/executor/copy_counter.hpp"

namespace oomb::test {

namespace {

using schedule::Engine;
using schedule::kEngines;
using schedule::kPhases;
using schedule::Phase;
using simulator::Prediction;
using simulator::simulate_step;
using testing::RandomStep;
using testing::RandomSteps;

// Sums of at most some thousand terms, each rounded once.
constexpr double kRounding = 1e-11;

Prediction predict(const RandomStep& step, const HardwareProfile& profile = machine()) {
    return simulate_step(schedule::make_plan(step.model, step.run), profile);
}

class NullSink : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation /*operation*/) override {}
};

// An operation of its own life: no regions, no pages.
class Script {
  public:
    explicit Script(simulator::Clock& clock) : clock_(clock) {}

    void run(Engine engine, schedule::Cost cost, issue::Tickets waits = {}, Phase phase = Phase::kFill) {
        issue::IssuedOperation issued;
        issued.operation.id.phase = phase;
        issued.operation.id.kind = engine == Engine::kCompute ? schedule::Kind::kSwiglu : schedule::Kind::kLoadTokens;
        issued.operation.engine = engine;
        issued.operation.cost = cost;
        issued.ticket = ++tickets_[static_cast<std::size_t>(engine)];
        issued.waits = waits;
        clock_.take(issued);
    }

  private:
    simulator::Clock& clock_;
    issue::Tickets tickets_{};
};

issue::Tickets wait_for(Engine engine, issue::Ticket ticket) {
    issue::Tickets waits{};
    waits[static_cast<std::size_t>(engine)] = ticket;
    return waits;
}

}  // namespace

TEST_CASE("engines in order, waits, exposed copies and company on the bus, by hand") {
    HardwareProfile profile = machine();
    profile.launch.seconds = profile.copy_start.seconds = 0;
    const schedule::Plan plan;
    simulator::Clock clock(plan, profile);
    Script script(clock);
    script.run(Engine::kHostToDevice, schedule::CopyCost{100'000'000, 0});   // 0 to 1
    script.run(Engine::kCompute, schedule::ElementwiseCost{2'000'000'000});  // 0 to 2
    script.run(Engine::kHostToDevice, schedule::CopyCost{400'000'000, 0});   // 1 to 5
    script.run(Engine::kDeviceToHost, schedule::CopyCost{50'000'000, 0},
               wait_for(Engine::kCompute, 1));  // 2 to 3, both
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000}, wait_for(Engine::kHostToDevice, 1));  // to 2.5
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000}, wait_for(Engine::kHostToDevice, 2),
               Phase::kBackward);                                                                         // 5 to 5.5
    script.run(Engine::kDeviceToHost, schedule::CopyCost{90'000'000, 0}, wait_for(Engine::kCompute, 3));  // 5.5 to 6.5
    const Prediction& sums = clock.so_far();
    CHECK(sums.seconds == doctest::Approx(6.5));
    CHECK(sums.exposed_copy_seconds == doctest::Approx(2.5));
    CHECK(sums.phase_seconds[static_cast<int>(Phase::kFill)] == doctest::Approx(2.5));
    CHECK(sums.phase_seconds[static_cast<int>(Phase::kBackward)] == doctest::Approx(3.0));
    CHECK(sums.of(Engine::kHostToDevice).seconds == doctest::Approx(5.0));
    CHECK(sums.of(Engine::kDeviceToHost).seconds == doctest::Approx(2.0));
    CHECK(sums.of(Engine::kDeviceToHost).bytes == 140'000'000);
    CHECK(sums.of(schedule::Kind::kSwiglu).operations == 3);
    CHECK(*sums.hidden_copy_share() == doctest::Approx(1 - 2.5 / 7.0));
    clock.wait_idle();
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // 6.5 to 7
    CHECK(clock.so_far().seconds == doctest::Approx(7.0));
    CHECK(clock.so_far().exposed_copy_seconds == doctest::Approx(2.5));
}

TEST_CASE("a store that is taken before the fetch beside it has company, as long as one is to come, by hand") {
    HardwareProfile profile = machine();
    profile.launch.seconds = profile.copy_start.seconds = 0;
    const schedule::Plan plan;
    simulator::Clock clock(plan, profile);
    Script script(clock);
    clock.expect_fetch(true);
    script.run(Engine::kDeviceToHost, schedule::CopyCost{50'000'000, 0});  // 0 to 1, both
    script.run(Engine::kHostToDevice, schedule::CopyCost{60'000'000, 0});  // 0 to 1, both
    script.run(Engine::kHostToDevice, schedule::CopyCost{50'000'000, 0});  // 1 to 1.5
    clock.expect_fetch(false);
    script.run(Engine::kDeviceToHost, schedule::CopyCost{50'000'000, 0});  // 1 to 2, both
    script.run(Engine::kDeviceToHost, schedule::CopyCost{90'000'000, 0});  // 2 to 3
    CHECK(clock.free_at(Engine::kHostToDevice) == doctest::Approx(1.5));
    CHECK(clock.so_far().seconds == doctest::Approx(3));
}

// Copies of 1 s each at the machine's rate, turns of 2.5 s and 4 s: what is under way is not broken off, so a copy that
// finds the engine with the other program waits for the end of its turn, and one of ours that lasts longer is held up.
TEST_CASE("a copy engine shared with another program, in turns, by hand") {
    class Shared : public simulator::ProfileDurations {
      public:
        using ProfileDurations::ProfileDurations;
        double seconds(const schedule::Operation& operation, std::int64_t bytes, bool /*both*/) override {
            return operation.engine == Engine::kCompute ? 10.0 : static_cast<double>(bytes);
        }
        simulator::Submission submission(const schedule::Operation& /*operation*/, std::int64_t /*runs*/) override {
            return {};
        }
        simulator::CopyTurns copy_turns() const override { return {2.5, 4.0}; }
    };
    const schedule::Plan plan;
    Shared durations(plan.run, machine());
    simulator::Clock clock(plan, durations);
    Script script(clock);
    const auto end_of = [&] { return clock.free_at(Engine::kHostToDevice); };
    const auto copy = [&](std::int64_t seconds, issue::Tickets waits = {}) {
        script.run(Engine::kHostToDevice, schedule::CopyCost{.bytes = seconds, .pages = 1}, waits);
    };
    copy(1);  // the engine has been ours: at once
    CHECK(end_of() == 1.0);
    copy(1);  // behind it, in the same turn
    CHECK(end_of() == 2.0);
    copy(1);  // half of it, the other's turn, the other half
    CHECK(end_of() == 7.0);
    copy(6);  // what is left of the turn, a whole one, and 1.5 s of the next
    CHECK(end_of() == 7.0 + 6.0 + 2 * 4.0);
    script.run(Engine::kCompute, schedule::ElementwiseCost{1});  // until 10: done long before
    script.run(Engine::kCompute, schedule::ElementwiseCost{1});
    script.run(Engine::kCompute, schedule::ElementwiseCost{1});  // until 30
    copy(1, wait_for(Engine::kCompute, 3));  // idle since 21: the other's turns end at 25, 29 and 33
    CHECK(end_of() == 34.0);
}

TEST_CASE("the host hands over one operation after the other, and none begins before that") {
    HardwareProfile profile = machine();
    profile.launch.seconds = profile.copy_start.seconds = 0;
    profile.submit.seconds = 1;
    const schedule::Plan plan;
    simulator::Clock clock(plan, profile);
    Script script(clock);
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});   // 0 to 0.5
    script.run(Engine::kHostToDevice, schedule::CopyCost{300'000'000, 0});  // handed over at 1, to 4
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000},
               wait_for(Engine::kHostToDevice, 1));                        // 4 to 4.5
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // handed over at 3: 4.5 to 5
    CHECK(clock.so_far().seconds == doctest::Approx(5.0));
    CHECK(clock.so_far().exposed_copy_seconds == doctest::Approx(2.0));  // before 2 compute waited for the host
    clock.wait_idle();
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // handed over at 6, to 6.5
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // 7 to 7.5
    CHECK(clock.so_far().seconds == doctest::Approx(7.5));
}

TEST_CASE("pages of a copy take the host some time each") {
    HardwareProfile profile = machine();
    profile.launch.seconds = profile.copy_start.seconds = 0;
    profile.submit.seconds = 1;
    profile.submit_page.seconds = 0.25;
    const schedule::Plan plan;
    simulator::Clock clock(plan, profile);
    Script script(clock);
    script.run(Engine::kHostToDevice, schedule::CopyCost{300'000'000, 8});  // 0 to 3
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000},
               wait_for(Engine::kHostToDevice, 1));  // handed over at 3: to 3.5
    CHECK(clock.so_far().seconds == doctest::Approx(3.5));
    CHECK(clock.so_far().exposed_copy_seconds == 0.0);
    script.run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // handed over at 4: to 4.5
    CHECK(clock.so_far().seconds == doctest::Approx(4.5));
}

TEST_CASE("never faster than operations and bytes allow; no engine is busy longer than the step") {
    RandomSteps random(501, {.local = true});
    const HardwareProfile profile = machine();
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        const Prediction prediction = predict(step);
        double flops = 0;
        for (const schedule::Operation& operation : testing::operations_of(step.model, step.run)) {
            flops += schedule::flops_of(operation.cost);
        }
        const double room = 1 + kRounding;
        CHECK(flops / 1e9 <= prediction.of(Engine::kCompute).seconds * room);  // the fastest rate of any product
        for (int engine = 0; engine < kEngines; ++engine) {
            CHECK(prediction.of(static_cast<Engine>(engine)).seconds <= prediction.seconds * room);
        }
        const auto up = prediction.of(Engine::kHostToDevice), down = prediction.of(Engine::kDeviceToHost);
        CHECK(static_cast<double>(up.bytes) / profile.host_to_device_bytes.per_second <= up.seconds * room);
        CHECK(static_cast<double>(down.bytes) / profile.device_to_host_bytes.per_second <= down.seconds * room);
        const double phases = std::accumulate(prediction.phase_seconds.begin(), prediction.phase_seconds.end(), 0.0);
        CHECK(phases <= prediction.seconds * room);
        CHECK(phases - prediction.exposed_copy_seconds ==
              doctest::Approx(prediction.of(Engine::kCompute).seconds).epsilon(kRounding));
    }
}

TEST_CASE("bytes and operations are those that the issuer gives to a backend") {
    RandomSteps random(502, {.local = true});
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        NullSink sink;
        trainer::CopyCounter counter(plan, sink);
        issue::Issuer issuer(plan, counter);
        testing::generate_step(plan.model, plan.run, issuer);
        const Prediction prediction = simulate_step(plan, machine());
        std::int64_t operations = 0;
        for (int engine = 0; engine < kEngines; ++engine) {
            CHECK(prediction.of(static_cast<Engine>(engine)).bytes == counter.total(static_cast<Engine>(engine)).bytes);
            operations += prediction.of(static_cast<Engine>(engine)).operations;
        }
        CHECK(operations == static_cast<std::int64_t>(issuer.issued()));
    }
}

TEST_CASE("equal input, equal output") {
    RandomSteps random(503);
    for (int i = 0; i < 50; ++i) {
        const RandomStep step = random.next();
        const Prediction one = predict(step), other = predict(step);
        CHECK(one.seconds == other.seconds);
        CHECK(one.phase_seconds == other.phase_seconds);
        CHECK(one.exposed_copy_seconds == other.exposed_copy_seconds);
        CHECK(std::memcmp(&one.uses, &other.uses, sizeof one.uses) == 0);
    }
}

// Every copy is at least as fast as before: twice the rate of both directions at once is above that of one alone.
TEST_CASE("twice the bandwidth is never slower") {
    RandomSteps random(504);
    HardwareProfile fast = machine();
    for (SourcedRate* rate : {&fast.host_to_device_bytes, &fast.device_to_host_bytes, &fast.host_to_device_both_bytes,
                              &fast.device_to_host_both_bytes}) {
        rate->per_second *= 2;
    }
    int faster = 0;
    for (int i = 0; i < 300; ++i) {
        const RandomStep step = random.next();
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        const double slow_seconds = predict(step).seconds, fast_seconds = predict(step, fast).seconds;
        CHECK(fast_seconds <= slow_seconds * (1 + kRounding));
        faster += fast_seconds < slow_seconds * 0.999 ? 1 : 0;
    }
    CHECK(faster > 20);
}

TEST_CASE("a longer context takes longer") {
    RandomSteps random(505);
    for (int i = 0; i < 300; ++i) {
        RandomStep step = random.next();
        const double shorter = predict(step).seconds;
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        step.run.context_tokens += random.between(1, 2 * step.run.chunk_tokens);
        CAPTURE(step.run.context_tokens);
        CHECK(predict(step).seconds >= shorter);
    }
}

TEST_CASE("what cannot be predicted is said") {
    RandomSteps random(506);
    RandomStep step = random.next();
    step.run.device = DeviceKind::kCuda;
    schedule::Plan plan = schedule::make_plan(step.model, step.run);
    CHECK_FALSE(simulator::why_unpredictable(plan, machine()));
    HardwareProfile profile = machine();
    profile.gemm_flops.clear();
    CHECK(simulator::why_unpredictable(plan, profile)->find("has no gemm.") != std::string::npos);
    plan.run.context_tokens = std::int64_t{1} << 40;
    CHECK(simulator::why_unpredictable(plan, machine())->find("uses pages") != std::string::npos);
    plan.run.device = DeviceKind::kCpu;
    CHECK(simulator::why_unpredictable(plan, machine())->find("GPU") != std::string::npos);
}

}  // namespace oomb::test
