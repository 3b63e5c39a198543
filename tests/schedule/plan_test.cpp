// Plans: what the HBM budget buys, and what does not grow with the context.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>

#include "runtime/core/error.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::make_plan;
using schedule::Plan;

RunConfiguration offloaded_run(std::int64_t context) {
    RunConfiguration run;
    run.context_tokens = context;
    run.chunk_tokens = 64;
    run.page_tokens = 16;
    run.window_tokens = 128;
    run.logit_tile_tokens = 32;
    run.offload = Offload::kHost;
    return run;
}

TEST_CASE("with a ring of pages and nothing kept, HBM does not grow with the context") {
    const ModelShape model = RandomSteps(4).next().model;
    RunConfiguration run = offloaded_run(1000);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const Plan first = make_plan(model, run);
    std::int64_t host = first.peak_bytes(Tier::kHost);
    CHECK(first.pool(Tier::kHbm, PageClass::kKv)->frames == 2 * (128 + 64) / 16);  // two windows and two chunks
    CHECK(first.pool(Tier::kHbm, PageClass::kKvGradient)->frames == 2 * (128 + 64) / 16);
    for (const std::int64_t context : {1100, 4096, 1000000}) {
        run.context_tokens = context;
        const Plan plan = make_plan(model, run);
        CHECK(plan.peak_bytes(Tier::kHbm) == first.peak_bytes(Tier::kHbm));
        CHECK(plan.peak_bytes(Tier::kHost) > host);
        host = plan.peak_bytes(Tier::kHost);
    }
}

TEST_CASE("auto takes the most pages that the budget holds, no budget takes all") {
    RandomSteps random(5);
    const ModelShape model = random.next().model;
    RunConfiguration run = offloaded_run(700);
    const Plan all = make_plan(model, run);
    CHECK(all.resident_pages == schedule::StepShape(model, run).total_pages());
    CHECK(all.pool(Tier::kHost, PageClass::kKv) == nullptr);
    CHECK(all.pool(Tier::kHost, PageClass::kKvGradient) == nullptr);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const std::int64_t least = make_plan(model, run).peak_bytes(Tier::kHbm);
    for (int i = 0; i < 50; ++i) {
        run.hbm_pages.mode = HbmPages::Mode::kAuto;
        run.gpu_memory_bytes = random.between(least, all.peak_bytes(Tier::kHbm) - 1);
        const Plan plan = make_plan(model, run);
        CHECK(plan.peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes);
        CHECK(shortfalls(plan).empty());
        RunConfiguration more = run;
        more.hbm_pages = {HbmPages::Mode::kCount, plan.resident_pages + 1};
        CHECK(make_plan(model, more).peak_bytes(Tier::kHbm) > run.gpu_memory_bytes);
    }
}

RunConfiguration keeping_run(Keep keep, Amount kept_pages) {
    RunConfiguration run = offloaded_run(700);
    run.keep = keep;
    run.kept_pages = kept_pages;
    return run;
}

// Of one kept page.
std::int64_t page_bytes(const Plan& plan) {
    const auto& planes = plan.pool(Tier::kHbm, PageClass::kActivation)->plane_bytes;
    return std::accumulate(planes.begin(), planes.end(), std::int64_t{0});
}

constexpr Amount kAuto{Amount::Mode::kAuto, 0};
constexpr Amount kAll{Amount::Mode::kAll, 0};

