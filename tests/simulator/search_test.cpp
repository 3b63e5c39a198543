// The search against every setting there is, and the laws that its answers obey.
#include "simulator/search/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/core/error.hpp"
#include "runtime/core/known_hardware.hpp"
#include "tests/schedule/random_step.hpp"
#include "tests/simulator/machine.hpp"
#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

namespace {

using schedule::Plan;
using simulator::Freedom;
using simulator::Search;
using simulator::Setting;

constexpr Freedom kEverything{true, true, true, true, true, true, true, true, true};

// Of two answers both may be off by what counts as equal.
constexpr double kEqual = 2 * simulator::kEqualTimes;

Amount count(std::int64_t n) {
    return {Amount::Mode::kCount, n};
}

// What is lost by not looking at every setting.
constexpr double kSearchLoses = 0.01;
// With lists the search compares times that are told from some of the layers (layer_sample_test.cpp). What it takes
// may be so much slower than it seems, and what it leaves so much faster.
constexpr double kSampleError = 0.01;

// Visits the plan of every setting of this cut that the flags can name.
template <class Visit>
void for_each_placement(const ModelShape& model, RunConfiguration run, const Visit& visit) {
    const std::int64_t chunks = schedule::StepShape(model, run).chunks();
    for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
        run.keep = keep;
        const std::int64_t unit = keeps_input(keep) ? model.layers : 1;
        for (std::int64_t held = 0; held <= (keeps_input(keep) ? 0 : chunks); ++held) {
            run.held_chunks = count(held);
            const std::int64_t most = keep == Keep::kNone ? 0 : schedule::StepShape(model, run).keepable_chunks();
            for (std::int64_t kept = 0; kept <= most * model.layers; kept += unit) {
                run.kept_pages = count(kept);
                for (const HbmPages pages : {HbmPages{}, {HbmPages::Mode::kRing, 0}, {HbmPages::Mode::kCount, 0}}) {
                    run.hbm_pages = pages;
                    for (const Amount states : {Amount{Amount::Mode::kAuto, 0}, {Amount::Mode::kAll, 0}, Amount{}}) {
                        run.resident_shards = states;
                        visit(schedule::make_plan(model, run));
                    }
                }
            }
        }
    }
}

// Also over the cuts that are powers of two times the page, where `cuts_too`.
double least_of_all(const ModelShape& model, RunConfiguration run, const HardwareProfile& profile, bool cuts_too) {
    double least = INFINITY;
    const auto placements = [&] {
        for_each_placement(model, run, [&](const Plan& plan) {
            if (shortfalls(plan).empty()) {
                least = std::min(least, simulator::simulate_step(plan, profile).seconds);
            }
        });
    };
    if (!cuts_too) {
        placements();
        return least;
    }
    const std::int64_t context = run.context_tokens;
    for (run.chunk_tokens = run.page_tokens; run.chunk_tokens < 2 * context; run.chunk_tokens *= 2) {
        for (run.window_tokens = run.page_tokens; run.window_tokens < 2 * context; run.window_tokens *= 2) {
            placements();
        }
    }
    return least;
}

RunConfiguration whole_step(std::int64_t context_tokens) {
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = context_tokens;
    run.offload = Offload::kHost;
    run.resident_shards = {Amount::Mode::kAuto, 0};
    run.gpu_memory_bytes = 139 * kGiB;
    run.host_memory_bytes = 125 * kGiB;
    return run;
}

Setting best_of(const ModelShape& model, const RunConfiguration& run, const Freedom& freedom = kEverything,
                const HardwareProfile& profile = default_hardware()) {
    const auto best = Search(model, run, freedom, profile).best(run.gpu_memory_bytes, run.host_memory_bytes);
    REQUIRE(best);
    return *best;
}

const ModelShape& model_7b() {
    static const ModelShape kModel = read_model_shape(model_file("qwen2.5-7b"));
    return kModel;
}

}  // namespace

