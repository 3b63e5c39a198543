#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {

using enum RegionName;

void SequenceGenerator::forward_chunk(const ForwardMode& mode) {
    const ModelShape& model = step_.model();
    emit_pass(Kind::kEmbedding, 0, 2 * rows_ * model.hidden * step_.compute_bytes(),
              {read(kWeights), read(kTokens, token_slot()), write(kLayerInput, slot(0))});
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        const bool last = layer + 1 == model.layers;
        const bool attends = !last || mode.attends_last;
        project_qkv(layer, (attends ? kQueryPart : 0) | (mode.writes_kv ? kKeyPart | kValuePart : 0));
        if (!attends) {
            break;
        }
        attend(layer, mode);
        if (mode.keeps) {
            keep_activation(layer);
        }
        if (last) {
            break;  // backward computes the rest of the last layer, nobody else reads it
        }
        mlp_up(layer, false);
        mlp_down(layer, write(kLayerInput, slot(layer + 1)));
    }
}

std::int64_t SequenceGenerator::width_of(std::uint32_t parts) const {
    const ModelShape& model = step_.model();
    return ((parts & kQueryPart) != 0 ? model.query_width() : 0) + ((parts & kKeyPart) != 0 ? model.kv_width() : 0) +
           ((parts & kValuePart) != 0 ? model.kv_width() : 0);
}

void SequenceGenerator::project_qkv(std::int64_t layer, std::uint32_t parts) {
    const ModelShape& model = step_.model();
    const std::int64_t width = width_of(parts);
    const bool writes_kv = (parts & kKeyPart) != 0;
    emit_pass(Kind::kInputNorm, layer, 2 * rows_ * model.hidden * step_.compute_bytes(),
              {read(kLayerInput, slot(layer)), read(kWeights), begin(kNormed)});
    emit_linear(Kind::kLinearQkv, layer, gemm(rows_, width, model.hidden), {end(kNormed), read(kWeights), begin(kQkv)},
                parts);

    Operation rope = make(Kind::kRope, layer, parts, ElementwiseCost{2 * rows_ * width * step_.compute_bytes()});
    rope.regions = {end(kQkv), read(kWeights)};
    if ((parts & kQueryPart) != 0) {
        rope.regions.push_back(begin(kQuery));
    }
    const PageSet own = own_pages(PageClass::kKv, layer);
    if (writes_kv) {
        rope.requests.push_back({PageUse::kBirth, own, own.count});
    }
    emit(rope);
    if (writes_kv) {
        emit_page_copies(Kind::kWriteBack, Engine::kDeviceToHost, layer, 0, PageUse::kWriteBack, own);
    }
}

void SequenceGenerator::attend(std::int64_t layer, const ForwardMode& mode) {
    const std::int64_t windows = step_.history_windows(chunk_);
    const Keys own = own_keys(layer, PageClass::kKv);
    if (!mode.writes_kv) {
        emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, 0, PageUse::kRead, own.pages);
    }
    // The own chunk first: its K/V are at hand, the history is on its way meanwhile.
    attend_window(layer, 0, own, windows == 0);
    for (std::int64_t window = 0; window < windows; ++window) {
        const Keys keys = window_keys(layer, window, PageClass::kKv);
        emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, window + 1, PageUse::kRead, keys.pages);
        attend_window(layer, window + 1, keys, window + 1 == windows);
    }
    emit_pass(Kind::kFinishAttention, layer,
              rows_ * step_.model().query_width() * (step_.accumulator_bytes() + step_.compute_bytes()),
              {end(kOutputSum), write(kAttentionOutput, slot(layer))});
}

// Part 0 writes the running output and log-sum-exp, later parts are merged into them.
void SequenceGenerator::attend_window(std::int64_t layer, std::int64_t part, const Keys& keys, bool last) {
    Operation attention = make(Kind::kAttention, layer, part, attention_cost(keys, false));
    attention.regions = {read_and(last, kQuery), scratch(kAttentionScratch)};
    attention.requests.push_back({PageUse::kRead, keys.pages, keys.pages.count});
    if (part == 0) {
        attention.regions.push_back(begin(kOutputSum));
        attention.regions.push_back(write(kLogSumExp, slot(layer)));
        emit(attention);
        return;
    }
    attention.regions.push_back(begin(kOutputPart));
    attention.regions.push_back(begin(kLogSumExpPart));
    emit(attention);
    const std::int64_t width = step_.model().query_width();
    Operation merge = make(Kind::kMerge, layer, part,
                           ElementwiseCost{rows_ * width * (2 * step_.accumulator_bytes() + step_.compute_bytes())});
    merge.regions = {end(kOutputPart), end(kLogSumExpPart), write(kOutputSum), write(kLogSumExp, slot(layer))};
    emit(merge);
}

void SequenceGenerator::keep_activation(std::int64_t layer) {
    const bool to_host = step_.run().offload == Offload::kHost;
    Operation keep = make(Kind::kKeepActivation, layer, 0, CopyCost{step_.kept_bytes(rows_), 1});
    keep.engine = to_host ? Engine::kDeviceToHost : Engine::kCompute;
    keep.regions = {read(kLayerInput, slot(layer)), read(kAttentionOutput, slot(layer)), read(kLogSumExp, slot(layer))};
    keep.requests.push_back({PageUse::kBirth, kept_page(layer), 1});
    emit(keep);
}

// Residual stream after attention, and the MLP up to its activation. Backward still needs norm output, gate and up.
void SequenceGenerator::mlp_up(std::int64_t layer, bool for_backward) {
    const ModelShape& model = step_.model();
    const std::int64_t bytes = step_.compute_bytes();
    emit_linear(Kind::kLinearOutput, layer, gemm(rows_, model.hidden, model.query_width()),
                {read(kLayerInput, slot(layer)), read(kAttentionOutput, slot(layer)), read(kWeights), begin(kMiddle)});
    emit_pass(Kind::kPostNorm, layer, 2 * rows_ * model.hidden * bytes,
              {read(kMiddle), read(kWeights), begin(kNormed)});
    emit_linear(Kind::kLinearGateUp, layer, gemm(rows_, 2 * model.ffn, model.hidden),
                {read_and(!for_backward, kNormed), read(kWeights), begin(kGateUp)});
    emit_pass(Kind::kSwiglu, layer, 3 * rows_ * model.ffn * bytes,
              {read_and(!for_backward, kGateUp), begin(kFfnActivation)});
}

void SequenceGenerator::mlp_down(std::int64_t layer, RegionUse output) {
    const bool for_backward = output.region == kFinalHidden;
    emit_linear(Kind::kLinearDown, layer, gemm(rows_, step_.model().hidden, step_.model().ffn),
                {read_and(!for_backward, kFfnActivation), read_and(!for_backward, kMiddle), read(kWeights), output});
}

}  // namespace oomb::schedule