TEST_CASE("kept pages have their home in HBM before K/V pages do, and with a ring on the host") {
    RandomSteps random(8);
    const ModelShape model = random.next().model;
    for (const Keep keep : {Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
        RunConfiguration run = keeping_run(keep, kAll);
        const Plan everything = make_plan(model, run);
        CHECK(everything.kept_host == 0);
        CHECK(everything.resident_pages == schedule::StepShape(model, run).total_pages());
        run.hbm_pages.mode = HbmPages::Mode::kRing;
        const Plan ring = make_plan(model, run);
        CHECK(ring.kept_hbm == 0);
        CHECK(ring.kept_host == everything.kept_hbm);
        run.hbm_pages.mode = HbmPages::Mode::kAuto;
        for (int i = 0; i < 40; ++i) {
            run.gpu_memory_bytes = random.between(ring.peak_bytes(Tier::kHbm), everything.peak_bytes(Tier::kHbm) - 1);
            const Plan plan = make_plan(model, run);
            CHECK(plan.peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes);
            CHECK(plan.kept_pages() == ring.kept_host);
            // One more in HBM would not fit beside the ring.
            const std::int64_t one_more = ring.peak_bytes(Tier::kHbm) + (plan.kept_hbm + 1) * page_bytes(everything);
            CHECK((plan.kept_host == 0 || one_more > run.gpu_memory_bytes));
        }
    }
}

TEST_CASE("auto keeps the most pages for which both tiers have room, whole chunks of layer inputs") {
    RandomSteps random(9);
    const ModelShape model = random.next().model;
    for (const Keep keep : {Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
        CAPTURE(name_of(keep));
        RunConfiguration run = keeping_run(keep, kAuto);
        const Plan everything = make_plan(model, run);
        CHECK(everything.kept_pages() == make_plan(model, keeping_run(keep, kAll)).kept_pages());
        run.kept_pages = {Amount::Mode::kCount, 0};
        run.hbm_pages.mode = HbmPages::Mode::kRing;
        const Plan least = make_plan(model, run);
        CHECK(least.kept_pages() == 0);
        run.hbm_pages.mode = HbmPages::Mode::kAuto;
        run.kept_pages = kAuto;
        std::int64_t some = 0;
        for (int i = 0; i < 40; ++i) {
            const std::int64_t kept_bytes = everything.pool(Tier::kHbm, PageClass::kActivation)->total_bytes();
            const std::int64_t least_hbm = least.peak_bytes(Tier::kHbm), least_host = least.peak_bytes(Tier::kHost);
            run.gpu_memory_bytes = random.between(least_hbm, least_hbm + kept_bytes);
            run.host_memory_bytes = random.between(least_host, least_host + kept_bytes / 2);
            const Plan plan = make_plan(model, run);
            CHECK(shortfalls(plan).empty());
            CHECK((keep == Keep::kOutput || plan.kept_pages() % model.layers == 0));
            if (plan.kept_pages() < everything.kept_pages()) {
                RunConfiguration more = run;
                const std::int64_t unit = keep == Keep::kOutput ? 1 : model.layers;
                more.kept_pages = {Amount::Mode::kCount, plan.kept_pages() + unit};
                CHECK_FALSE(shortfalls(make_plan(model, more)).empty());
                some += plan.kept_pages() > 0 ? 1 : 0;
            }
        }
        CHECK(some > 5);
    }
}

TEST_CASE("where nothing fits auto keeps nothing") {
    RunConfiguration run = keeping_run(Keep::kOutput, kAuto);
    run.gpu_memory_bytes = run.host_memory_bytes = 1;
    const Plan plan = make_plan(RandomSteps(8).next().model, run);
    CHECK(plan.kept_pages() == 0);
    CHECK(shortfalls(plan).size() == 2);
}

TEST_CASE("shards cover the parameters once; what is not in HBM is on the host, to the byte") {
    RandomSteps random(13);
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        const Plan plan = make_plan(step.model, step.run);
        const auto shards = schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run));
        CHECK(plan.resident_shards + plan.host_shards == shards.count);
        std::int64_t covered = 0;
        for (std::int64_t shard = 0; shard < shards.count; ++shard) {
            CHECK(shards.first(shard) == covered);
            CHECK(shards.size(shard) > 0);
            covered += shards.size(shard);
        }
        CHECK(covered == (step.run.optimizer ? step.model.parameters() : 0));
        const auto bytes = [&](schedule::RegionName name) { return region_of(plan.regions, name).total_bytes(); };
        CHECK(bytes(schedule::RegionName::kHostStates) == plan.host_shards * shards.slot_bytes());
        CHECK(bytes(schedule::RegionName::kOptimizerShard) ==
              std::min<std::int64_t>(3, plan.host_shards) * shards.slot_bytes());
        CHECK((plan.resident_shards > 0) == (bytes(schedule::RegionName::kMoments) > 0));
    }
}

