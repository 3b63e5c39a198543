#include "simulator/costs/operation_parts.hpp"

#include <algorithm>
#include <bit>

#include "runtime/core/attention_kernels.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::simulator {
namespace {

using schedule::AttentionCost;
using schedule::CopyCost;
using schedule::divide_up;
using schedule::ElementwiseCost;
using schedule::GemmCost;
using schedule::Kind;
using schedule::Operation;

// A tile of a product has 128 rows and one of these widths, one of attention 128 queries (backward: keys) of one head.
constexpr std::int64_t kTileRows = 128;
struct TileWidth {
    std::int64_t columns;
    double effort;  // narrow tiles load more for each FLOP
};
constexpr TileWidth kWidths[] = {{256, 1.0}, {192, 1.02}, {128, 1.08}, {64, 1.3}};
// Where tiles are fewer than multiprocessors the sums over k are split. Deterministic runs do without.
constexpr std::int64_t kSplits[] = {2, 3, 4, 5, 6, 8, 12, 16};
constexpr std::int64_t kLeastSplit = 1024;
constexpr double kSplitEffort = 1.08;
// Rows of a norm that are shorter than this many elements take as long: a block works on one row.
constexpr std::int64_t kLeastNormWidth = 1024;

constexpr Part pass(std::string_view name) {
    const auto at = static_cast<std::size_t>(std::ranges::find(kPasses, name) - kPasses.begin());
    return static_cast<Part>(static_cast<std::size_t>(Part::kPassByte) + at);
}

Part bytes_of_pass(Kind kind) {
    switch (kind) {
        case Kind::kGradientNorm:
            return Part::kHbmReadByte;
        case Kind::kZeroGradients:
            return Part::kHbmWriteByte;
        case Kind::kInputNorm:
        case Kind::kPostNorm:
        case Kind::kFinalNorm:
            return pass("norm");
        case Kind::kInputNormBackward:
        case Kind::kPostNormBackward:
        case Kind::kFinalNormBackward:
            return pass("norm_backward");
        case Kind::kRope:
            return pass("rope");
        case Kind::kRopeBackward:
            return pass("rope_backward");
        case Kind::kCrossEntropy:
            return pass("cross_entropy");
        case Kind::kEmbedding:
            return pass("embedding");
        case Kind::kEmbeddingBackward:
            return pass("embedding_backward");
        case Kind::kOptimizer:
            return pass("optimizer");
        default:
            return Part::kHbmCopyByte;
    }
}

void add_pass(OperationParts& parts, const Operation& operation, const ElementwiseCost& cost,
              const RunConfiguration& run) {
    const Part part = bytes_of_pass(operation.id.kind);
    std::int64_t bytes = cost.bytes;
    if (part == pass("norm") || part == pass("norm_backward")) {
        const std::int64_t times = operation.id.kind == Kind::kFinalNormBackward ? 3 : part == pass("norm") ? 2 : 4;
        bytes = std::max(bytes, times * operation.rows * kLeastNormWidth * bytes_of(run.compute));
    }
    parts.list.push_back({part, static_cast<double>(bytes)});
}

double full_waves(std::int64_t tiles, std::int64_t multiprocessors) {
    return static_cast<double>(divide_up(tiles, multiprocessors));
}

void add_product(OperationParts& parts, const GemmCost& cost, const RunConfiguration& run,
                 std::int64_t multiprocessors) {
    const auto m = static_cast<double>(cost.m), n = static_cast<double>(cost.n), k = static_cast<double>(cost.k);
    const auto element = static_cast<double>(bytes_of(run.compute));
    const double sums = cost.accumulates ? 2 * m * n * static_cast<double>(bytes_of(run.gradient_type())) : 0;
    if (sums > 0) {
        parts.list.push_back({Part::kGemmSumByte, sums});
    }
    parts.least_bytes = (m * k + k * n) * element + (cost.accumulates ? sums : m * n * element);
    for (const TileWidth& width : kWidths) {
        const std::int64_t tiles = divide_up(cost.m, kTileRows) * divide_up(cost.n, width.columns);
        const double flops = static_cast<double>(2 * kTileRows * width.columns * multiprocessors) * width.effort * k;
        const double waves = full_waves(tiles, multiprocessors);
        parts.tilings.push_back({waves * flops, waves});
        for (const std::int64_t split : kSplits) {
            if (run.deterministic || cost.k / split < kLeastSplit || tiles * split > 8 * multiprocessors) {
                break;
            }
            const double split_waves = full_waves(tiles * split, multiprocessors);
            parts.tilings.push_back({kSplitEffort * split_waves * flops / static_cast<double>(split), split_waves});
        }
    }
}

TileKernel attention_kernel(bool backward, bool causal, bool deterministic) {
    if (!backward) {
        return causal ? TileKernel::kAttentionForwardCausal : TileKernel::kAttentionForward;
    }
    if (deterministic) {
        return causal ? TileKernel::kAttentionBackwardCausalDeterministic : TileKernel::kAttentionBackwardDeterministic;
    }
    return causal ? TileKernel::kAttentionBackwardCausal : TileKernel::kAttentionBackward;
}

// Lists are always theirs, whatever computes the rest.
bool by_own_kernels(const AttentionCost& cost, const RunConfiguration& run) {
    return cost.own_kernels || (cost.listed && own_kernels_take(run, cost.head_dim));
}

// What is read and written beside the library's kernel. Forward over the own chunk becomes fp32. Backward: dQ is
// cleared, summed and converted by the library and added to an fp32 sum; output and its gradient are read; dK and dV
// are added to fp32 pages. That alone is what own kernels have around their products: they read pages, and sum up in
// fp32.
double bytes_around(const AttentionCost& cost, bool causal, const RunConfiguration& run) {
    const auto narrow = static_cast<double>(bytes_of(run.compute)),
               wide = static_cast<double>(bytes_of(run.accumulator));
    const auto queries = static_cast<double>(cost.queries * cost.query_heads * cost.head_dim);
    const auto keys = static_cast<double>(2 * cost.keys * cost.kv_heads * cost.head_dim);
    if (by_own_kernels(cost, run)) {
        return cost.backward ? 2 * keys * wide : 0.0;
    }
    if (cost.backward) {
        return queries * (4 * narrow + 4 * wide) + keys * (narrow + 2 * wide);
    }
    return causal ? queries * (narrow + wide) : 0.0;
}

// Forward each tile of queries goes over the keys, backward each tile of keys over the queries.
void add_attention(OperationParts& parts, const AttentionCost& cost, const RunConfiguration& run,
                   std::int64_t multiprocessors) {
    const double pairs = schedule::attention_pairs(cost);
    const auto queries = static_cast<double>(cost.queries), keys = static_cast<double>(cost.keys);
    const bool causal = pairs < queries * keys;
    const std::int64_t tiles = divide_up(cost.backward ? cost.keys : cost.queries, kTileRows) * cost.query_heads;
    const double waves = full_waves(tiles, multiprocessors);
    // Of a causal tile half of its diagonal block is computed in vain.
    const double per_row = pairs / (cost.backward ? keys : queries) + (causal ? kTileRows / 2.0 : 0.0);
    const double flops_of_pair = static_cast<double>((cost.backward ? 10 : 4) * cost.head_dim);
    parts.kernel = attention_kernel(cost.backward, causal, run.deterministic);
    if (by_own_kernels(cost, run)) {
        parts.kernel = own_kernel(parts.kernel);
    }
    parts.head_dim = cost.head_dim;
    parts.tilings.push_back(
        {waves * static_cast<double>(multiprocessors * kTileRows) * per_row * flops_of_pair, waves});
    if (const double bytes = bytes_around(cost, causal, run); bytes > 0) {
        parts.list.push_back({Part::kHbmCopyByte, bytes});
    }
}

bool over_pages(const schedule::Cost& cost) {
    const auto* attention = std::get_if<AttentionCost>(&cost);
    return attention != nullptr && (attention->own_kernels || attention->listed);
}

}  // namespace

