// Time and traffic of steps with lists of top-K pages.
#include <doctest/doctest.h>

#include "runtime/issue/issuer.hpp"
#include "simulator/search/compute_bound.hpp"
#include "simulator/step/clock.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "trainer/executor/copy_counter.hpp"

namespace oomb::test {

namespace {

using schedule::Engine;
using schedule::Kind;
using simulator::Prediction;
using testing::RandomStep;
using testing::RandomSteps;

constexpr double kRounding = 1e-11;  // of sums of at most some thousand terms

class NullSink : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation /*operation*/) override {}
};

RandomStep next_selecting(RandomSteps& random) {
    for (;;) {
        RandomStep step = random.next();
        if (schedule::StepShape(step.model, step.run).selects()) {
            return step;
        }
    }
}

RandomSteps selecting_steps(std::uint64_t seed) {
    return RandomSteps(seed, {.layers = 4, .chunks = 9, .pages_per_chunk = 6, .top_k = true});
}

}  // namespace

TEST_CASE("the host waits for the copy of lists, and what it issues afterwards for the host, by hand") {
    HardwareProfile profile = machine();
    profile.launch.seconds = 0;
    const schedule::Plan plan;
    simulator::Clock clock(plan, profile);
    issue::Tickets tickets{};
    const auto run = [&](Engine engine, schedule::Cost cost) {
        issue::IssuedOperation issued;
        issued.operation.engine = engine;
        issued.operation.id.kind = engine == Engine::kCompute ? Kind::kSwiglu : Kind::kStoreLists;
        issued.operation.cost = cost;
        issued.ticket = ++tickets[static_cast<std::size_t>(engine)];
        clock.take(issued);
    };
    run(Engine::kDeviceToHost, schedule::CopyCost{90'000'000, 0});  // 0 to 1
    run(Engine::kCompute, schedule::ElementwiseCost{500'000'000});  // 0 to 0.5
    clock.wait_for_lists(1);
    run(Engine::kCompute, schedule::ElementwiseCost{1'000'000'000});  // 1 + latency to 2 + latency
    clock.wait_for_lists(1);                                          // done long ago
    run(Engine::kCompute, schedule::ElementwiseCost{1'000'000'000});
    const double latency = simulator::Clock::kListLatencySeconds;
    CHECK(clock.so_far().seconds == doctest::Approx(3 + latency));
    CHECK(clock.so_far().list_wait_seconds == doctest::Approx(0.5 + latency));
    CHECK(clock.so_far().exposed_copy_seconds == 0.0);
}

TEST_CASE("a step with lists: bytes are those of the issuer, time covers compute and every engine") {
    RandomSteps random = selecting_steps(911);
    double waited = 0;
    for (int i = 0; i < 150; ++i) {
        const RandomStep step = next_selecting(random);
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const Prediction found = simulator::simulate_step(plan, machine());
        NullSink nothing;
        trainer::CopyCounter counter(plan, nothing);
        const auto lists = simulator::ListSource().open(plan);
        issue::Issuer issuer(plan, counter, lists.get());
        testing::generate_step(step.model, step.run, issuer);
        for (const Engine engine : {Engine::kHostToDevice, Engine::kDeviceToHost}) {
            CHECK(found.of(engine).bytes == counter.total(engine).bytes);
            CHECK(found.of(engine).seconds <= found.seconds * (1 + kRounding));
        }
        const double compute = found.of(Engine::kCompute).seconds;
        CHECK(found.seconds >= compute * (1 - kRounding));
        double phases = 0;
        for (const double seconds : found.phase_seconds) {
            phases += seconds;
        }
        CHECK(phases <= found.seconds * (1 + kRounding));
        // The compute lane is compute, waits for copies and waits for lists.
        CHECK(compute + found.exposed_copy_seconds + found.list_wait_seconds <= phases * (1 + kRounding));
        CHECK(found.list_wait_seconds >= 0);
        CHECK_FALSE(found.lists.empty());
        waited += found.list_wait_seconds;
        const Prediction again = simulator::simulate_in_larger_pages(plan, machine());
        CHECK(again.seconds == doctest::Approx(found.seconds).epsilon(kRounding));  // in two parts
        std::int64_t left_out = 0;
        CHECK(simulator::simulate_shortened(plan, machine(), &left_out).seconds == found.seconds);
        CHECK(left_out == 0);
    }
    CHECK(waited > 0);
}

TEST_CASE("the bound of compute holds with lists, and the compute engine is busy exactly so long") {
    RandomSteps random = selecting_steps(912);
    for (int i = 0; i < 60; ++i) {
        RandomStep step = next_selecting(random);
        step.run.optimizer = false;
        if (step.model.layers < 2 || step.run.offload != Offload::kNone) {
            continue;
        }
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const Prediction found = simulator::simulate_step(plan, machine());
        const double bound = simulator::ComputeBound(step.model, plan.run, machine()).sequence_seconds(plan.run);
        CHECK(bound <= found.of(Engine::kCompute).seconds * (1 + kRounding));
    }
}

TEST_CASE("a faster bus is not slower with lists, beyond the company that copies keep") {
    // Copies that end earlier meet other ones on the bus: as for dense steps, a share of a copy's time.
    RandomSteps random = selecting_steps(913);
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = next_selecting(random);
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        HardwareProfile fast = machine();
        for (SourcedRate* rate : {&fast.host_to_device_bytes, &fast.device_to_host_bytes,
                                  &fast.host_to_device_both_bytes, &fast.device_to_host_both_bytes}) {
            rate->per_second *= 4;
        }
        CHECK(simulator::simulate_step(plan, fast).seconds <= simulator::simulate_step(plan, machine()).seconds * 1.01);
    }
}

TEST_CASE("lists that name the latest pages fetch less than lists that name any") {
    RandomSteps random = selecting_steps(914);
    std::int64_t near = 0, any = 0;
    for (int i = 0; i < 60; ++i) {
        RandomStep step = next_selecting(random);
        step.run.offload = Offload::kHost;
        step.run.hbm_pages.mode = HbmPages::Mode::kRing;
        step.run.keep = Keep::kNone;
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        const auto bytes = [&](const simulator::Locality& locality) {
            return simulator::simulate_step(plan, machine(), nullptr, {locality, nullptr, nullptr})
                .of(Kind::kFetch)
                .bytes;
        };
        near += bytes({0, 8, 0, ""});
        any += bytes({0, 0, 0, ""});
    }
    CHECK(near < any * 9 / 10);
}

}  // namespace oomb::test
