#include "runtime/schedule/region_sizes.hpp"

#include "runtime/core/page_recall.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/key_parts.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::schedule {
namespace {

constexpr std::int64_t kMatrixLibraryBytes = 32 * kMiB;  // what cuBLASLt is told to make do with on sm_90
constexpr std::int64_t kMostRowGroups = 528;             // partial sums over rows that kernels make per column
constexpr std::int64_t kTurnsOfPage = 4;                 // of a query page and head: attention's ordered backward

// Hands out aligned parts one behind the other.
class Parts {
  public:
    std::int64_t take(std::int64_t bytes) {
        const std::int64_t offset = end_;
        end_ += aligned(bytes);
        return offset;
    }
    std::int64_t end() const { return end_; }

  private:
    std::int64_t end_ = 0;
};

// Workspace of cuDNN 9.19's backward on sm_90: a sum per query and head; then fp32 sums of dQ and, where heads share
// keys, dK and dV per query head; deterministic, in place of the sums of dQ a 16-bit matrix of queries times keys per
// head, in tiles of 64 x 128. Met to some hundred bytes by 8K queries on 16K keys with 28/4 heads of 128 (353,239,296)
// and by a dozen small shapes; the slack is for those.
std::int64_t library_backward_bytes(const StepShape& step, std::int64_t rows, std::int64_t keys) {
    constexpr std::int64_t kSlack = kMiB / 4;
    const ModelShape& model = step.model();
    const std::int64_t sums = 4 * model.query_heads * rows + kSlack;
    const std::int64_t shared_keys = model.group() > 1 ? 4 * model.query_width() * keys : 0;
    if (step.run().deterministic) {
        return sums + shared_keys + 2 * model.query_heads * divide_up(rows, 64) * 64 * divide_up(keys, 128) * 128;
    }
    return sums + shared_keys + 4 * model.query_width() * rows;
}

}  // namespace

AttentionScratch attention_scratch(const StepShape& step) {
    const ModelShape& model = step.model();
    const std::int64_t rows = step.longest_chunk(), keys = longest_key_part(step);
    const std::int64_t page_rows = keys * model.kv_width() * step.compute_bytes();
    AttentionScratch scratch;
    if (step.own_kernels()) {
        return scratch;
    }
    Parts parts;
    scratch.keys = parts.take(page_rows);
    scratch.values = parts.take(page_rows);
    scratch.log_sum_exp = parts.take(rows * model.query_heads * step.accumulator_bytes());
    Parts forward = parts, backward = parts;
    const std::int64_t query_elements = rows * model.query_width();
    scratch.output = forward.take(query_elements * step.accumulator_bytes());
    scratch.key_gradients = backward.take(page_rows);
    scratch.value_gradients = backward.take(page_rows);
    scratch.query_gradients = backward.take(query_elements * step.compute_bytes());
    if (step.run().compute == DType::kBF16) {
        scratch.forward_library_bytes = kMiB / 4;
        scratch.backward_library_bytes = library_backward_bytes(step, rows, keys);
    }
    scratch.forward_library = forward.take(scratch.forward_library_bytes);
    scratch.backward_library = backward.take(scratch.backward_library_bytes);
    scratch.total_bytes = step.run().forward_only ? forward.end() : std::max(forward.end(), backward.end());
    return scratch;
}

