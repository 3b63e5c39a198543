#include "simulator/report/plan_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/simulator/plan_call.hpp"

namespace oomb::test {

using schedule::RegionName;

namespace {

std::vector<RunConfiguration> runs() {
    std::vector<RunConfiguration> list;
    for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
        for (const std::int64_t context : {1, 100, 4096, 50'001, 1 << 20}) {
            for (const Keep keep : {Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}) {
                RunConfiguration run;
                run.device = device;
                run.context_tokens = context;
                run.keep = keep;
                run.compute = device == DeviceKind::kCuda ? DType::kBF16 : DType::kF64;
                run.accumulator = device == DeviceKind::kCuda ? DType::kF32 : DType::kF64;
                run.optimizer = keep == Keep::kNone;
                list.push_back(run);
                run.offload = Offload::kHost;
                run.gpu_memory_bytes = std::int64_t{139} << 30;
                list.push_back(run);
                run.hbm_pages = {HbmPages::Mode::kRing, 0};
                list.push_back(run);
                run.hbm_pages = {HbmPages::Mode::kCount, 1000};
                run.resident_shards = {Amount::Mode::kAuto, 0};
                list.push_back(run);
                run.kept_pages = {Amount::Mode::kCount, 17};
                run.resident_shards = {Amount::Mode::kCount, 3};
                run.held_chunks = {Amount::Mode::kCount, keeps_input(keep) ? 0 : 2};
                list.push_back(run);
                run.attention = AttentionMode::kTopK;
                run.top_k = 20;
                list.push_back(run);
                run.forward_only = true;
                run.optimizer = false;
                run.keep = Keep::kNone;
                run.held_chunks = {};
                list.push_back(run);
                run.attention = AttentionMode::kDense;
                run.top_k = 0;
                run.recall_budgets = {1, 4};
                list.push_back(run);
            }
        }
    }
    return list;
}

// Bytes [begin, end) of a region.
struct Extent {
    std::int64_t begin, end;
};
Extent extent_of(const schedule::Region& region) {
    return {region.offset_bytes, region.offset_bytes + region.total_bytes()};
}

}  // namespace

TEST_CASE("the lines of each tier add up to its peak, to the byte") {
    for (const auto& file : model_files()) {
        const ModelShape model = read_model_shape(file);
        for (const RunConfiguration& run : runs()) {
            const schedule::Plan plan = schedule::make_plan(model, run);
            std::int64_t sums[kTiers] = {0, 0};
            for (const simulator::PlanLine& line : simulator::lines_of(plan)) {
                CHECK(line.bytes > 0);
                CHECK_FALSE(line.name.empty());
                CHECK_FALSE(line.explanation.empty());
                sums[static_cast<int>(line.tier)] += line.is_member ? 0 : line.bytes;
            }
            CHECK(sums[0] == plan.peak_bytes(Tier::kHbm));
            CHECK(sums[1] == plan.peak_bytes(Tier::kHost));
        }
    }
}

TEST_CASE("a region with a line of its own shares no byte with any other region") {
    for (const auto& file : model_files()) {
        const ModelShape model = read_model_shape(file);
        for (const RunConfiguration& run : runs()) {
            const schedule::Plan plan = schedule::make_plan(model, run);
            for (const simulator::PlanLine& line : simulator::lines_of(plan)) {
                for (int i = 0; i < schedule::kRegions && !line.is_member; ++i) {
                    const schedule::Region& region = plan.regions[static_cast<std::size_t>(i)];
                    if (schedule::name_of(static_cast<RegionName>(i)) != line.name || region.tier != line.tier) {
                        continue;
                    }
                    const Extent own = extent_of(region);
                    for (int j = 0; j < schedule::kRegions; ++j) {
                        const schedule::Region& other = plan.regions[static_cast<std::size_t>(j)];
                        const Extent extent = extent_of(other);
                        const bool overlaps = own.begin < extent.end && extent.begin < own.end;
                        CHECK((i == j || other.tier != region.tier || !overlaps));
                    }
                }
            }
        }
    }
}

TEST_CASE("no member of the working buffers is larger than they are together") {
    const ModelShape model = read_model_shape(model_file("qwen2.5-7b"));
    for (const RunConfiguration& run : runs()) {
        std::int64_t working = 0;
        int members = 0;
        for (const simulator::PlanLine& line : simulator::lines_of(schedule::make_plan(model, run))) {
            working = line.name == "working buffers" ? line.bytes : working;
            CHECK((!line.is_member || line.bytes <= working));
            members += line.is_member;
        }
        CHECK(working > 0);
        CHECK(members == 6);
    }
}

}  // namespace oomb::test
