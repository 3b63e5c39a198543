// Of every shape that a step has the rehearsal has one operation, and each can be carried out as it stands.

#include "trainer/executor/rehearsal.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "tests/schedule/random_step.hpp"
#include "tests/trainer/step_case.hpp"
#include "trainer/executor/operand_regions.hpp"

namespace oomb::testing {
namespace {

using issue::IssuedOperation;
using schedule::Engine;
using schedule::Kind;
using schedule::Operation;
using trainer::ParameterKind;
using trainer::ParameterLayout;

constexpr std::int64_t kAlignment_bytes = 256;  // no more of an address is looked at

// What kernels and libraries see of an operation, written down without knowing how the rehearsal tells shapes apart:
// sizes, and where each operand begins modulo the alignment.
class Seen {
  public:
    Seen(const schedule::Plan& plan, const ParameterLayout& layout)
        : plan_(plan), layout_(layout), shards_(optimizer_shards(schedule::StepShape(plan.model, plan.run))) {}

    std::string of(const Operation& operation) const {
        std::string text = fmt::format("{} rows {}", name_of(operation.id.kind), operation.rows);
        if (const auto* gemm = std::get_if<schedule::GemmCost>(&operation.cost)) {
            text += fmt::format(" [{} {} {}]", gemm->m, gemm->n, gemm->k) + of_product(operation);
        } else if (const auto* attention = std::get_if<schedule::AttentionCost>(&operation.cost)) {
            text += fmt::format(" [{} on {}] own {} first {}", attention->queries, attention->keys,
                                attention->first_key == attention->first_query, operation.id.part == 0);
        } else if (operation.id.kind == Kind::kRope) {
            text += fmt::format(" parts {}", operation.id.part);
        } else if (operation.id.kind == Kind::kOptimizer) {
            text += of_shard(operation.id.part);
        }
        for (const auto& use : operation.regions) {
            const schedule::Region& region = region_of(plan_.regions, use.region);
            text += fmt::format(" {}@{}", name_of(use.region), region.slot_offset_bytes(use.slot) % kAlignment_bytes);
        }
        for (const auto& request : operation.requests) {
            text += fmt::format(" {}x{}", name_of(request.pages.page_class), request.pages.count);
        }
        return text;
    }

  private:
    // The weight that it multiplies by, or whose gradient it adds to.
    std::string of_product(const Operation& operation) const {
        const auto at = [&](ParameterKind kind, bool in_layer = true) {
            const std::int64_t offset = layout_.offset(kind, in_layer ? operation.id.layer : -1);
            return fmt::format(" weight@{} gradient@{}", offset * bytes_of(plan_.run.compute) % kAlignment_bytes,
                               offset * bytes_of(plan_.run.gradient_type()) % kAlignment_bytes);
        };
        switch (operation.id.kind) {
            case Kind::kLinearQkv:
                return fmt::format(" parts {}", operation.id.part) + at(ParameterKind::kQWeight);
            case Kind::kLinearOutput:
                return at(ParameterKind::kOWeight);
            case Kind::kLinearGateUp:
                return at(ParameterKind::kGateWeight);
            case Kind::kLinearDown:
                return at(ParameterKind::kDownWeight);
            case Kind::kLinearHead:
                return at(ParameterKind::kHead, false);
            default: {
                const auto regions = trainer::linear_regions(operation.id.kind);
                return at(regions.weight, regions.in_layer);
            }
        }
    }

    // AdamW's calls: the gradient's type, and how many elements every operand's place is a multiple of.
    std::string of_shard(std::int64_t shard) const {
        std::set<std::string> calls;  // sorted, each once
        const std::int64_t begin = shards_.first(shard), end = begin + shards_.size(shard);
        std::int64_t vectors = 0;  // elements of those before
        for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
            const bool vector = layout_.parameters()[i].shape.size() == 1;
            const std::int64_t first = std::max(begin, layout_.offset(i));
            if (first < std::min(end, layout_.offset(i + 1))) {
                const bool apart = vector && plan_.run.gradient_type() != plan_.run.accumulator;
                const std::int64_t gradient = apart ? vectors + first - layout_.offset(i) : first;
                const std::int64_t multiple = std::gcd(std::gcd(first, gradient), std::gcd(first - begin, 64));
                calls.insert(fmt::format(" {}@{}", vector ? "vector" : "matrix", multiple));
            }
            vectors += vector ? layout_.parameters()[i].elements : 0;
        }
        return std::accumulate(calls.begin(), calls.end(), std::string());
    }

    const schedule::Plan& plan_;
    const ParameterLayout& layout_;
    const schedule::OptimizerShards shards_;
};

// Of every compute operation that the issuer hands to a backend, but those that move what is kept.
class SeenByBackend : public issue::IssuedSink {
  public:
    explicit SeenByBackend(const Seen& seen) : seen_(seen) {}
    void take(IssuedOperation issued) override {
        const Kind kind = issued.operation.id.kind;
        if (issued.operation.engine == Engine::kCompute && kind != Kind::kRelease && kind != Kind::kKeepActivation &&
            kind != Kind::kLoadActivation) {
            shapes.insert(seen_.of(issued.operation));
        }
    }
    std::set<std::string> shapes;