Workspace workspace(const StepShape& step) {
    const ModelShape& model = step.model();
    const std::int64_t pages = divide_up(longest_key_part(step), step.run().page_tokens);
    Workspace result;
    if (step.run().device != DeviceKind::kCuda) {
        return result;
    }
    constexpr std::int64_t kNumber = sizeof(std::int32_t);
    const std::int64_t query_pages = divide_up(step.longest_chunk(), step.run().page_tokens);
    const std::int64_t listed = step.selects() ? std::min(step.pages_per_group(), query_pages) * step.run().top_k : 0;
    const std::int64_t frames = std::max(pages, listed);
    Parts parts;
    result.frequencies = parts.take(model.head_dim / 2 * static_cast<std::int64_t>(sizeof(float)));
    result.frames = parts.take(frames * kNumber);
    result.gradient_frames = parts.take(frames * kNumber);
    result.first_touch = parts.take(frames);
    if (listed > 0) {
        result.lists = parts.take(listed * kNumber);
        result.reader_offsets = parts.take((pages + 1) * kNumber);
        result.readers = parts.take(listed * kNumber);
    }
    // Of an operation whose additions to dq are ordered, its query pages.
    std::int64_t ordered = listed > 0 ? step.pages_per_group() : 0;
    if (step.own_kernels()) {
        ordered = step.run().deterministic ? query_pages : 0;
    }
    if (ordered > 0) {
        result.turns_count = kTurnsOfPage * model.query_heads * ordered + 1;
        result.turns = parts.take(result.turns_count * kNumber);
    }
    const std::int64_t widest = std::max(model.hidden, step.qkv_width());
    result.library_bytes = std::max(kMatrixLibraryBytes, aligned(kMostRowGroups * widest * step.accumulator_bytes()));
    if (step.needs_means()) {
        const std::int64_t sums = step.longest_chunk() * model.kv_width(), rows = step.longest_chunk() * model.kv_heads;
        result.library_bytes = std::max(
            result.library_bytes, aligned(sums * step.accumulator_bytes()) + aligned(rows * step.accumulator_bytes()));
    }
    result.library = parts.take(result.library_bytes);
    result.total_bytes = parts.end();
    return result;
}

std::int64_t attention_scratch_bytes(const StepShape& step) {
    const ModelShape& model = step.model();
    if (step.run().device == DeviceKind::kCuda) {
        return attention_scratch(step).total_bytes;
    }
    if (step.run().compute == DType::kBF16) {
        return step.longest_chunk() * model.query_width() * step.accumulator_bytes();
    }
    const std::int64_t keys = longest_key_part(step);
    const std::int64_t tile = std::min(step.longest_chunk(), kCpuQueryTile);
    return cpu_attention_elements(keys, model.kv_width(), tile, !step.run().forward_only) * step.accumulator_bytes();
}

namespace {

// Scores of pages by the means of their keys, and what is made of them: lists, or sums of recall.
void set_score_regions(const StepShape& step, RegionTable& table) {
    if (!step.needs_means()) {
        return;
    }
    const std::int64_t history = step.first_page(step.chunks() - 1);
    const std::int64_t query_pages = divide_up(step.longest_chunk(), step.run().page_tokens);
    const std::int64_t list_bytes = step.run().top_k * static_cast<std::int64_t>(sizeof(std::int32_t));
    const std::int64_t mean_bytes = step.model().kv_width() * step.compute_bytes();
    const std::int64_t table_bytes = aligned(query_pages * history * step.accumulator_bytes());
    const auto layers = static_cast<std::int32_t>(step.model().layers);
    region_of(table, RegionName::kPageMeans) = {Tier::kHbm, aligned(history * mean_bytes), layers, 0};
    region_of(table, RegionName::kPageScores) = {Tier::kHbm, table_bytes, 1, 0};
    if (step.measures_recall()) {
        const auto sums = static_cast<std::int64_t>(step.run().recall_budgets.size() * sizeof(RecallSums));
        region_of(table, RegionName::kPageMass) = {Tier::kHbm, table_bytes, 1, 0};
        region_of(table, RegionName::kRecall) = {Tier::kHbm, aligned(step.model().layers * sums), 1, 0};
        return;
    }
    region_of(table, RegionName::kSelectedPages) = {Tier::kHbm, aligned(query_pages * list_bytes), 1, 0};
    region_of(table, RegionName::kHostPageLists) = {Tier::kHost, aligned(step.listed_pages() * list_bytes), layers, 0};
}

// What only the gradient phase and the optimizer use, or only an evaluation.
void leave_out_unused(const StepShape& step, RegionTable& table) {
    using enum RegionName;
    const auto drop = [&](std::initializer_list<RegionName> names) {
        for (const RegionName name : names) {
            region_of(table, name) = {};
        }
    };
    if (step.run().forward_only) {
        drop({kGradients, kVectorGradients, kFfnGradient, kStreamGradient, kNormedGradient, kOutputGradient, kDelta,
              kQueryGradient});
    } else {
        drop({kTokenLosses, kHostLosses});
    }
}

}  // namespace

