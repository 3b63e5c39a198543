// Predicting in larger pages against the full walk, its oracle.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "runtime/core/known_hardware.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Plan;
using simulator::Prediction;
using simulator::simulate_in_larger_pages;
using simulator::simulate_step;

// Some thousand terms, each rounded once, in the same order.
constexpr double kRounding = 1e-11;

void check_equal(const Prediction& one, const Prediction& other) {
    CHECK(one.seconds == doctest::Approx(other.seconds).epsilon(kRounding));
    CHECK(one.exposed_copy_seconds == doctest::Approx(other.exposed_copy_seconds).epsilon(kRounding));
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        CHECK(one.phase_seconds[phase] == doctest::Approx(other.phase_seconds[phase]).epsilon(kRounding));
        for (int engine = 0; engine < schedule::kEngines; ++engine) {
            for (int kind = 0; kind < schedule::kKinds; ++kind) {
                const simulator::Use& a = one.uses[phase][engine][kind];
                const simulator::Use& b = other.uses[phase][engine][kind];
                CHECK(a.operations == b.operations);
                CHECK(a.bytes == b.bytes);
                CHECK(a.seconds == doctest::Approx(b.seconds).epsilon(kRounding));
            }
        }
    }
}

}  // namespace

TEST_CASE("where homes end with a chunk larger pages change nothing at all") {
    testing::RandomSteps random(601, {.local = true});
    int larger = 0;
    for (int i = 0; i < 400; ++i) {
        testing::RandomStep step = random.next();
        step.run.gpu_memory_bytes = 0;
        if (step.run.offload == Offload::kHost) {
            step.run.hbm_pages = {HbmPages::Mode::kRing, 0};
        }
        const std::int64_t unit = std::gcd(step.run.chunk_tokens, step.run.window_tokens);
        step.run.context_tokens = schedule::divide_up(step.run.context_tokens, unit) * unit;
        const Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        check_equal(simulate_in_larger_pages(plan, machine()), simulate_step(plan, machine()));
        larger += unit > step.run.page_tokens ? 1 : 0;
    }
    CHECK(larger > 100);
}

TEST_CASE("homes that end anywhere, short last chunks: steps of a 7B model within 0.5 %") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    testing::RandomSteps random(602);
    double worst = 0;
    for (int i = 0; i < 40; ++i) {
        RunConfiguration run;
        run.device = DeviceKind::kCuda;
        run.compute = DType::kBF16;
        run.chunk_tokens = 1024 << random.between(0, 3);
        run.window_tokens = 4096 << random.between(0, 3);
        run.context_tokens = random.between(4 * run.chunk_tokens, 16 * run.chunk_tokens);
        run.offload = Offload::kHost;
        run.keep = random.pick<Keep>({Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput});
        run.kept_pages = {Amount::Mode::kAuto, 0};
        run.resident_shards = {Amount::Mode::kAuto, 0};
        run.gpu_memory_bytes = random.between(60, 139) * kGiB;
        run.host_memory_bytes = 125 * kGiB;
        if (random.coin()) {
            run.hbm_pages = {HbmPages::Mode::kCount, random.between(0, 20'000)};
        }
        const Plan plan = schedule::make_plan(model, run);
        CAPTURE(to_json(plan));
        // The bus of the profile, and one that is too slow to hide behind attention.
        HardwareProfile profile = default_hardware();
        for (const double slower : {1.0, 10.0}) {
            for (SourcedRate* rate : {&profile.host_to_device_bytes, &profile.device_to_host_bytes,
                                      &profile.host_to_device_both_bytes, &profile.device_to_host_both_bytes}) {
                rate->per_second /= slower;
            }
            const double exact = simulate_step(plan, profile).seconds;
            const double error = std::abs(simulate_in_larger_pages(plan, profile).seconds / exact - 1);
            CHECK(error <= 0.005);
            worst = std::max(worst, error);
        }
    }
    MESSAGE("worst: " << 100 * worst << " %");
}

TEST_CASE("short steps are predicted in their own pages") {
    const ModelShape model = read_model_shape(model_file("smollm2-135m"));
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = 20'000;
    run.chunk_tokens = 1024;
    run.offload = Offload::kHost;
    run.hbm_pages = {HbmPages::Mode::kCount, 700};
    const Plan plan = schedule::make_plan(model, run);
    const double exact = simulate_step(plan, default_hardware()).seconds;
    CHECK(simulator::predict_step(plan, default_hardware()).seconds == doctest::Approx(exact).epsilon(kRounding));
    CHECK(simulate_in_larger_pages(plan, default_hardware()).seconds != doctest::Approx(exact).epsilon(kRounding));
}

}  // namespace oomb::test