namespace {

// How much slower the search's answer is than the fastest of all settings, on a small random step whose budget is
// somewhere between the least and several times the least and whose bus is slow, usual or fast.
double lost(testing::RandomSteps& random, std::int64_t page_tokens, std::int64_t pages, bool cuts_too,
            std::int64_t top_k = 0) {
    testing::RandomStep step = random.next();
    step.model.vocab = 64;
    RunConfiguration& run = step.run = {};
    run.device = DeviceKind::kCuda;
    run.page_tokens = page_tokens;
    run.context_tokens = page_tokens * pages;
    run.chunk_tokens = run.window_tokens = cuts_too ? 2 * page_tokens : page_tokens;
    run.logit_tile_tokens = page_tokens;
    run.attention = top_k > 0 ? AttentionMode::kTopK : AttentionMode::kDense;
    run.top_k = top_k;
    run.offload = Offload::kHost;
    run.resident_shards = {Amount::Mode::kAuto, 0};
    run.shard_parameters = 512;
    run.host_memory_bytes = kGiB;
    HardwareProfile profile = machine();
    for (SourcedRate* rate : {&profile.host_to_device_bytes, &profile.device_to_host_bytes,
                              &profile.host_to_device_both_bytes, &profile.device_to_host_both_bytes}) {
        rate->per_second *= random.pick<double>({0.3, 1, 10});
    }
    RunConfiguration lean = run;
    lean.hbm_pages = {HbmPages::Mode::kRing, 0};
    lean.resident_shards = {};
    const Plan leanest = schedule::make_plan(step.model, lean);
    const std::int64_t least = leanest.peak_bytes(Tier::kHbm);
    run.gpu_memory_bytes = least + (least - leanest.driver_bytes() - 32 * kMiB) * random.between(1, 15) / 10;
    Freedom freedom = kEverything;
    freedom.logit_tile = freedom.offload = false;
    freedom.chunk = freedom.window = cuts_too;
    const Setting best = best_of(step.model, run, freedom, profile);
    CAPTURE(to_json(best.plan));
    CHECK(shortfalls(best.plan).empty());
    const double found = simulator::simulate_step(best.plan, profile).seconds;
    const double lost = found / least_of_all(step.model, run, profile, cuts_too) - 1;
    CHECK(lost <= (top_k > 0 ? kSearchLoses + 2 * kSampleError : kSearchLoses));
    return lost;
}

}  // namespace

TEST_CASE("within 1 % of the best of all settings, on small steps") {
    testing::RandomSteps random(801, {.layers = 2, .chunks = 1, .pages_per_chunk = 1, .page_tokens = {32}});
    double worst = 0;
    for (int i = 0; i < 15; ++i) {
        worst = std::max(worst, lost(random, 32, random.between(2, 5), true));
    }
    MESSAGE("worst: " << 100 * worst << " %");
}

TEST_CASE("within 1 % of the best of all settings of one cut") {
    testing::RandomSteps random(803, {.layers = 3, .chunks = 1, .pages_per_chunk = 1, .page_tokens = {256}});
    double worst = 0;
    for (int i = 0; i < 25; ++i) {
        worst = std::max(worst, lost(random, 256, random.between(2, 6), false));
    }
    MESSAGE("worst: " << 100 * worst << " %");
}

TEST_CASE("within 3 % of the best of all settings of one cut, with lists of top-K pages") {
    testing::RandomSteps random(804, {.layers = 8, .chunks = 1, .pages_per_chunk = 1, .page_tokens = {256}});
    double worst = 0;
    for (int i = 0; i < 20; ++i) {
        worst = std::max(worst, lost(random, 256, random.between(3, 6), false, 1));
    }
    MESSAGE("worst: " << 100 * worst << " %");
}

