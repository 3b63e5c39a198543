#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {

using enum RegionName;

// Head and cross entropy by row tiles: the logits of a whole chunk never exist.
void SequenceGenerator::loss() {
    const std::int64_t tiles = divide_up(rows_, step_.run().logit_tile_tokens);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
        loss_tile(tile, tiles);
    }
}

std::int64_t SequenceGenerator::rows_of_tile(std::int64_t tile) const {
    const std::int64_t most = step_.run().logit_tile_tokens;
    return std::min(most, rows_ - tile * most);
}

void SequenceGenerator::emit_tile(Kind kind, std::int64_t tile, Cost cost, InlineVector<RegionUse, 8> regions) {
    Operation operation = make(kind, step_.model().layers - 1, tile, cost);
    operation.rows = rows_of_tile(tile);
    operation.first_row += tile * step_.run().logit_tile_tokens;
    operation.regions = regions;
    emit(operation);
}

void SequenceGenerator::loss_tile(std::int64_t tile, std::int64_t tiles) {
    const ModelShape& model = step_.model();
    const std::int64_t rows = rows_of_tile(tile), row_bytes = rows * step_.compute_bytes();
    emit_tile(Kind::kFinalNorm, tile, ElementwiseCost{2 * row_bytes * model.hidden},
              {read(kFinalHidden), read(kWeights), begin(kTileNormed)});
    emit_tile(Kind::kLinearHead, tile, gemm(rows, model.vocab, model.hidden),
              {read(kTileNormed), read(kWeights), begin(kLogits)});
    emit_tile(Kind::kCrossEntropy, tile, ElementwiseCost{3 * row_bytes * model.vocab},
              {read(kTokens, token_slot()), write(kLogits), write(kScalars)});
    emit_tile(Kind::kLinearHeadWeightGradient, tile, gemm(model.vocab, model.hidden, rows, true),
              {read(kLogits), end(kTileNormed), write(kGradients)});
    emit_tile(Kind::kLinearHeadInputGradient, tile, gemm(rows, model.hidden, model.vocab),
              {end(kLogits), read(kWeights), begin(kNormedGradient)});
    emit_tile(Kind::kFinalNormBackward, tile, ElementwiseCost{3 * row_bytes * model.hidden},
              {end(kNormedGradient), read_and(tile + 1 == tiles, kFinalHidden), read(kWeights),
               write_and(tile == 0, kStreamGradient), vector_gradients()});
}

// What the slots hold of the layer is read, the rest loaded or repeated. Element-wise passes are repeated where their
// output is needed; a norm whose matrix product is repeated has its output at hand.
void SequenceGenerator::backward_layer(std::int64_t layer) {
    const BackwardPass pass = policy_.backward(layer);
    prefetch(layer, PageClass::kKv, !pass.selects);
    if (pass.loads) {
        copy_activation(Kind::kLoadActivation, layer);
    }
    if (pass.attends) {
        repeat_attention(layer, pass);
    }
    prefetch(layer, PageClass::kKvGradient, true);
    if (pass.repeats_mlp) {
        gate_up(layer, true);
    }
    swiglu(layer, true);
    if (layer + 1 == step_.model().layers) {
        mlp_down(layer, begin(kFinalHidden), true);
        loss();
    }
    mlp_backward(layer, !pass.repeats_mlp);
    output_backward(layer);
    if (!pass.attends) {
        repeat_queries(layer, pass.projects, true);
    }
    attention_backward(layer);
    qkv_backward(layer, pass.projects == 0 || pass.attends);
    release_pages(layer);
}

void SequenceGenerator::mlp_backward(std::int64_t layer, bool repeats_norm) {
    const ModelShape& model = step_.model();
    const std::int64_t bytes = step_.compute_bytes();
    emit_linear(Kind::kLinearDownWeightGradient, layer, gemm(model.hidden, model.ffn, rows_, true),
                {read(kStreamGradient), end(kFfnActivation), write(kGradients)});
    emit_linear(Kind::kLinearDownInputGradient, layer, gemm(rows_, model.ffn, model.hidden),
                {read(kStreamGradient), read(kWeights), begin(kFfnGradient)});
    emit_pass(Kind::kSwigluBackward, layer, 5 * rows_ * model.ffn * bytes,
              {end(kFfnGradient), in_slot(write(kGateUp), layer)});
    if (repeats_norm) {
        post_norm(layer);
    }
    emit_linear(Kind::kLinearGateUpWeightGradient, layer, gemm(2 * model.ffn, model.hidden, rows_, true),
                {in_slot(read(kGateUp), layer), end(kNormed), write(kGradients)});
    emit_linear(Kind::kLinearGateUpInputGradient, layer, gemm(rows_, model.hidden, 2 * model.ffn),
                {in_slot(end(kGateUp), layer), read(kWeights), begin(kNormedGradient)});
    emit_pass(Kind::kPostNormBackward, layer, 4 * rows_ * model.hidden * bytes,
              {end(kNormedGradient), in_slot(end(kMiddle), layer), read(kWeights), write(kStreamGradient),
               vector_gradients()});
}

void SequenceGenerator::output_backward(std::int64_t layer) {
    const ModelShape& model = step_.model();
    InlineVector<RegionUse, 8> by_weight = {read(kStreamGradient), read(kAttentionOutput, slot(layer)),
                                            write(kGradients)};
    if (model.output_bias && step_.vectors_apart()) {
        by_weight.push_back(vector_gradients());
    }
    emit_linear(Kind::kLinearOutputWeightGradient, layer, gemm(model.hidden, model.query_width(), rows_, true),
                by_weight);
    emit_linear(Kind::kLinearOutputInputGradient, layer, gemm(rows_, model.query_width(), model.hidden),
                {read(kStreamGradient), read(kWeights), begin(kOutputGradient)});
    emit_pass(Kind::kAttentionDelta, layer, 2 * rows_ * model.query_width() * step_.compute_bytes(),
              {read(kOutputGradient), read(kAttentionOutput, slot(layer)), begin(kDelta)});
}

