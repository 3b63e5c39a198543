// The walk that leaves out what repeats against the full walk, its oracle.
#include "simulator/step/shortcut.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/core/known_hardware.hpp"
#include "simulator/step/prediction.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Plan;
using simulator::Prediction;

// An iteration that is left out is taken to be as long as its like, whose operations began up to kSlack of it off, and
// no operation passes on more than the largest error of those that it waits for: the step is off by no more than kSlack
// of itself. An iteration has up to some hundred operations whose waits are each off by that.
constexpr double kOfStep = simulator::Shortcut::kSlack;
constexpr double kOfWaits = 200 * kOfStep;

void check_equal(const Prediction& one, const Prediction& other) {
    CHECK(std::abs(one.seconds - other.seconds) <= kOfStep * other.seconds);
    CHECK(std::abs(one.exposed_copy_seconds - other.exposed_copy_seconds) <= kOfWaits * other.seconds);
    for (int phase = 0; phase < schedule::kPhases; ++phase) {
        CHECK(std::abs(one.phase_seconds[phase] - other.phase_seconds[phase]) <= kOfWaits * other.seconds);
        for (int engine = 0; engine < schedule::kEngines; ++engine) {
            for (int kind = 0; kind < schedule::kKinds; ++kind) {
                const simulator::Use& a = one.uses[phase][engine][kind];
                const simulator::Use& b = other.uses[phase][engine][kind];
                CAPTURE(phase);
                CAPTURE(name_of(static_cast<schedule::Kind>(kind)));
                CHECK(a.operations == b.operations);
                CHECK(a.bytes == b.bytes);
                CHECK(std::abs(a.seconds - b.seconds) <= kOfWaits * other.seconds);
            }
        }
    }
}

// From a host that takes no time to one that holds everything up.
void change_host(HardwareProfile& profile, testing::RandomSteps& random) {
    profile.submit.seconds = random.pick<double>({0, 5e-6, 2e-5, 2e-4, 2e-3});
    profile.submit_page.seconds = random.pick<double>({0, 1e-6, 2e-5});
}

void change_bus(HardwareProfile& profile, double factor) {
    for (SourcedRate* rate : {&profile.host_to_device_bytes, &profile.device_to_host_bytes,
                              &profile.host_to_device_both_bytes, &profile.device_to_host_both_bytes}) {
        rate->per_second *= factor;
    }
}

}  // namespace

TEST_CASE("random steps on random machines: the same numbers with iterations left out") {
    testing::RandomSteps random(
        901, {.layers = 14, .chunks = 14, .pages_per_chunk = 2, .page_tokens = {4, 16}, .local = true});
    int shortened = 0;
    for (int i = 0; i < 1500; ++i) {
        testing::RandomStep step = random.next();
        if (random.coin()) {  // as the search does
            step.run.offload = Offload::kHost;
            step.run.hbm_pages = {HbmPages::Mode::kCount, random.between(0, 60)};
            step.run.gpu_memory_bytes = 0;
        }
        const Plan plan = schedule::make_plan(step.model, step.run);
        HardwareProfile profile = machine();
        change_bus(profile, random.pick<double>({0.02, 0.2, 1, 5, 50}));
        change_host(profile, random);
        CAPTURE(i);
        std::int64_t left_out = 0;
        check_equal(simulator::simulate_shortened(plan, profile, &left_out), simulator::simulate_step(plan, profile));
        shortened += left_out > 0 ? 1 : 0;
    }
    CHECK(shortened > 300);
    MESSAGE("steps with iterations left out: " << shortened);
}

TEST_CASE("steps of a 7B model under memory budgets: the same numbers") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    testing::RandomSteps random(902);
    std::int64_t all_left_out = 0;
    for (int i = 0; i < 24; ++i) {
        RunConfiguration run;
        run.device = DeviceKind::kCuda;
        run.compute = DType::kBF16;
        run.page_tokens = run.chunk_tokens = 4096 << random.between(0, 1);
        run.window_tokens = run.chunk_tokens * random.between(1, 4);
        run.context_tokens = run.chunk_tokens * random.between(8, 40) - random.between(0, 1) * 1000;
        run.offload = Offload::kHost;
        run.keep = random.pick<Keep>({Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput});
        run.kept_pages = run.resident_shards = {Amount::Mode::kAuto, 0};
        run.gpu_memory_bytes = random.between(80, 139) * kGiB;
        run.host_memory_bytes = 400 * kGiB;
        if (random.coin()) {
            run.hbm_pages = {HbmPages::Mode::kCount, random.between(0, 200)};
        }
        const Plan plan = schedule::make_plan(model, run);
        HardwareProfile profile = default_hardware();
        change_bus(profile, random.pick<double>({0.05, 0.3, 1}));
        change_host(profile, random);
        CAPTURE(i);
        std::int64_t left_out = 0;
        check_equal(simulator::simulate_shortened(plan, profile, &left_out), simulator::simulate_step(plan, profile));
        all_left_out += left_out;
    }
    MESSAGE("operations left out: " << all_left_out);
    CHECK(all_left_out > 10'000);
}

// At a new chunk the host still hands over as fast as operations of the last one end, some thousand further back.
TEST_CASE("a host that is far ahead does not keep windows from being left out") {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.page_tokens = run.chunk_tokens = 4096;
    run.window_tokens = 16384;
    run.context_tokens = 512 * 1024;
    run.offload = Offload::kHost;
    run.hbm_pages = {HbmPages::Mode::kRing, 0};
    run.host_memory_bytes = 400 * kGiB;
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    const Plan plan = schedule::make_plan(model, run);
    std::int64_t left_out = 0;
    const Prediction prediction = simulator::simulate_shortened(plan, default_hardware(), &left_out);
    check_equal(prediction, simulator::simulate_step(plan, default_hardware()));
    // Of the layers of a chunk four of 28 are walked through, of their windows eight of up to 31: some 58,600
    // operations. With windows left out only once nothing of another chunk holds the host up it would be 162,000.
    std::int64_t all = 0;
    for (const schedule::Engine engine :
         {schedule::Engine::kCompute, schedule::Engine::kHostToDevice, schedule::Engine::kDeviceToHost}) {
        all += prediction.of(engine).operations;
    }
    MESSAGE("operations walked through: " << all - left_out << " of " << all);
    CHECK(all > 700'000);
    CHECK(all - left_out < all / 10);
}

}  // namespace oomb::test
