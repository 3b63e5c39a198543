// Regions are used within their lives, in slots that the plan has, on the bytes that the plan gives them alone.
#include <doctest/doctest.h>

#include <array>

#include "runtime/schedule/layout.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::Interference;
using schedule::kRegions;
using schedule::Operation;
using schedule::Plan;
using schedule::Region;
using schedule::RegionName;

// Follows each region through a step. One that is never begun holds its bytes from step to step.
class LifeChecker {
  public:
    explicit LifeChecker(const std::vector<Operation>& operations) {
        for (const Operation& operation : operations) {
            for (const auto& use : operation.regions) {
                has_lives_[index(use)] = has_lives_[index(use)] || use.begins;
            }
        }
    }

    void take(const Operation& operation) {
        for (const auto& use : operation.regions) {
            if (!has_lives_[index(use)]) {
                CHECK_FALSE(use.ends);
                continue;
            }
            CHECK_MESSAGE(live_[index(use)] != use.begins, to_text(operation.id), ": ", name_of(use.region));
            live_[index(use)] = !use.ends;
        }
    }
    bool all_ended() const {
        return std::none_of(live_.begin(), live_.end(), [](bool live) { return live; });
    }

  private:
    static std::size_t index(const schedule::RegionUse& use) { return static_cast<std::size_t>(use.region); }
    std::array<bool, kRegions> has_lives_{}, live_{};
};

void check_slots(const Plan& plan, const Operation& operation) {
    for (std::size_t i = 0; i < operation.regions.size(); ++i) {
        const auto& use = operation.regions[i];
        const Region& region = region_of(plan.regions, use.region);
        CHECK_MESSAGE((region.slot_bytes > 0 && use.slot < region.slots), to_text(operation.id), ": ",
                      name_of(use.region));
        for (std::size_t j = 0; j < i; ++j) {
            CHECK(operation.regions[j].region != use.region);
        }
    }
}

bool overlap(std::int64_t a, std::int64_t a_bytes, std::int64_t b, std::int64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

void check_bytes(const Plan& plan, const Interference& together) {
    std::int64_t end[kTiers] = {0, 0};
    for (std::size_t a = 0; a < kRegions; ++a) {
        const Region& region = plan.regions[a];
        CHECK(region.offset_bytes % schedule::kRegionAlignment_bytes == 0);
        auto& tier_end = end[static_cast<int>(region.tier)];
        tier_end = std::max(tier_end, region.offset_bytes + region.total_bytes());
        for (std::size_t b = 0; b < a; ++b) {
            const Region& other = plan.regions[b];
            const bool shared = region.tier == other.tier && overlap(region.offset_bytes, region.total_bytes(),
                                                                     other.offset_bytes, other.total_bytes());
            CHECK_MESSAGE(!(shared && together[a][b]), name_of(static_cast<RegionName>(a)), " and ",
                          name_of(static_cast<RegionName>(b)));
        }
    }
    for (const auto& pool : plan.pools) {  // pools follow the regions and one another
        CHECK(pool.frames > 0);
        auto& tier_end = end[static_cast<int>(pool.tier)];
        CHECK(pool.offset_bytes == tier_end);
        tier_end += pool.total_bytes();
        for (std::size_t plane = 0; plane < pool.plane_bytes.size(); ++plane) {
            CHECK(pool.plane_offset_bytes(plane + 1) >=
                  pool.plane_offset_bytes(plane) + pool.frames * pool.plane_bytes[plane]);
        }
    }
    CHECK(plan.arena_bytes[0] == end[0]);
    CHECK(plan.arena_bytes[1] == end[1]);
}

void check_step(const RandomStep& step, std::int64_t sequences) {
    CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
    const auto operations = operations_of(step.model, step.run, sequences);
    const Plan plan = schedule::make_plan(step.model, step.run);
    LifeChecker lives(operations);
    schedule::LivenessRecorder recorder;
    for (const Operation& operation : operations) {
        lives.take(operation);
        recorder.take(operation);
        check_slots(plan, operation);
    }
    CHECK(lives.all_ended());
    CHECK(schedule::interference_of(schedule::StepShape(step.model, step.run)) == recorder.interference());
    check_bytes(plan, recorder.interference());
}

TEST_CASE("lives, slots and bytes of random steps") {
    RandomSteps random(2024);
    for (int i = 0; i < 320; ++i) {
        check_step(random.next(), random.between(1, 2));
    }
}

TEST_CASE("lives, slots and bytes of random steps on own kernels") {
    for (const bool top_k : {false, true}) {
        RandomSteps random(2030, {.page_tokens = {128}, .top_k = top_k, .local = true, .own_kernels = true});
        for (int i = 0; i < 200; ++i) {
            check_step(random.next(), random.between(1, 2));
        }
    }
}

TEST_CASE("lives, slots and bytes of random steps with top-K pages") {
    for (const std::int64_t pages_per_chunk : {1, 2, 6}) {
        RandomSteps random(2026, {.chunks = 9, .pages_per_chunk = pages_per_chunk, .top_k = true});
        for (int i = 0; i < 200; ++i) {
            check_step(random.next(), 1);
        }
    }
}

TEST_CASE("lives, slots and bytes of random steps with sliding windows") {
    for (const std::int64_t pages_per_chunk : {1, 2, 6}) {
        RandomSteps random(2027, {.chunks = 9, .pages_per_chunk = pages_per_chunk, .local = true});
        for (int i = 0; i < 200; ++i) {
            check_step(random.next(), 1);
        }
    }
}

TEST_CASE("lives, slots and bytes of random evaluations") {
    for (const bool top_k : {false, true}) {
        RandomSteps random(2029, {.top_k = top_k, .local = !top_k, .evaluates = true});
        for (int i = 0; i < 200; ++i) {
            check_step(random.next(), 1);
        }
    }
}

TEST_CASE("a shorter sequence finds no regions live together that the plan lets share bytes") {
    RandomSteps random(2025, {.chunks = 8, .pages_per_chunk = 3, .top_k = true, .local = true});
    RandomSteps evaluations(2028, {.chunks = 8, .pages_per_chunk = 3, .top_k = true, .local = true, .evaluates = true});
    for (int i = 0; i < 600; ++i) {
        RandomStep step = i < 400 ? random.next() : evaluations.next();
        const Interference planned = schedule::interference_of(schedule::StepShape(step.model, step.run));
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        step.run.context_tokens = random.between(1, step.run.context_tokens);
        schedule::LivenessRecorder recorder;
        for (const Operation& operation : operations_of(step.model, step.run)) {
            recorder.take(operation);
        }
        const Interference found = recorder.interference();
        for (std::size_t a = 0; a < kRegions; ++a) {
            for (std::size_t b = 0; b < kRegions; ++b) {
                CHECK((planned[a][b] || !found[a][b]));
            }
        }
    }
}

TEST_CASE("regions whose lives never meet share bytes") {
    RandomSteps random(3);
    const RandomStep step = random.next();
    const Plan plan = schedule::make_plan(step.model, step.run);
    std::int64_t sum = 0;
    for (const Region& region : plan.regions) {
        sum += region.tier == Tier::kHbm ? region.total_bytes() : 0;
    }
    CHECK(plan.pools.front().tier == Tier::kHbm);
    CHECK(plan.pools.front().offset_bytes < sum);
}

}  // namespace
}  // namespace oomb::testing
