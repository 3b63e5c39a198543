// What the schedule says it costs, against closed forms written here from the model's shape.
#include <doctest/doctest.h>

#include <map>

#include "runtime/schedule/flops.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::testing {
namespace {

using schedule::AttentionCost;
using schedule::CopyCost;
using schedule::ElementwiseCost;
using schedule::GemmCost;
using schedule::Kind;
using schedule::Operation;
using schedule::Phase;
using schedule::StepShape;

// Parameters of the matrices of one layer: a matrix of n parameters costs 2 n FLOPs a token.
struct LayerMatrices {
    double query, key, value, output, gate_up, down;
    explicit LayerMatrices(const ModelShape& model)
        : query(static_cast<double>(model.hidden * model.query_width())),
          key(static_cast<double>(model.hidden * model.kv_width())),
          value(key),
          output(query),
          gate_up(static_cast<double>(2 * model.hidden * model.ffn)),
          down(static_cast<double>(model.hidden * model.ffn)) {}
    double qkv() const { return query + key + value; }
    double rest() const { return output + gate_up + down; }
    double all() const { return qkv() + rest(); }
};

// What a layer of a chunk goes through.
enum class Way {
    kRepeated,    // filled, run again, repeated in backward
    kInput,       // filled, input kept, repeated in backward
    kOutput,      // filled, output kept, run again without attention, repeated in backward
    kKept,        // filled, input and output kept, repeated in backward
    kHeld,        // filled, run again
    kHeldOutput,  // filled, output kept, run again without attention
    kOnce,        // held since its fill, or of the last chunk and held
    kLast         // of the last chunk, not held
};

bool is_kept(const StepShape& shape, std::int64_t chunk, std::int64_t layer) {
    const RunConfiguration& run = shape.run();
    const std::int64_t newest = shape.chunks() - 1 - std::max<std::int64_t>(1, shape.held_chunks());
    const std::int64_t layers = shape.model().layers;
    if (run.keep == Keep::kNone || chunk > newest) {
        return false;
    }
    const std::int64_t all = run.kept_pages.mode == Amount::Mode::kAll ? shape.total_pages() : run.kept_pages.count;
    return run.keep == Keep::kOutput ? (newest - chunk) * layers + layer < all : newest - chunk < all / layers;
}

Way way_of(const StepShape& shape, std::int64_t chunk, std::int64_t layer) {
    const std::int64_t from_end = shape.chunks() - 1 - chunk, held = shape.held_chunks();
    const bool kept = is_kept(shape, chunk, layer);
    if (held > 0) {
        return from_end < held ? Way::kOnce : (kept ? Way::kHeldOutput : Way::kHeld);
    }
    if (from_end == 0) {
        return Way::kLast;
    }
    constexpr Way kWays[] = {Way::kRepeated, Way::kInput, Way::kOutput, Way::kKept};
    return kept ? kWays[static_cast<int>(shape.run().keep)] : Way::kRepeated;
}

// Matrix parameters of a layer that a token meets, each time it meets them.
double linear_of_token(const ModelShape& model, Way way, bool last) {
    const LayerMatrices layer(model);
    const double key_value = layer.key + layer.value, in_backward = 2 * layer.all();
    const double queries = layer.query + (model.qk_norm ? layer.key : 0);
    // Nobody reads the last layer of a fill beyond its K/V; its output, where kept, takes queries.
    const double fill = last ? key_value : layer.all();
    const double complete_fill = last ? layer.qkv() : layer.all();
    const double again = queries + layer.output + layer.gate_up + (last ? layer.down : 0) + in_backward;
    const double rest_of_forward = last ? 0 : layer.rest();
    switch (way) {
        case Way::kRepeated:
            return fill + layer.query + rest_of_forward + again;
        case Way::kInput:
            return fill + again;
        case Way::kOutput:
            return complete_fill + rest_of_forward + again;
        case Way::kKept:
        case Way::kLast:
            return complete_fill + again;
        case Way::kHeld:
            return fill + queries + layer.rest() + in_backward;
        case Way::kHeldOutput:
            return complete_fill + queries + layer.rest() + in_backward;
        case Way::kOnce:
            return layer.all() + in_backward;
    }
    return 0;
}

double gemm_flops(const std::vector<Operation>& operations) {
    double flops = 0;
    for (const Operation& operation : operations) {
        if (const auto* gemm = std::get_if<GemmCost>(&operation.cost)) {
            flops += 2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) * static_cast<double>(gemm->k);
        }
    }
    return flops;
}

