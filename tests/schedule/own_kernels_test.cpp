// --attention-kernels own: the schedule of cuDNN without merges and without room for parts, and the bytes that leaves.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/schedule/key_parts.hpp"
#include "runtime/schedule/region_sizes.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::AttentionCost;
using schedule::Kind;
using schedule::Operation;
using schedule::Plan;
using schedule::RegionName;
using schedule::StepShape;

RandomSteps random_steps(std::uint64_t seed) {
    return RandomSteps(
        seed, {.layers = 4, .chunks = 7, .page_tokens = {128}, .top_k = true, .local = true, .own_kernels = true});
}

RunConfiguration by(AttentionKernels kernels, RunConfiguration run) {
    run.attention_kernels = kernels;
    return run;
}

bool is_attention(const Operation& operation) {
    return std::holds_alternative<AttentionCost>(operation.cost);
}

bool uses(const Operation& operation, RegionName name) {
    return std::any_of(operation.regions.begin(), operation.regions.end(),
                       [&](const schedule::RegionUse& use) { return use.region == name; });
}

// The same operations on the same pages, in the same order.
void check_same_operation(const Operation& own, const Operation& other) {
    CHECK(own.id == other.id);
    CHECK(own.engine == other.engine);
    CHECK(own.rows == other.rows);
    CHECK(own.first_row == other.first_row);
    CHECK(own.requests.size() == other.requests.size());
    for (std::size_t i = 0; i < std::min(own.requests.size(), other.requests.size()); ++i) {
        CHECK(own.requests[i].use == other.requests[i].use);
        CHECK(own.requests[i].pages.first == other.requests[i].pages.first);
        CHECK(own.requests[i].pages.count == other.requests[i].pages.count);
        CHECK(own.requests[i].bound == other.requests[i].bound);
    }
    if (is_attention(own)) {
        const auto &a = std::get<AttentionCost>(own.cost), &b = std::get<AttentionCost>(other.cost);
        CHECK(a.own_kernels);
        CHECK_FALSE(b.own_kernels);
        CHECK(a.first_query == b.first_query);
        CHECK(a.queries == b.queries);
        CHECK(a.first_key == b.first_key);
        CHECK(a.keys == b.keys);
        CHECK(a.sliding_window == b.sliding_window);
        CHECK(a.listed == b.listed);
    } else {
        CHECK(own.regions.size() == other.regions.size());
    }
}

TEST_CASE("the operations are those of cuDNN but for its merges; attention writes the sums") {
    RandomSteps random = random_steps(1);
    std::int64_t merges = 0, masked = 0, listed = 0;
    for (int i = 0; i < 150; ++i) {
        const RandomStep step = random.next();
        CAPTURE(to_json(schedule::make_plan(step.model, step.run)));
        const auto own = operations_of(step.model, step.run);
        auto other = operations_of(step.model, by(AttentionKernels::kCudnn, step.run));
        merges += std::erase_if(other, [](const Operation& operation) { return operation.id.kind == Kind::kMerge; });
        REQUIRE(own.size() == other.size());
        for (std::size_t at = 0; at < own.size(); ++at) {
            check_same_operation(own[at], other[at]);
            if (own[at].id.kind == Kind::kAttention) {
                const auto& cost = std::get<AttentionCost>(own[at].cost);
                CHECK(uses(own[at], RegionName::kOutputSum));
                CHECK(uses(own[at], RegionName::kLogSumExp));
                masked += cost.sliding_window > 0 ? 1 : 0;
                listed += cost.listed ? 1 : 0;
            }
            for (const RegionName name :
                 {RegionName::kOutputPart, RegionName::kLogSumExpPart, RegionName::kAttentionScratch}) {
                CHECK_FALSE(uses(own[at], name));
            }
        }
    }
    CHECK(merges > 500);
    CHECK(masked > 200);
    CHECK(listed > 500);
}

