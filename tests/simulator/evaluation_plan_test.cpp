// oomb-plan fit --eval: plan and time of what oomb-train eval carries out.
#include <doctest/doctest.h>

#include "runtime/core/json.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/flags/training_flags.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Phase;
using simulator::Prediction;

PlanCall plan(const std::string& flags) {
    std::vector<std::string> arguments = words("fit --model " + model_file("qwen2.5-7b"));
    const std::vector<std::string> more = words(flags);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return call_plan(arguments);
}

}  // namespace

TEST_CASE("the plan is that of an evaluation, its command is oomb-train eval under the same flags") {
    const TemporaryFolder folder;
    const std::string json = (folder.path() / "plan.json").string();
    const PlanCall call = plan("--eval --context 128K --chunk 8K --window 32K --offload host --json " + json);
    CHECK(call.code == 0);
    CHECK(call.out.find("evaluate with it: oomb-train eval --model") != std::string::npos);
    CHECK(call.out.find("--context 128K --chunk 8K --window 32K --offload host --data DATA\n") != std::string::npos);
    CHECK(call.out.find("optimizer") == std::string::npos);
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = 128 * kKiB;
    run.chunk_tokens = 8 * kKiB;
    run.window_tokens = 32 * kKiB;
    run.offload = Offload::kHost;
    run.optimizer = false;
    run.forward_only = true;
    run.gpu_memory_bytes = 139 * kGiB;
    run.host_memory_bytes = 125 * kGiB;
    const schedule::Plan expected = schedule::make_plan(read_model_shape(model_file("qwen2.5-7b")), run);
    const Json file = read_json_file(json);
    CHECK(file["peak_bytes"] == Json::parse(to_json(expected))["peak_bytes"]);
    const Prediction time = simulator::predict_step(expected, default_hardware());
    CHECK(file["time"]["seconds"]["total"] == doctest::Approx(time.seconds));
    CHECK(time.phase_seconds[static_cast<std::size_t>(Phase::kForward)] == doctest::Approx(time.seconds).epsilon(0.01));
}

TEST_CASE("flags of training are refused beside --eval") {
    const std::vector<std::string> values = {"bf16", "remainder", "", "", "xo", "3", "1", "host", "100"};
    REQUIRE(values.size() == kTrainingFlags.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const PlanCall call = plan(std::string("--eval --context 32K ") + kTrainingFlags[i] + " " + values[i]);
        CAPTURE(call.err);
        CHECK(call.code == 2);
        CHECK(call.err.find(std::string(kTrainingFlags[i]) + " with --eval") != std::string::npos);
    }
}

TEST_CASE("random evaluations: one phase, no shorter than its compute; the same with iterations left out") {
    testing::RandomSteps random(941, {.top_k = true, .local = true, .evaluates = true});
    for (int i = 0; i < 150; ++i) {
        const testing::RandomStep step = random.next();
        const schedule::Plan evaluation = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(evaluation));
        const Prediction all = simulator::simulate_step(evaluation, machine());
        CHECK(all.seconds > 0);
        CHECK(all.seconds * (1 + 1e-11) >= all.of(schedule::Engine::kCompute).seconds);
        CHECK(all.phase_seconds[static_cast<std::size_t>(Phase::kBackward)] == 0.0);
        CHECK(all.phase_seconds[static_cast<std::size_t>(Phase::kOptimizer)] == 0.0);
        CHECK(simulator::simulate_shortened(evaluation, machine()).seconds ==
              doctest::Approx(all.seconds).epsilon(1e-9));
    }
}

}  // namespace oomb::test
