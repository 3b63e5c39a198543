// Times of settings that share what they have in common, against each simulated by itself.
#include "simulator/setting_times.hpp"

#include <doctest/doctest.h>

#include "runtime/schedule/optimizer_schedule.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"

namespace oomb::test {

namespace {

using schedule::Plan;
using simulator::Prediction;

// Two sums, of gradients and of the update, in place of one: some thousand terms, each rounded once.
constexpr double kRounding = 1e-11;

// The plan with every number of shards in HBM.
std::vector<Plan> plans_by_shards(const testing::RandomStep& step) {
    std::vector<Plan> plans;
    RunConfiguration run = step.run;
    run.gpu_memory_bytes = 0;
    const std::int64_t shards = schedule::optimizer_shards(schedule::StepShape(step.model, run)).count;
    for (std::int64_t resident = 0; resident <= shards; ++resident) {
        run.resident_shards = {Amount::Mode::kCount, resident};
        plans.push_back(schedule::make_plan(step.model, run));
    }
    return plans;
}

}  // namespace

TEST_CASE("of settings that differ in where optimizer states lie the gradients are simulated for each ring once") {
    testing::RandomSteps random(941, {.layers = 7, .top_k = true});
    const HardwareProfile profile = machine();
    std::size_t plans_in_all = 0, simulated = 0;
    int listed = 0;
    for (int i = 0; i < 200; ++i) {
        testing::RandomStep step = random.next();
        step.run.optimizer = true;
        step.run.shard_parameters = 1000;
        simulator::SettingTimes times(profile, simulator::default_locality());
        const std::vector<Plan> plans = plans_by_shards(step);
        for (const Plan& plan : plans) {
            CAPTURE(to_json(plan));
            const Prediction expected = simulator::simulate_in_larger_pages(plan, profile);
            CHECK(times.seconds_of(plan) == doctest::Approx(expected.seconds).epsilon(kRounding));
            const Prediction found = times.prediction_of(plan);
            CHECK(found.exposed_copy_seconds == doctest::Approx(expected.exposed_copy_seconds).epsilon(kRounding));
            CHECK(found.lists == expected.lists);
            for (const schedule::Engine engine :
                 {schedule::Engine::kCompute, schedule::Engine::kHostToDevice, schedule::Engine::kDeviceToHost}) {
                CHECK(found.of(engine).operations == expected.of(engine).operations);
                CHECK(found.of(engine).bytes == expected.of(engine).bytes);
                CHECK(found.of(engine).seconds == doctest::Approx(expected.of(engine).seconds).epsilon(kRounding));
            }
            listed += found.lists.empty() ? 0 : 1;
        }
        plans_in_all += plans.size();
        simulated += static_cast<std::size_t>(times.simulated());
        CHECK(times.simulated() <= schedule::kMostShardSlots + 1);
    }
    CHECK(listed > 50);
    CHECK(2 * simulated < plans_in_all);
}

TEST_CASE("what is simulated together is what is simulated alone") {
    testing::RandomSteps random(942, {.top_k = true});
    const HardwareProfile profile = machine();
    for (int i = 0; i < 30; ++i) {
        testing::RandomStep step = random.next();
        step.run.optimizer = true;
        const std::vector<Plan> plans = plans_by_shards(step);
        simulator::SettingTimes alone(profile, simulator::default_locality()), together = alone;
        together.simulate({&plans.front(), &plans.back(), &plans.front()});
        for (const Plan* plan : {&plans.front(), &plans.back()}) {
            CHECK(together.seconds_of(*plan) == alone.seconds_of(*plan));
        }
    }
}

}  // namespace oomb::test
