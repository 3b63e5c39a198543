#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {

using enum RegionName;

ForwardPass SequenceGenerator::pass_over(std::int64_t layer) const {
    if (step_.run().forward_only) {
        return policy_.evaluation(layer);
    }
    return phase_ == Phase::kFill ? policy_.fill(layer) : policy_.forward(layer);
}

// The fill of a chunk, its forward in the gradient phase, or its evaluation.
void SequenceGenerator::forward_chunk() {
    const ModelShape& model = step_.model();
    emit_pass(Kind::kEmbedding, 0, 2 * rows_ * model.hidden * step_.compute_bytes(),
              {read(kWeights), read(kTokens, token_slot()), write(kLayerInput, slot(0))});
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        layer += left_out_layers(layer, 1);
        const ForwardPass pass = pass_over(layer);
        const bool last = layer + 1 == model.layers;
        if (pass.attends) {
            prefetch(layer, PageClass::kKv, !pass.selects);
        }
        if (pass.projects != 0) {
            project_qkv(layer, pass.projects, pass.rotates);
        }
        if (pass.loads) {
            copy_activation(Kind::kLoadActivation, layer);
        }
        if (pass.selects) {
            select_pages(layer);
        }
        if (pass.attends) {
            attend(layer, (pass.rotates & kKeyPart) == 0, pass.measures);
        }
        if (pass.measures) {
            measure_recall(layer);
        }
        if (pass.keeps) {
            copy_activation(Kind::kKeepActivation, layer);
        }
        if (pass.gate_up) {
            gate_up(layer, false);
        }
        if (pass.down) {
            swiglu(layer, false);
            mlp_down(layer, last ? begin(kFinalHidden) : write(kLayerInput, slot(layer + 1)), false);
        }
    }
}

std::int64_t SequenceGenerator::width_of(std::uint32_t parts) const {
    const ModelShape& model = step_.model();
    return ((parts & kQueryPart) != 0 ? model.query_width() : 0) + ((parts & kKeyPart) != 0 ? model.kv_width() : 0) +
           ((parts & kValuePart) != 0 ? model.kv_width() : 0);
}

void SequenceGenerator::input_norm(std::int64_t layer) {
    emit_pass(Kind::kInputNorm, layer, 2 * rows_ * step_.model().hidden * step_.compute_bytes(),
              {read(kLayerInput, slot(layer)), read(kWeights), begin(kNormed)});
}

void SequenceGenerator::project_qkv(std::int64_t layer, std::uint32_t projects, std::uint32_t rotates) {
    const ModelShape& model = step_.model();
    const bool writes_kv = (rotates & kKeyPart) != 0;
    input_norm(layer);
    emit_linear(Kind::kLinearQkv, layer, gemm(rows_, width_of(projects), model.hidden),
                {end(kNormed), read(kWeights), in_slot(begin(kQkv), layer)}, projects);

    Operation rope =
        make(Kind::kRope, layer, rotates, ElementwiseCost{2 * rows_ * width_of(rotates) * step_.compute_bytes()});
    rope.regions = {in_slot(end(kQkv), layer), read(kWeights)};
    if ((rotates & kQueryPart) != 0) {
        rope.regions.push_back(begin(kQuery));
    }
    const PageSet own = own_pages(PageClass::kKv, layer);
    if (writes_kv) {
        rope.requests.push_back({PageUse::kBirth, own, own.count});
    }
    emit(rope);
    if (writes_kv && policy_.filled() && step_.needs_means()) {
        Operation means =
            make(Kind::kPageMeans, layer, 0, ElementwiseCost{rows_ * model.kv_width() * step_.compute_bytes()});
        means.regions = {write(kPageMeans, static_cast<std::int32_t>(layer))};
        means.requests.push_back({PageUse::kRead, own, own.count});
        emit(means);
    }
    if (writes_kv) {
        emit_page_copies(Kind::kWriteBack, Engine::kDeviceToHost, layer, 0, PageUse::kWriteBack,
                         chunk_keys(layer, PageClass::kKv));
    }
}

// Lists of the chunk's query pages, from this layer's queries and the means of all pages before the chunk.
void SequenceGenerator::select_pages(std::int64_t layer) {
    const ModelShape& model = step_.model();
    const auto slot_of_layer = static_cast<std::int32_t>(layer);
    const std::int64_t pages = step_.first_page(chunk_), query_pages = step_.pages_of(chunk_);
    const std::int64_t list_bytes = query_pages * step_.run().top_k * static_cast<std::int64_t>(sizeof(std::int32_t));
    emit_linear(Kind::kPageScores, layer, gemm(rows_ * model.kv_heads, pages, model.head_dim),
                {read(kQuery), read(kPageMeans, slot_of_layer), begin(kPageScores)});
    emit_pass(Kind::kSelectPages, layer, query_pages * pages * step_.accumulator_bytes() + list_bytes,
              {end(kPageScores), begin(kSelectedPages)});
    Operation store = make(Kind::kStoreLists, layer, 0, CopyCost{list_bytes, 0});
    store.engine = Engine::kDeviceToHost;
    store.regions = {end(kSelectedPages), write(kHostPageLists, slot_of_layer)};
    emit(store);
}