// Forward attention of the layer, whose queries and linear QKV stay for its backward.
void SequenceGenerator::repeat_attention(std::int64_t layer, const BackwardPass& pass) {
    phase_ = Phase::kForward;
    repeat_queries(layer, pass.projects, false);
    if (pass.selects) {
        select_pages(layer);
    }
    attend(layer, true, true);
    phase_ = Phase::kBackward;
}

void SequenceGenerator::repeat_queries(std::int64_t layer, std::uint32_t projects, bool normed_stays) {
    const ModelShape& model = step_.model();
    if (projects != 0) {
        input_norm(layer);
        emit_linear(Kind::kLinearQkv, layer, gemm(rows_, width_of(projects), model.hidden),
                    {read_and(!normed_stays, kNormed), read(kWeights), in_slot(begin(kQkv), layer)}, projects);
    }
    Operation rope =
        make(Kind::kRope, layer, kQueryPart, ElementwiseCost{2 * rows_ * model.query_width() * step_.compute_bytes()});
    rope.regions = {in_slot(read(kQkv), layer), read(kWeights), begin(kQuery)};
    emit(rope);
}

void SequenceGenerator::attention_backward(std::int64_t layer) {
    const std::int64_t parts = history_parts(layer);
    for (std::int64_t part = 0; part < parts; ++part) {
        part += left_out_windows(layer, part, parts);
        attend_backward_history(layer, part);
    }
    const KeyParts visible(step_, chunk_, layer);
    const std::int64_t own = visible.own();
    for (std::int64_t part = 0; part < own; ++part) {
        const KeyPart keys = visible.own_part(part);
        attend_backward_part(layer, parts + part, keys_of(keys, layer, PageClass::kKv),
                             keys_of(keys, layer, PageClass::kKvGradient), part + 1 == own);
    }
}

// The own chunk's gradients are used up at once, those of the history travel.
void SequenceGenerator::attend_backward_history(std::int64_t layer, std::int64_t part) {
    Keys kv = history_keys(layer, part, PageClass::kKv);
    const Keys gradients = history_keys(layer, part, PageClass::kKvGradient);
    // The first part begins the gradient of all queries, also of those that see none of its keys.
    if (part == 0 && !kv.listed && kv.queries < rows_) {
        kv.queries = rows_;
        kv.sliding_window = step_.sliding_window(layer);
    }
    attend_backward_part(layer, part, kv, gradients, false);
    emit_page_copies(Kind::kWriteBack, Engine::kDeviceToHost, layer, part, PageUse::kWriteBack, gradients);
}

void SequenceGenerator::attend_backward_part(std::int64_t layer, std::int64_t part, const Keys& kv,
                                             const Keys& gradients, bool last) {
    emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, part, PageUse::kRead, kv);
    emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, part, PageUse::kFetchIfAlive, gradients);
    Operation backward = make(Kind::kAttentionBackward, layer, part, attention_cost(kv, true));
    backward.regions = {
        read_and(last, kQuery),        read_and(last, kOutputGradient), read(kAttentionOutput, slot(layer)),
        read(kLogSumExp, slot(layer)), read_and(last, kDelta),          write_and(part == 0, kQueryGradient)};
    if (!step_.own_kernels()) {
        backward.regions.push_back(scratch(kAttentionScratch));
    }
    backward.requests = {kv.request(PageUse::kRead), gradients.request(PageUse::kAccumulate)};
    kv.narrow(backward);
    emit(backward);
}

void SequenceGenerator::qkv_backward(std::int64_t layer, bool repeats_norm) {
    const ModelShape& model = step_.model();
    const std::int64_t width = step_.qkv_width();
    Operation rope =
        make(Kind::kRopeBackward, layer, 0, ElementwiseCost{3 * rows_ * width * step_.accumulator_bytes()});
    rope.regions = {end(kQueryGradient), in_slot(write(kQkv), layer), read(kWeights), vector_gradients()};
    const PageSet own = own_pages(PageClass::kKvGradient, layer);
    rope.requests.push_back({PageUse::kRead, own, own.count});
    emit(rope);
    if (repeats_norm) {
        input_norm(layer);
    }
    emit_linear(Kind::kLinearQkvWeightGradient, layer, gemm(width, model.hidden, rows_, true),
                {in_slot(read(kQkv), layer), end(kNormed), write(kGradients)});
    emit_linear(Kind::kLinearQkvInputGradient, layer, gemm(rows_, model.hidden, width),
                {in_slot(end(kQkv), layer), read(kWeights), begin(kNormedGradient)});
    emit_pass(Kind::kInputNormBackward, layer, 4 * rows_ * model.hidden * step_.compute_bytes(),
              {end(kNormedGradient), read(kLayerInput, slot(layer)), read(kWeights), write(kStreamGradient),
               vector_gradients()});
}

void SequenceGenerator::release_pages(std::int64_t layer) {
    Operation release = make(Kind::kRelease, layer, 0, std::monostate{});
    const PageSet kv = own_pages(PageClass::kKv, layer);
    const PageSet gradient = own_pages(PageClass::kKvGradient, layer);
    release.requests = {PageRequest{PageUse::kRelease, kv, 0}, PageRequest{PageUse::kRelease, gradient, 0}};
    emit(release);
    if (policy_.kept(layer)) {
        release = make(Kind::kRelease, layer, 1, std::monostate{});
        release.requests.push_back({PageUse::kRelease, kept_page(layer), 0});
        emit(release);
    }
}

}  // namespace oomb::schedule