  private:
    const Seen& seen_;
};

void check_frames(const schedule::Plan& plan, const IssuedOperation& issued) {
    REQUIRE(issued.grants.size() == issued.operation.requests.size());
    for (std::size_t i = 0; i < issued.grants.size(); ++i) {
        const paging::Grant& grant = issued.grants[i];
        const schedule::PoolPlan* pool = plan.pool(grant.tier, grant.page_class);
        REQUIRE(pool != nullptr);
        const bool accumulates = issued.operation.requests[i].use == PageUse::kAccumulate;
        CHECK(grant.frames.size() == static_cast<std::size_t>(issued.operation.requests[i].pages.count));
        CHECK(grant.first_touch.size() == (accumulates ? grant.frames.size() : 0));
        for (const std::int32_t frame : grant.frames) {
            CHECK((frame >= 0 && frame < pool->frames));
        }
    }
}

void check_random_steps(RandomSteps random, int steps) {
    for (int i = 0; i < steps; ++i) {
        const RandomStep step = random.next();
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const ParameterLayout layout(step.model);
        const Seen seen(plan, layout);
        SeenByBackend backend(seen);
        issue::Issuer issuer(plan, backend);
        generate_step(step.model, plan.run, issuer, 2);
        std::set<std::string> rehearsed;
        for (const IssuedOperation& issued : rehearsal_of(plan, layout)) {
            rehearsed.insert(seen.of(issued.operation));
            check_frames(plan, issued);
        }
        CHECK(rehearsed == backend.shapes);
    }
}

TEST_CASE("random steps: every shape that reaches the backend was rehearsed, and no other") {
    check_random_steps(RandomSteps(77), 150);
    check_random_steps(RandomSteps(78, {.page_tokens = {128}, .own_kernels = true}), 50);
}

TEST_CASE("each operation is carried out on zeros, in any order") {
    std::vector<Way> ways = all_ways(), listed = top_k_ways();
    ways.insert(ways.end(), listed.begin(), listed.end());
    for (const Way& way : ways) {
        CAPTURE(to_text(way));
        const schedule::Plan plan = schedule::make_plan(busy_shape(), step_run(DType::kF64, way));
        for (const Order order : {Order::kInOrder, Order::kShuffled}) {
            trainer::CpuBackend<double> backend(plan, {.order = order});
            std::size_t done = 0;
            backend.on_done = [&](const Operation&) { ++done; };
            const auto operations = rehearsal_of(plan, backend.layout());
            for (const IssuedOperation& issued : operations) {
                backend.take(issued);
            }
            backend.wait_idle();
            CHECK(done == operations.size());
        }
    }
}

// Full shards of one placement: only matrices in some, norms and biases in others.
TEST_CASE("gradients in bf16: norms and biases are rehearsed though the first shard is all embedding") {
    RunConfiguration run = small_run(64, 16);
    run.compute = DType::kBF16;
    run.accumulator = DType::kF32;
    run.bf16_gradients = true;
    run.shard_parameters = 1024;
    ModelShape shape = small_shape();
    shape.vocab = 64;
    const ParameterLayout layout(shape);
    const schedule::Plan plan = schedule::make_plan(shape, run);
    const schedule::OptimizerShards shards = optimizer_shards(schedule::StepShape(shape, run));
    REQUIRE(shards.elements <= layout.offset(1));
    bool vectors = false;
    for (const IssuedOperation& issued : rehearsal_of(plan, layout)) {
        if (issued.operation.id.kind == Kind::kOptimizer) {
            const std::int64_t shard = issued.operation.id.part;
            layout.for_each_part(shards.first(shard), shards.size(shard), [&](std::size_t parameter, auto, auto) {
                vectors = vectors || is_vector(layout.parameters()[parameter].kind);
            });
        }
    }
    CHECK(vectors);
}

TEST_CASE("their number does not grow with the context") {
    RunConfiguration run = small_run(256, 16);
    run.device = DeviceKind::kCuda;
    run.compute = DType::kBF16;
    run.accumulator = DType::kF32;
    run.window_tokens = 64;
    const auto shapes_of = [&](std::int64_t context) {
        run.context_tokens = context;
        return rehearsal_of(schedule::make_plan(small_shape(), run), ParameterLayout(small_shape())).size();
    };
    CHECK(shapes_of(4096) == shapes_of(256));
    CHECK(shapes_of(4096 - 5) > shapes_of(256));  // the uneven last chunk
    run.top_k = 4;
    for (const AttentionMode mode : {AttentionMode::kTopK, AttentionMode::kRandom}) {
        run.attention = mode;
        CHECK(shapes_of(4096) == shapes_of(256));
    }
}

}  // namespace
}  // namespace oomb::testing