TEST_CASE("FLOPs of all matrix products") {
    RandomSteps random(9);
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        double expected = 0;
        for (std::int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
            double of_token = 3 * static_cast<double>(step.model.vocab * step.model.hidden);
            for (std::int64_t layer = 0; layer < step.model.layers; ++layer) {
                of_token += linear_of_token(step.model, way_of(shape, chunk, layer), layer + 1 == step.model.layers);
            }
            expected += 2 * static_cast<double>(shape.tokens_of(chunk)) * of_token;
        }
        CHECK(gemm_flops(operations_of(step.model, step.run)) == doctest::Approx(expected).epsilon(1e-12));
    }
}

TEST_CASE("FLOPs of a step from its shape are those of its list") {
    RandomSteps random(13, {.top_k = true, .local = true});
    RandomSteps evaluations(14, {.top_k = true, .local = true, .evaluates = true});
    for (int i = 0; i < 800; ++i) {
        const RandomStep step = i < 500 ? random.next() : evaluations.next();
        double listed = 0;
        for (const Operation& operation : operations_of(step.model, step.run)) {
            listed += schedule::flops_of(operation.cost);
        }
        CHECK(schedule::step_flops(StepShape(step.model, step.run)) == doctest::Approx(listed).epsilon(1e-12));
    }
}

// N parameters in the body of a layer: 10 N FLOPs a token when nothing is kept, 8 N with inputs and outputs or
// while a chunk is held, 6 N when it is held since its fill. Left out of the count are what backward does not need
// again (the down projections, and the K/V in a second forward).
TEST_CASE("10 N when nothing is kept, 8 N with inputs and outputs or held, 6 N held since the fill") {
    ModelShape model = RandomSteps(1).next().model;
    model.qk_norm = false;
    const LayerMatrices layer(model);
    const double n = layer.all(), not_again = 2 * (layer.down + layer.key + layer.value);
    const double known_kv = 2 * (layer.key + layer.value);
    const auto flops = [&](Way way) { return 2 * linear_of_token(model, way, false); };
    CHECK(flops(Way::kRepeated) == doctest::Approx(10 * n - not_again - known_kv));
    CHECK(flops(Way::kOutput) == doctest::Approx(10 * n - not_again - known_kv - 2 * layer.query));
    CHECK(flops(Way::kInput) == doctest::Approx(8 * n - not_again));
    CHECK(flops(Way::kKept) == doctest::Approx(8 * n - not_again));
    CHECK(flops(Way::kLast) == doctest::Approx(8 * n - not_again));
    CHECK(flops(Way::kHeld) == doctest::Approx(8 * n - known_kv));
    CHECK(flops(Way::kHeldOutput) == doctest::Approx(8 * n - known_kv));
    CHECK(flops(Way::kOnce) == doctest::Approx(6 * n));
}

std::int64_t pairs_of(const AttentionCost& cost) {
    if (cost.listed) {
        return cost.queries * cost.keys;
    }
    std::int64_t pairs = 0;
    for (std::int64_t query = cost.first_query; query < cost.first_query + cost.queries; ++query) {
        for (std::int64_t key = cost.first_key; key < cost.first_key + cost.keys; ++key) {
            const bool in_window = cost.sliding_window == 0 || key > query - cost.sliding_window;
            pairs += key <= query && in_window && key >= cost.document_start ? 1 : 0;
        }
    }
    return pairs;
}

TEST_CASE("pairs of any queries and keys are those of a count") {
    RandomSteps random(11);
    for (int i = 0; i < 2000; ++i) {
        AttentionCost cost;
        cost.first_query = random.between(0, 40);
        cost.queries = random.between(1, 40);
        cost.first_key = random.between(0, 80);
        cost.keys = random.between(1, 40);
        cost.sliding_window = random.coin() ? 0 : random.between(1, 50);
        cost.document_start = random.coin() ? 0 : random.between(0, 50);
        CAPTURE(cost.first_query);
        CAPTURE(cost.queries);
        CAPTURE(cost.first_key);
        CAPTURE(cost.keys);
        CHECK(schedule::attention_pairs(cost) == static_cast<double>(pairs_of(cost)));
    }
}

std::int64_t triangle(std::int64_t tokens) {
    return tokens * (tokens + 1) / 2;
}

TEST_CASE("every query meets every key before it once per layer and pass") {
    RandomSteps random(10);
    for (int i = 0; i < 100; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        std::map<std::pair<Phase, std::int64_t>, std::int64_t> pairs;
        for (const Operation& operation : operations_of(step.model, step.run)) {
            if (const auto* cost = std::get_if<AttentionCost>(&operation.cost)) {
                CHECK(cost->backward == (operation.id.phase == Phase::kBackward));
                pairs[{operation.id.phase, operation.id.layer}] += pairs_of(*cost);
            }
        }
        std::map<std::pair<Phase, std::int64_t>, std::int64_t> expected;
        for (std::int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
            const bool filled = chunk + 1 < shape.chunks();
            const std::int64_t visible =
                triangle(shape.first_token(chunk) + shape.tokens_of(chunk)) - triangle(shape.first_token(chunk));
            for (std::int64_t layer = 0; layer < step.model.layers; ++layer) {
                const Way way = way_of(shape, chunk, layer);
                const bool complete =
                    way == Way::kKept || way == Way::kOnce || way == Way::kOutput || way == Way::kHeldOutput;
                const bool fill_attends = filled && (complete || layer + 1 < step.model.layers);
                expected[{Phase::kFill, layer}] += fill_attends ? visible : 0;
                expected[{Phase::kForward, layer}] += filled && complete ? 0 : visible;
                expected[{Phase::kBackward, layer}] += visible;
            }
        }
        for (const auto& [pass, count] : expected) {
            CHECK(pairs[pass] == count);
        }
    }
}