void SequenceGenerator::attend(std::int64_t layer, bool fetches_own, bool queries_stay) {
    const std::int64_t parts = history_parts(layer);
    const KeyParts visible(step_, chunk_, layer);
    const std::int64_t own = visible.own();
    if (fetches_own) {
        emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, 0, PageUse::kRead,
                         chunk_keys(layer, PageClass::kKv));
    }
    // The own chunk first: its K/V are at hand, the history is on its way meanwhile.
    for (std::int64_t part = 0; part < own; ++part) {
        attend_part(layer, part, keys_of(visible.own_part(part), layer, PageClass::kKv),
                    part + 1 == own && parts == 0 && !queries_stay);
    }
    for (std::int64_t part = 0; part < parts; ++part) {
        part += left_out_windows(layer, part, parts);
        const Keys keys = history_keys(layer, part, PageClass::kKv);
        emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, own + part, PageUse::kRead, keys);
        attend_part(layer, own + part, keys, part + 1 == parts && !queries_stay);
    }
    emit_pass(Kind::kFinishAttention, layer,
              rows_ * step_.model().query_width() * (step_.accumulator_bytes() + step_.compute_bytes()),
              {end(kOutputSum), write(kAttentionOutput, slot(layer))});
}

// Part 0, which all queries see, writes the running output and log-sum-exp, later parts are merged into them: by the
// attention itself where it can. Our own kernels need no room besides; lists may also go to plain ones, which do.
void SequenceGenerator::attend_part(std::int64_t layer, std::int64_t part, const Keys& keys, bool ends_queries) {
    Operation attention = make(Kind::kAttention, layer, part, attention_cost(keys, false));
    attention.regions = {read_and(ends_queries, kQuery)};
    if (!step_.own_kernels()) {
        attention.regions.push_back(scratch(kAttentionScratch));
    }
    attention.requests.push_back(keys.request(PageUse::kRead));
    keys.narrow(attention);
    if (part == 0 || step_.merges_in_place(keys.listed)) {
        attention.regions.push_back(write_and(part == 0, kOutputSum));
        attention.regions.push_back(write(kLogSumExp, slot(layer)));
        if (keys.listed && !step_.own_kernels()) {  // as where an operation of its own merges: both live here
            attention.regions.push_back(scratch(kOutputPart));
            attention.regions.push_back(scratch(kLogSumExpPart));
        }
        emit(attention);
        return;
    }
    attention.regions.push_back(begin(kOutputPart));
    attention.regions.push_back(begin(kLogSumExpPart));
    emit(attention);
    const std::int64_t elements = keys.queries * step_.model().query_width();
    Operation merge = make(Kind::kMerge, layer, part,
                           ElementwiseCost{elements * (2 * step_.accumulator_bytes() + step_.compute_bytes())});
    keys.narrow(merge);
    merge.regions = {end(kOutputPart), end(kLogSumExpPart), write(kOutputSum), write(kLogSumExp, slot(layer))};
    emit(merge);
}

// Between the layer's slots and its kept page, whose planes are the regions in this order. Where the page's home is HBM
// the issuer gives the copy to the compute engine.
void SequenceGenerator::copy_activation(Kind kind, std::int64_t layer) {
    const bool keeps = kind == Kind::kKeepActivation;
    Operation copy = make(kind, layer, 0, CopyCost{step_.kept_bytes(rows_), 1});
    copy.engine = keeps ? Engine::kDeviceToHost : Engine::kHostToDevice;
    const auto add = [&](RegionName region) {
        copy.regions.push_back(keeps ? read(region, slot(layer)) : write(region, slot(layer)));
    };
    if (keeps_input(step_.run().keep)) {
        add(kLayerInput);
    }
    if (keeps_output(step_.run().keep)) {
        add(kAttentionOutput);
        add(kLogSumExp);
    }
    copy.requests.push_back({keeps ? PageUse::kBirth : PageUse::kRead, kept_page(layer), 1});
    emit(copy);
}

// Residual stream after attention, gate and up. A backward that repeats them still needs the norm's output.
void SequenceGenerator::gate_up(std::int64_t layer, bool for_backward) {
    const ModelShape& model = step_.model();
    emit_linear(Kind::kLinearOutput, layer, gemm(rows_, model.hidden, model.query_width()),
                {read(kLayerInput, slot(layer)), read(kAttentionOutput, slot(layer)), read(kWeights),
                 in_slot(begin(kMiddle), layer)});
    post_norm(layer);
    emit_linear(Kind::kLinearGateUp, layer, gemm(rows_, 2 * model.ffn, model.hidden),
                {read_and(!for_backward, kNormed), read(kWeights), in_slot(begin(kGateUp), layer)});
}

void SequenceGenerator::post_norm(std::int64_t layer) {
    emit_pass(Kind::kPostNorm, layer, 2 * rows_ * step_.model().hidden * step_.compute_bytes(),
              {in_slot(read(kMiddle), layer), read(kWeights), begin(kNormed)});
}

void SequenceGenerator::swiglu(std::int64_t layer, bool for_backward) {
    emit_pass(Kind::kSwiglu, layer, 3 * rows_ * step_.model().ffn * step_.compute_bytes(),
              {in_slot(read_and(!for_backward, kGateUp), layer), begin(kFfnActivation)});
}

void SequenceGenerator::mlp_down(std::int64_t layer, RegionUse output, bool for_backward) {
    emit_linear(Kind::kLinearDown, layer, gemm(rows_, step_.model().hidden, step_.model().ffn),
                {read_and(!for_backward, kFfnActivation), in_slot(read_and(!for_backward, kMiddle), layer),
                 read(kWeights), output});
}

}  // namespace oomb::schedule