// Per parameter: a weight of 2 bytes, a gradient, m and v of 4 each, and the master weight.
TEST_CASE("bytes of gradients and of optimizer states, by type") {
    const ModelShape model = RandomSteps(14).next().model;
    RunConfiguration run = offloaded_run(700);
    run.compute = DType::kBF16;
    run.shard_parameters = 512;
    const std::int64_t parameters = model.parameters();
    for (const bool bf16_gradients : {false, true}) {
        for (const bool split : {false, true}) {
            run.bf16_gradients = bf16_gradients;
            run.split_masters = split;
            for (const Amount resident : {Amount{Amount::Mode::kAll, 0}, Amount{}}) {
                run.resident_shards = resident;
                const Plan plan = make_plan(model, run);
                const auto bytes = [&](schedule::RegionName name) {
                    return region_of(plan.regions, name).total_bytes();
                };
                CHECK(bytes(schedule::RegionName::kGradients) ==
                      schedule::aligned(parameters * (bf16_gradients ? 2 : 4)));
                CHECK(bytes(schedule::RegionName::kVectorGradients) ==
                      (bf16_gradients ? schedule::aligned(4 * model.vector_parameters()) : 0));
                const auto shards = schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run));
                const std::int64_t master = split ? 2 : 4;
                CHECK(shards.state_bytes() == 8 + master);
                CHECK(shards.slot_bytes() % schedule::kRegionAlignment_bytes == 0);
                CHECK(bytes(schedule::RegionName::kMasterWeights) ==
                      schedule::aligned(master * shards.resident_elements()));
                CHECK(bytes(schedule::RegionName::kHostStates) == plan.host_shards * shards.elements * (8 + master));
            }
        }
    }
}

TEST_CASE("auto: in HBM kept pages come first, then optimizer states, then K/V pages") {
    RandomSteps random(14);
    const ModelShape model = random.next().model;
    for (const Keep keep : {Keep::kNone, Keep::kInputAndOutput}) {
        RunConfiguration run = keeping_run(keep, kAll);
        run.compute = DType::kBF16;
        run.shard_parameters = model.parameters() / 20;
        const Plan everything = make_plan(model, run);
        CHECK(everything.host_shards == 0);
        run.resident_shards = kAuto;
        CHECK(make_plan(model, run).host_shards == 0);  // no budget
        RunConfiguration least = run;
        least.resident_shards = {Amount::Mode::kCount, 0};
        least.hbm_pages.mode = HbmPages::Mode::kRing;
        const std::int64_t least_bytes = make_plan(model, least).peak_bytes(Tier::kHbm);
        int some_shards = 0, some_pages = 0;
        for (int i = 0; i < 240; ++i) {
            run.gpu_memory_bytes = random.between(least_bytes, everything.peak_bytes(Tier::kHbm) + 1000);
            const Plan plan = make_plan(model, run);
            RunConfiguration changed = run;
            changed.resident_shards = {Amount::Mode::kCount, 0};
            CHECK(plan.kept_hbm == make_plan(model, changed).kept_hbm);
            const auto has_no_room = [&](std::int64_t shards, std::int64_t pages) {
                changed.resident_shards = {Amount::Mode::kCount, shards};
                changed.hbm_pages = {HbmPages::Mode::kCount, pages};
                const Plan larger = make_plan(model, changed);
                return larger.peak_bytes(Tier::kHbm) > run.gpu_memory_bytes || larger.kept_hbm < plan.kept_hbm;
            };
            CHECK((plan.host_shards == 0 || has_no_room(plan.resident_shards + 1, 0)));
            CHECK((plan.resident_pages == everything.resident_pages ||
                   has_no_room(plan.resident_shards, plan.resident_pages + 1)));
            CHECK(plan.peak_bytes(Tier::kHbm) <= run.gpu_memory_bytes);
            some_shards += plan.resident_shards > 0 && plan.host_shards > 0 ? 1 : 0;
            some_pages += plan.resident_pages > 0 && plan.resident_pages < everything.resident_pages ? 1 : 0;
        }
        CHECK(some_shards > 5);
        CHECK(some_pages > 5);
        CHECK(least_bytes < everything.peak_bytes(Tier::kHbm));
    }
}