bool has_work(const Operation& operation) {
    if (const auto* gemm = std::get_if<GemmCost>(&operation.cost)) {
        return gemm->m > 0 && gemm->n > 0 && gemm->k > 0;
    }
    if (const auto* attention = std::get_if<AttentionCost>(&operation.cost)) {
        return pairs_of(*attention) > 0 && attention->head_dim > 0 && attention->query_heads > 0;
    }
    if (const auto* copy = std::get_if<CopyCost>(&operation.cost)) {
        return copy->bytes > 0;
    }
    if (const auto* pass = std::get_if<ElementwiseCost>(&operation.cost)) {
        return pass->bytes > 0;
    }
    return operation.id.kind == Kind::kRelease;
}

TEST_CASE("every operation but a release has a cost, its rows lie in its chunk, a request knows its bound") {
    RandomSteps random(11, {.top_k = true, .local = true});
    for (int i = 0; i < 200; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        for (const Operation& operation : operations_of(step.model, step.run)) {
            CHECK_MESSAGE(has_work(operation), to_text(operation.id));
            if (operation.id.phase != Phase::kOptimizer) {
                // A prefetch has the rows by whose lists it goes, of its chunk or of the one before.
                const std::int64_t chunk = operation.first_row / step.run.chunk_tokens;
                CHECK(operation.rows > 0);
                CHECK((chunk == operation.id.chunk ||
                       (operation.id.kind == Kind::kPrefetch && chunk + 1 == operation.id.chunk)));
                CHECK(operation.first_row + operation.rows <= shape.first_token(chunk) + shape.tokens_of(chunk));
            }
            for (const auto& request : operation.requests) {
                CHECK(request.pages.count > 0);
                CHECK(request.bound == (request.use == PageUse::kRelease ? 0 : request.pages.count));
            }
        }
    }
}

// Gradients are cleared and read once, and read again by the update, which reads and writes m, v and master weights and
// writes the weights; split masters are read with the weights.
TEST_CASE("bytes of clearing, norm and update, by the types of gradients and master weights") {
    RandomSteps random(15);
    for (int i = 0; i < 100; ++i) {
        RandomStep step = random.next();
        step.run.optimizer = true;
        std::map<Kind, std::int64_t> bytes;
        for (const Operation& operation : operations_of(step.model, step.run)) {
            if (const auto* pass = std::get_if<ElementwiseCost>(&operation.cost)) {
                bytes[operation.id.kind] += pass->bytes;
            }
        }
        const bool bf16 = step.run.compute == DType::kBF16, narrow = step.run.bf16_gradients;
        const std::int64_t sum = step.run.accumulator == DType::kF64 ? 8 : 4;
        const std::int64_t gradient = narrow ? 2 : sum, weight = bf16 ? 2 : sum;
        const std::int64_t all = step.model.parameters() * gradient + (narrow ? 4 * step.model.vector_parameters() : 0);
        CHECK(bytes[Kind::kZeroGradients] == all);
        CHECK(bytes[Kind::kGradientNorm] == all);
        const std::int64_t master = !bf16 ? 0 : step.run.split_masters ? 2 : 4;
        const std::int64_t weights = bf16 && !step.run.split_masters ? weight : 2 * weight;
        CHECK(bytes[Kind::kOptimizer] == step.model.parameters() * (gradient + 2 * (2 * sum + master) + weights));
    }
}

TEST_CASE("bytes of page copies are those of the pages they name") {
    RandomSteps random(12, {.top_k = true, .local = true});
    for (int i = 0; i < 80; ++i) {
        const RandomStep step = random.next();
        const StepShape shape(step.model, step.run);
        for (const Operation& operation : operations_of(step.model, step.run)) {
            if (is_page_copy(operation.id.kind)) {
                CHECK(step.run.offload == Offload::kHost);
                const PageSet& pages = operation.requests[0].pages;
                CHECK(std::get<CopyCost>(operation.cost).bytes ==
                      2 * pages.count * shape.page_plane_bytes(pages.page_class));
            }
        }
    }
}

}  // namespace
}  // namespace oomb::testing