// Every setting of the first cut waits for one that no host holds up, and where there is none for the others. What is
// found has been walked through, in all layers.
TEST_CASE("where compute waits for the host: told from all layers, and none that was looked at is faster") {
    const ModelShape model = read_model_shape(model_file("smollm2-135m"));
    RunConfiguration run = whole_step(32 * kKiB);
    run.chunk_tokens = 1024;
    run.window_tokens = 8192;
    run.attention = AttentionMode::kTopK;
    run.top_k = 16;
    for (const bool cuts_too : {false, true}) {
        CAPTURE(cuts_too);
        Freedom freedom = kEverything;
        freedom.logit_tile = false;
        freedom.chunk = freedom.window = cuts_too;
        const Setting best = best_of(model, run, freedom);
        const auto seconds_of = [&](const RunConfiguration& other) {
            return simulator::simulate_in_larger_pages(schedule::make_plan(model, other), default_hardware()).seconds;
        };
        CHECK(best.seconds == doctest::Approx(seconds_of(best.run)).epsilon(1e-11));
        CHECK((cuts_too ? best.run.chunk_tokens > run.chunk_tokens : best.run.chunk_tokens == run.chunk_tokens));
        RunConfiguration lean = best.run, kept = best.run;
        lean.keep = Keep::kNone;
        lean.held_chunks = {};
        lean.kept_pages = {Amount::Mode::kAll, 0};
        kept = lean;
        kept.keep = Keep::kInputAndOutput;
        kept.kept_pages = {Amount::Mode::kAuto, 0};
        for (const RunConfiguration& other : {lean, kept}) {
            CHECK(best.seconds <= seconds_of(other) * (1 + kEqual));
        }
    }
}

