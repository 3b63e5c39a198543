#include "runtime/schedule/region_sizes.hpp"

#include "runtime/schedule/generator.hpp"

namespace oomb::schedule {
std::int64_t attention_scratch_bytes(const StepShape& step) {
    const ModelShape& model = step.model();
    const std::int64_t rows = step.longest_chunk();
    const std::int64_t keys = step.longest_window();
    if (step.run().device == DeviceKind::kCuda) {
        return 4 * model.query_width() * (rows + keys);
    }
    const std::int64_t tile = std::min(rows, kCpuQueryTile);
    return (4 * keys * model.kv_width() + 2 * tile * keys + 2 * tile) * step.accumulator_bytes();
}

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
    const bool has_history = step.chunks() > 1;
    const std::int32_t slots = activation_slots(step), held = held_slots(step);

    RegionTable table;
    const auto set = [&](RegionName name, std::int64_t bytes, std::int32_t slot_count = 1, Tier tier = Tier::kHbm) {
        region_of(table, name) = {tier, aligned(bytes), slot_count, 0};
    };
    set(kWeights, parameters * compute);
    set(kMasterWeights, step.run().optimizer && compute != sum ? parameters * sum : 0);
    set(kGradients, parameters * sum);
    set(kMoments, step.run().optimizer ? 2 * parameters * sum : 0);
    set(kTokens, 2 * rows * static_cast<std::int64_t>(sizeof(std::int32_t)), 2);
    set(kLayerInput, step.kept_input_bytes(rows), slots);
    set(kAttentionOutput, step.kept_output_bytes(rows), slots);
    set(kLogSumExp, step.kept_lse_bytes(rows), slots);
    set(kNormed, hidden * compute);
    set(kQkv, rows * step.qkv_width() * compute, held);
    set(kQuery, query * compute);
    set(kOutputSum, query * sum);
    set(kOutputPart, has_history ? query * compute : 0);
    set(kLogSumExpPart, has_history ? rows * model.query_heads * sum : 0);
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
    set(kScalars, 4 * static_cast<std::int64_t>(sizeof(double)));
    set(kHostTokens, 2 * step.tokens() * static_cast<std::int64_t>(sizeof(std::int32_t)), 1, Tier::kHost);
    return table;
}

}  // namespace oomb::schedule