RegionTable region_sizes(const StepShape& step) {
    using enum RegionName;
    const ModelShape& model = step.model();
    const std::int64_t rows = step.longest_chunk();
    const std::int64_t tile = std::min(rows, step.run().logit_tile_tokens);
    const std::int64_t compute = step.compute_bytes();
    const std::int64_t sum = step.accumulator_bytes();
    const std::int64_t parameters = model.parameters();
    const std::int64_t query = rows * model.query_width();
    const std::int64_t hidden = rows * model.hidden;
    const bool merges = merges_parts(step) && !step.own_kernels();
    const std::int32_t slots = activation_slots(step), held = held_slots(step);
    const OptimizerShards shards = optimizer_shards(step);

    RegionTable table;
    const auto set = [&](RegionName name, std::int64_t bytes, std::int32_t slot_count = 1, Tier tier = Tier::kHbm) {
        region_of(table, name) = {tier, aligned(bytes), slot_count, 0};
    };
    set(kWeights, parameters * compute);
    set(kMasterWeights, shards.resident_elements() * shards.master_bytes);
    set(kGradients, parameters * step.gradient_bytes());
    set(kVectorGradients, step.vector_gradient_bytes());
    set(kMoments, 2 * shards.resident_elements() * sum);
    set(kTokens, 2 * rows * static_cast<std::int64_t>(sizeof(std::int32_t)), 2);
    set(kLayerInput, step.kept_input_bytes(rows), slots);
    set(kAttentionOutput, step.kept_output_bytes(rows), slots);
    set(kLogSumExp, step.kept_lse_bytes(rows), slots);
    set(kNormed, hidden * compute);
    set(kQkv, rows * step.qkv_width() * compute, held);
    set(kQuery, query * compute);
    set(kOutputSum, query * sum);
    set(kOutputPart, merges ? query * compute : 0);
    set(kLogSumExpPart, merges ? rows * model.query_heads * sum : 0);
    set(kAttentionScratch, attention_scratch_bytes(step));
    set(kMiddle, hidden * compute, held);
    set(kGateUp, 2 * rows * model.ffn * compute, held);
    set(kFfnActivation, rows * model.ffn * compute);
    set(kFfnGradient, rows * model.ffn * compute);
    set(kFinalHidden, hidden * compute);
    set(kTileNormed, tile * model.hidden * compute);
    set(kLogits, tile * model.vocab * compute);
    set(kStreamGradient, hidden * compute);
    set(kNormedGradient, hidden * compute);
    set(kOutputGradient, query * compute);
    set(kDelta, rows * model.query_heads * sum);
    set(kQueryGradient, query * sum);
    set(kWorkspace, workspace(step).total_bytes);
    set(kScalars, 4 * static_cast<std::int64_t>(sizeof(double)));
    set(kTokenLosses, rows * sum);
    set(kHostLosses, step.tokens() * sum, 1, Tier::kHost);
    set_score_regions(step, table);
    leave_out_unused(step, table);
    set(kHostTokens, 2 * step.tokens() * static_cast<std::int64_t>(sizeof(std::int32_t)), 1, Tier::kHost);
    if (shards.on_host() > 0) {
        set(kOptimizerShard, shards.slot_bytes(), static_cast<std::int32_t>(shards.ring_slots()));
        set(kHostStates, shards.slot_bytes(), static_cast<std::int32_t>(shards.on_host()), Tier::kHost);
    }
    return table;
}

}  // namespace oomb::schedule