TEST_CASE("kept pages leave the host the optimizer states that have no room in HBM") {
    const ModelShape model = RandomSteps(15).next().model;
    RunConfiguration run = keeping_run(Keep::kOutput, kAuto);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.shard_parameters = model.parameters() / 20;
    run.resident_shards = {Amount::Mode::kCount, 0};
    const std::int64_t host = make_plan(model, run).peak_bytes(Tier::kHost);
    run.host_memory_bytes = host - 1;
    const Plan plan = make_plan(model, run);
    CHECK(shortfalls(plan).empty());
    CHECK(plan.kept_pages() < make_plan(model, keeping_run(Keep::kOutput, kAll)).kept_pages());
    CHECK(plan.host_shards > 0);
}

TEST_CASE("what does not fit is said by tier, needed and available bytes") {
    const ModelShape model = RandomSteps(6).next().model;
    RunConfiguration run = offloaded_run(700);
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    const Plan plan = make_plan(model, run);
    run.gpu_memory_bytes = plan.peak_bytes(Tier::kHbm);
    run.host_memory_bytes = plan.peak_bytes(Tier::kHost);
    CHECK(shortfalls(make_plan(model, run)).empty());
    --run.gpu_memory_bytes;
    --run.host_memory_bytes;
    const auto found = shortfalls(make_plan(model, run));
    REQUIRE(found.size() == 2);
    for (const auto& shortfall : found) {
        CHECK(shortfall.needed_bytes == plan.peak_bytes(shortfall.tier));
        CHECK(shortfall.available_bytes == shortfall.needed_bytes - 1);
    }
}

TEST_CASE("the longest context that a plan takes, to the token, and the flag that limits it") {
    const ModelShape model = RandomSteps(4).next().model;
    RunConfiguration run = offloaded_run(1);
    const auto check_limit = [&](std::int64_t tokens, std::string_view flag) {
        CAPTURE(flag);
        const schedule::ContextLimit limit = schedule::context_limit(run);
        CHECK(limit.tokens == tokens);
        CHECK(limit.flag == flag);
        RunConfiguration longest = run;
        longest.context_tokens = tokens;
        CHECK_NOTHROW(make_plan(model, longest));
        ++longest.context_tokens;
        const std::string message = fmt::format("{}:", flag);
        try {
            make_plan(model, longest);
            FAIL("a longer context is planned");
        } catch (const UsageError& error) {
            CHECK(std::string_view(error.what()).starts_with(message));
        }
    };
    check_limit(65536 * 64, "--chunk");
    run.chunk_tokens = run.window_tokens = 1 << 20;
    check_limit(1 << 30, "--context");
    run.chunk_tokens = 8192;
    run.window_tokens = 1024;
    // 2^18 - 1 windows before the last chunk: 32767 chunks and 7 windows.
    check_limit(32768 * 8192, "--window");
    run.window_tokens = 48;  // no divisor of the chunk: 262143 x 48 / 8192 = 1535.99
    check_limit(1536 * 8192, "--window");
    run.attention = AttentionMode::kLocal;  // whose parts are within reach of its window
    run.local_window = 4096;
    check_limit(65536 * 8192, "--chunk");
    run.attention = AttentionMode::kDense;
    run.local_window = 0;
    run.chunk_tokens = 1 << 20;
    run.logit_tile_tokens = 1;
    check_limit(1 << 19, "--logit-tile");
    run = offloaded_run(1);
    run.page_tokens = 1;
    run.chunk_tokens = 1 << 19;
    run.window_tokens = 1 << 14;
    run.attention = AttentionMode::kTopK;
    run.top_k = 1 << 14;
    check_limit(1 << 19, "--page-tokens");
}

TEST_CASE("a plan is a function of its arguments") {
    RandomSteps random(7);
    for (int i = 0; i < 20; ++i) {
        const RandomStep step = random.next();
        CHECK(to_json(make_plan(step.model, step.run)) == to_json(make_plan(step.model, step.run)));
    }
}

}  // namespace
}  // namespace oomb::testing