// Of attention: lists of frames, the library's own, conversions and sums around it; of own kernels the lists alone.
double launches_of(const Operation& operation) {
    switch (operation.id.kind) {
        case Kind::kLinearQkv:
            return std::popcount(operation.id.part);
        case Kind::kAttention:
        case Kind::kInputNormBackward:
        case Kind::kPostNormBackward:
        case Kind::kFinalNormBackward:
        case Kind::kRope:
        case Kind::kRopeBackward:
            return 2;
        case Kind::kAttentionBackward:
            return over_pages(operation.cost) ? 3 : 7;
        default:
            return 1;
    }
}

OperationParts parts_of(const Operation& operation, const RunConfiguration& run, std::int64_t multiprocessors) {
    OperationParts parts;
    if (std::holds_alternative<std::monostate>(operation.cost)) {
        return parts;
    }
    parts.list.push_back({Part::kLaunch, launches_of(operation)});
    if (const auto* product = std::get_if<GemmCost>(&operation.cost)) {
        add_product(parts, *product, run, multiprocessors);
    } else if (const auto* attention = std::get_if<AttentionCost>(&operation.cost)) {
        add_attention(parts, *attention, run, multiprocessors);
    } else if (const auto* elements = std::get_if<ElementwiseCost>(&operation.cost)) {
        add_pass(parts, operation, *elements, run);
    } else if (const auto* copy = std::get_if<CopyCost>(&operation.cost)) {
        parts.list.push_back({Part::kHbmCopyByte, 2.0 * static_cast<double>(copy->bytes)});
    }
    return parts;
}

}  // namespace oomb::simulator