TEST_CASE("the plan has no room for parts; turns alone are more where runs are deterministic") {
    RandomSteps random = random_steps(2);
    for (int i = 0; i < 150; ++i) {
        RandomStep step = random.next();
        step.run.gpu_memory_bytes = 0;
        step.run.deterministic = false;
        const Plan own = schedule::make_plan(step.model, step.run);
        const Plan other = schedule::make_plan(step.model, by(AttentionKernels::kCudnn, step.run));
        CAPTURE(to_json(own));
        const auto bytes = [](const Plan& plan, RegionName name) {
            return region_of(plan.regions, name).total_bytes();
        };
        for (const RegionName name :
             {RegionName::kOutputPart, RegionName::kLogSumExpPart, RegionName::kAttentionScratch}) {
            CHECK(bytes(own, name) == 0);
        }
        CHECK(own.peak_bytes(Tier::kHbm) <= other.peak_bytes(Tier::kHbm));
        CHECK(own.peak_bytes(Tier::kHost) == other.peak_bytes(Tier::kHost));
        step.run.deterministic = true;
        const Plan ordered = schedule::make_plan(step.model, step.run);
        const std::int64_t query_pages = schedule::divide_up(StepShape(step.model, step.run).longest_chunk(), 128);
        const std::int64_t turns = 4 * (4 * step.model.query_heads * query_pages + 1);
        CHECK(schedule::workspace(StepShape(step.model, step.run)).turns_count * 4 == turns);
        CHECK(bytes(ordered, RegionName::kWorkspace) - bytes(own, RegionName::kWorkspace) == schedule::aligned(turns));
        CHECK(ordered.arena_bytes[0] - own.arena_bytes[0] == schedule::aligned(turns));
    }
}

// What cuDNN's deterministic backward wants: 2 bytes for each pair of a chunk and a window, and head.
TEST_CASE("a deterministic 7B run needs gigabytes less") {
    ModelShape model = random_steps(3).next().model;
    model.layers = 2;
    model.query_heads = 28;
    model.kv_heads = 4;
    model.head_dim = 128;
    RunConfiguration run;
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.context_tokens = 128 * 1024;
    run.chunk_tokens = 8192;
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    run.deterministic = true;
    const auto peak = [&](AttentionKernels kernels) {
        return schedule::make_plan(model, by(kernels, run)).peak_bytes(Tier::kHbm);
    };
    const std::int64_t of_pairs = std::int64_t{2} * 28 * 8192 * 16384;
    CHECK(peak(AttentionKernels::kCudnn) - peak(AttentionKernels::kOwn) >= of_pairs / 2);
    CHECK(peak(AttentionKernels::kAuto) == peak(AttentionKernels::kCudnn));
}

TEST_CASE("the plan decides, in larger pages and fewer layers too, and says so in its file") {
    RandomStep step = random_steps(4).next();
    step.run.chunk_tokens = 512;
    step.run.window_tokens = 1024;
    step.run.context_tokens = 4096;
    step.run.attention = AttentionMode::kDense;
    step.run.top_k = step.run.local_window = step.run.sinks = 0;
    step.model.sliding_windows.clear();
    for (const auto& [asked, decided] : {std::pair{AttentionKernels::kOwn, AttentionKernels::kOwn},
                                         {AttentionKernels::kCudnn, AttentionKernels::kCudnn},
                                         {AttentionKernels::kAuto, AttentionKernels::kCudnn}}) {
        const Plan plan = schedule::make_plan(step.model, by(asked, step.run));
        CHECK(plan.asked.attention_kernels == asked);
        CHECK(plan.run.attention_kernels == decided);
        const Plan larger = schedule::in_larger_pages(plan, 512);
        CHECK(StepShape(larger.model, larger.run).attention_kernels() == decided);
        const std::string text = to_json(plan);
        const bool named = asked != AttentionKernels::kAuto;
        CHECK(text.find(fmt::format("\n  \"attention_kernels\": \"{}\"", name_of(decided))) != std::string::npos);
        CHECK((text.find("\n    \"attention_kernels\"") != std::string::npos) == named);
    }
    step.run.compute = DType::kF32;
    step.run.bf16_gradients = step.run.split_masters = false;
    CHECK(to_json(schedule::make_plan(step.model, by(AttentionKernels::kAuto, step.run))).find("attention_kernels") ==
          std::string::npos);
    step.run.compute = DType::kBF16;
    step.model.head_dim = 80;
    CHECK_THROWS_WITH_AS(schedule::make_plan(step.model, by(AttentionKernels::kOwn, step.run)),
                         doctest::Contains("heads have 80 elements"), UsageError);
}

}  // namespace
}  // namespace oomb::testing