TEST_CASE("more memory, more bandwidth and a shorter context are never slower") {
    HardwareProfile fast = default_hardware();
    for (SourcedRate* rate : {&fast.host_to_device_bytes, &fast.device_to_host_bytes, &fast.host_to_device_both_bytes,
                              &fast.device_to_host_both_bytes}) {
        rate->per_second *= 2;
    }
    double shorter = 0;
    for (const std::int64_t context : {16 * kKiB, 32 * kKiB, 100'000L, 128 * kKiB}) {
        RunConfiguration run = whole_step(context);
        double less_memory = INFINITY;
        for (const std::int64_t gib : {60, 90, 139}) {
            CAPTURE(context);
            CAPTURE(gib);
            run.gpu_memory_bytes = gib * kGiB;
            const Setting best = best_of(model_7b(), run);
            CHECK(best.plan.peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes);
            CHECK(best.seconds <= less_memory * (1 + kEqual));
            less_memory = std::min(less_memory, best.seconds);
            if (gib == 139) {
                CHECK(best.seconds >= shorter * (1 - kEqual));
                shorter = best.seconds;
                CHECK(best_of(model_7b(), run, kEverything, fast).seconds <= best.seconds * (1 + kEqual));
            }
        }
    }
}

TEST_CASE("never slower than lean, than what takes the fewest operations, or than less freedom") {
    for (const std::int64_t context : {8 * kKiB, 32 * kKiB, 128 * kKiB}) {
        for (const bool optimizer : {true, false}) {
            RunConfiguration run = whole_step(context);
            run.optimizer = optimizer;
            const auto seconds = [&](const RunConfiguration& other) {
                return simulator::simulate_step(schedule::make_plan(model_7b(), other), default_hardware()).seconds;
            };
            RunConfiguration lean = run, few = run;
            lean.hbm_pages = {HbmPages::Mode::kRing, 0};
            few.keep = Keep::kAuto;
            few.kept_pages = few.held_chunks = {Amount::Mode::kAuto, 0};
            const double least = best_of(model_7b(), run).seconds;
            CHECK(least <= seconds(lean) * (1 + kEqual));
            CHECK(least <= seconds(few) * (1 + kEqual));
            const Plan chosen = simulator::plan_for_time(model_7b(), few, default_hardware());
            const double chosen_seconds = simulator::simulate_step(chosen, default_hardware()).seconds;
            CHECK(chosen_seconds <= seconds(few) * (1 + kEqual));
            CHECK(least <= chosen_seconds * (1 + kEqual));
        }
    }
}

TEST_CASE("the whole step of a 7B model over 32K tokens: states stay in HBM, what is kept makes room") {
    RunConfiguration run = whole_step(32 * kKiB);
    run.chunk_tokens = 8192;
    run.window_tokens = 32768;
    run.keep = Keep::kAuto;
    run.kept_pages = run.held_chunks = {Amount::Mode::kAuto, 0};
    const Plan few = schedule::make_plan(model_7b(), run);
    const Plan chosen = simulator::plan_for_time(model_7b(), run, default_hardware());
    CHECK(few.resident_shards < few.host_shards);
    CHECK(chosen.host_shards == 0);
    CHECK(chosen.asked.keep == Keep::kAuto);
    CHECK(simulator::simulate_step(few, default_hardware()).seconds >
          1.2 * simulator::simulate_step(chosen, default_hardware()).seconds);
}

TEST_CASE("what is not free stays as it is; equal input, equal output") {
    testing::RandomSteps random(802);
    for (int i = 0; i < 25; ++i) {
        RunConfiguration run = whole_step(8192 * random.between(1, 8));
        const auto free = [&] { return random.coin(); };
        const Freedom freedom{free(), free(), free(), free(), free(), free(), free(), free(), free()};
        run.chunk_tokens = 4096;
        run.keep = random.pick<Keep>({Keep::kNone, Keep::kOutput});
        run.kept_pages = count(random.between(0, 30));
        run.held_chunks = count(random.between(0, 1));
        run.offload = random.coin() ? Offload::kHost : Offload::kNone;
        if (run.offload == Offload::kHost && random.coin()) {
            run.hbm_pages = {HbmPages::Mode::kCount, 100};
        }
        const auto best = Search(model_7b(), run, freedom, default_hardware()).best(139 * kGiB, 125 * kGiB);
        REQUIRE(best);
        const RunConfiguration& found = best->run;
        CAPTURE(to_json(best->plan));
        CHECK((freedom.chunk || found.chunk_tokens == run.chunk_tokens));
        CHECK((freedom.window || found.window_tokens == run.window_tokens));
        CHECK((freedom.logit_tile || found.logit_tile_tokens == run.logit_tile_tokens));
        CHECK((freedom.keep || found.keep == run.keep));
        CHECK(
            (freedom.kept_pages || found.keep == Keep::kNone || to_text(found.kept_pages) == to_text(run.kept_pages)));
        CHECK((freedom.held_chunks || to_text(found.held_chunks) == to_text(run.held_chunks)));
        CHECK((freedom.offload || found.offload == run.offload));
        CHECK((freedom.hbm_pages || to_text(found.hbm_pages) == to_text(run.hbm_pages)));
        CHECK((freedom.optimizer_states || states_text(found.resident_shards) == states_text(run.resident_shards)));
        CHECK(to_json(schedule::make_plan(model_7b(), found)) == to_json(best->plan));
        const auto again = Search(model_7b(), run, freedom, default_hardware()).best(139 * kGiB, 125 * kGiB);
        CHECK(to_json(again->plan) == to_json(best->plan));
        CHECK(again->seconds == best->seconds);
    }
}

TEST_CASE("nothing is found where nothing fits; a small budget is met by smaller cuts") {
    RunConfiguration run = whole_step(32 * kKiB);
    Search search(model_7b(), run, kEverything, default_hardware());
    CHECK_FALSE(search.best(30 * kGiB, 125 * kGiB));
    CHECK_FALSE(search.best(139 * kGiB, kMiB));
    run.optimizer = false;
    run.chunk_tokens = run.window_tokens = 32 * kKiB;
    CHECK(best_of(model_7b(), run).seconds > 0);
    run.gpu_memory_bytes = 45 * kGiB;
    const Setting small = best_of(model_7b(), run);
    CHECK(small.run.chunk_tokens < run.chunk_tokens);
}

}  // namespace oomb::test
