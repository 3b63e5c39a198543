#include "runtime/schedule/generator.hpp"

#include "runtime/schedule/generator_parts.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::schedule {

std::int32_t activation_slots(const StepShape& step) {
    const auto layers = static_cast<std::int32_t>(step.model().layers);
    if (step.run().forward_only) {
        return 1;
    }
    if (step.held_chunks() > 0) {
        return held_slots(step);
    }
    const bool outlasts_none = step.run().keep == Keep::kInputAndOutput && step.kept_pages() == step.chunks() * layers;
    return outlasts_none ? std::min(2, layers) : layers;
}

std::int32_t held_slots(const StepShape& step) {
    const std::int64_t sets = step.held_chunks();
    return sets > 0 ? static_cast<std::int32_t>(sets * step.model().layers) : 1;
}

SequenceGenerator::SequenceGenerator(const StepShape& step, std::int64_t sequence, std::int64_t sequences,
                                     OperationSink& sink)
    : step_(step),
      sink_(sink),
      sequence_(sequence),
      sequences_(sequences),
      slots_(activation_slots(step)),
      policy_(step, 0) {}

void SequenceGenerator::generate() {
    if (sequence_ == 0) {
        clear_sums();
    }
    if (step_.run().forward_only) {
        for (std::int64_t chunk = 0; chunk < step_.chunks(); ++chunk) {
            evaluate_chunk(chunk);
        }
        release_history();
        return;
    }
    for (std::int64_t chunk = 0; chunk + 1 < step_.chunks(); ++chunk) {
        fill_chunk(chunk);
    }
    for (std::int64_t chunk = step_.chunks() - 1; chunk >= 0; --chunk) {
        gradient_chunk(chunk);
    }
}

// Gradients and the sums of losses; in an evaluation the latter alone.
void SequenceGenerator::clear_sums() {
    begin_chunk(step_.run().forward_only ? Phase::kForward : Phase::kFill, 0);
    InlineVector<RegionUse, 8> regions;
    if (!step_.run().forward_only) {
        regions.push_back(write(RegionName::kGradients));
    }
    regions.push_back(write(RegionName::kScalars));
    if (step_.vectors_apart()) {
        regions.push_back(vector_gradients());
    }
    if (step_.measures_recall()) {
        regions.push_back(write(RegionName::kRecall));
    }
    if (step_.run().device == DeviceKind::kCuda) {
        regions.push_back(write(RegionName::kWorkspace));  // never begun: it lives all step
    }
    emit_pass(Kind::kZeroGradients, 0, step_.all_gradient_bytes(), regions);
}

void SequenceGenerator::fill_chunk(std::int64_t chunk) {
    begin_chunk(Phase::kFill, chunk);
    load_tokens();
    forward_chunk();
}

void SequenceGenerator::gradient_chunk(std::int64_t chunk) {
    begin_chunk(Phase::kForward, chunk);
    load_tokens();
    if (policy_.runs_forward()) {
        forward_chunk();
    }
    phase_ = Phase::kBackward;
    for (std::int64_t layer = step_.model().layers - 1; layer >= 0; --layer) {
        layer -= left_out_layers(layer, -1);
        backward_layer(layer);
        if (chunk == 0 && sequence_ + 1 == sequences_) {
            fetch_first_shards(step_, layer, sink_);
        }
    }
    emit_pass(
        Kind::kEmbeddingBackward, 0,
        rows_ * step_.model().hidden * (step_.accumulator_bytes() + 2 * step_.gradient_bytes()),
        {end(RegionName::kStreamGradient), read(RegionName::kTokens, token_slot()), write(RegionName::kGradients)});
}

void SequenceGenerator::begin_chunk(Phase phase, std::int64_t chunk) {
    phase_ = phase;
    chunk_ = chunk;
    policy_ = ChunkPolicy(step_, chunk);
    rows_ = step_.tokens_of(chunk);
}

Operation SequenceGenerator::make(Kind kind, std::int64_t layer, std::int64_t part, Cost cost) const {
    Operation operation;
    operation.id = {.sequence = static_cast<std::uint16_t>(sequence_),
                    .phase = phase_,
                    .chunk = static_cast<std::uint16_t>(chunk_),
                    .layer = static_cast<std::uint16_t>(layer),
                    .kind = kind,
                    .part = static_cast<std::uint32_t>(part)};
    operation.cost = cost;
    operation.rows = rows_;
    operation.first_row = step_.first_token(chunk_);
    return operation;
}

void SequenceGenerator::emit_linear(Kind kind, std::int64_t layer, GemmCost cost, InlineVector<RegionUse, 8> regions,
                                    std::uint32_t part) {
    Operation operation = make(kind, layer, part, cost);
    operation.regions = regions;
    emit(operation);
}

void SequenceGenerator::emit_pass(Kind kind, std::int64_t layer, std::int64_t bytes,
                                  InlineVector<RegionUse, 8> regions) {
    Operation operation = make(kind, layer, 0, ElementwiseCost{bytes});
    operation.regions = regions;
    emit(operation);
}

void SequenceGenerator::emit_page_copies(Kind kind, Engine engine, std::int64_t layer, std::int64_t part, PageUse use,
                                         const Keys& keys) {
    if (step_.run().offload == Offload::kNone) {
        return;  // every page has its home in HBM
    }
    const PageSet& pages = keys.pages;
    const std::int64_t bytes = pages.count * 2 * step_.page_plane_bytes(pages.page_class);
    // A layer's K/V and K/V gradients travel under the same kind: the gradients' parts follow the K/V's.
    const bool gradient = pages.page_class == PageClass::kKvGradient;
    Operation operation = make(kind, layer, 2 * part + (gradient ? 1 : 0), CopyCost{bytes, pages.count});
    operation.engine = engine;
    keys.narrow(operation);
    operation.requests.push_back(keys.request(use));
    emit(operation);
}

void SequenceGenerator::prefetch(std::int64_t layer, PageClass page_class, bool lists_are_made) {
    if (!step_.has_lists(chunk_)) {
        return;  // windows are known: their fetches run ahead by themselves
    }
    const std::int64_t chunk = lists_are_made ? chunk_ : chunk_ - 1, history = step_.first_page(chunk_);
    const std::int64_t most = std::min(step_.spare_pages(), history);
    // Of a layer that the fill left out the chunk before has none yet.
    const bool any = step_.has_lists(chunk) &&
                     (lists_are_made || step_.run().forward_only || ChunkPolicy(step_, chunk).fill(layer).attends);
    Keys keys;
    keys.pages = {page_class, static_cast<std::int32_t>(layer), history - most, most};
    keys.first_query = step_.first_token(chunk);
    keys.queries = step_.tokens_of(chunk);
    keys.listed = any;  // else the latest pages
    emit_page_copies(Kind::kPrefetch, Engine::kHostToDevice, layer, 0,
                     page_class == PageClass::kKv ? PageUse::kRead : PageUse::kFetchIfAlive, keys);
}

RegionUse SequenceGenerator::vector_gradients() const {
    return write(step_.vectors_apart() ? RegionName::kVectorGradients : RegionName::kGradients);
}

std::int32_t SequenceGenerator::slot(std::int64_t layer) const {
    return static_cast<std::int32_t>((policy_.set() * step_.model().layers + layer) % slots_);
}

// The use of linear QKV, residual stream or gate and up in this layer. Held, they have a slot of their own, no life.
RegionUse SequenceGenerator::in_slot(RegionUse use, std::int64_t layer) const {
    return policy_.held() ? RegionUse{use.region, slot(layer), use.access, false, false} : use;
}

void SequenceGenerator::load_tokens() {
    Operation operation = make(Kind::kLoadTokens, 0, 0, CopyCost{rows_ * 8, 0});
    operation.engine = Engine::kHostToDevice;
    operation.regions = {read(RegionName::kHostTokens), write(RegionName::kTokens, token_slot())};
    emit(operation);
}

PageSet SequenceGenerator::own_pages(PageClass page_class, std::int64_t layer) const {
    return {page_class, static_cast<std::int32_t>(layer), step_.first_page(chunk_), step_.pages_of(chunk_)};
}

PageSet SequenceGenerator::kept_page(std::int64_t layer) const {
    return {PageClass::kActivation, static_cast<std::int32_t>(layer), step_.kept_rank(chunk_), 1};
}

SequenceGenerator::Keys SequenceGenerator::chunk_keys(std::int64_t layer, PageClass page_class) const {
    const std::int64_t first = step_.first_token(chunk_);
    return keys_of({first, rows_, first, rows_}, layer, page_class);
}

SequenceGenerator::Keys SequenceGenerator::keys_of(const KeyPart& part, std::int64_t layer,
                                                   PageClass page_class) const {
    const std::int64_t page = step_.run().page_tokens;
    const PageSet pages{page_class, static_cast<std::int32_t>(layer), part.first / page, divide_up(part.tokens, page)};
    return {part.first, part.tokens, pages, part.first_query, part.queries, part.sliding_window};
}

SequenceGenerator::Keys SequenceGenerator::group_keys(std::int64_t layer, std::int64_t group,
                                                      PageClass page_class) const {
    const std::int64_t page = step_.run().page_tokens, most_rows = step_.pages_per_group() * page;
    const std::int64_t first = group * most_rows;
    const std::int64_t rows = std::min(most_rows, rows_ - first);
    const std::int64_t named = divide_up(rows, page) * step_.run().top_k;
    const PageSet pages{page_class, static_cast<std::int32_t>(layer), 0, std::min(named, step_.first_page(chunk_))};
    return {0, step_.list_tokens(), pages, step_.first_token(chunk_) + first, rows, 0, true};
}

std::int64_t SequenceGenerator::history_parts(std::int64_t layer) const {
    return step_.has_lists(chunk_) ? step_.groups(chunk_) : KeyParts(step_, chunk_, layer).history();
}

SequenceGenerator::Keys SequenceGenerator::history_keys(std::int64_t layer, std::int64_t part,
                                                        PageClass page_class) const {
    return step_.has_lists(chunk_) ? group_keys(layer, part, page_class)
                                   : keys_of(KeyParts(step_, chunk_, layer).history_part(part), layer, page_class);
}

std::int64_t SequenceGenerator::left_out_layers(std::int64_t layer, int step) {
    const std::int64_t last = step > 0 ? step_.model().layers - 1 : 0;
    Repetition loop{.chunk = chunk_, .layer = layer, .step = step};
    loop.done = step > 0 ? layer : step_.model().layers - 1 - layer;
    const bool previous_is_special = step < 0 && loop.done == 1;  // the model's last layer has the loss
    while (loop.done > 0 && !previous_is_special && layer != last &&
           policy_.kept(layer) == policy_.kept(layer - step) &&
           step_.sliding_window(layer) == step_.sliding_window(layer - step)) {
        ++loop.alike;
        layer += step;
    }
    return sink_.left_out(loop);
}

std::int64_t SequenceGenerator::left_out_windows(std::int64_t layer, std::int64_t part, std::int64_t parts) {
    if (step_.has_lists(chunk_) || !KeyParts(step_, chunk_, layer).whole()) {
        return 0;
    }
    return sink_.left_out({.over = Repetition::Over::kWindows,
                           .chunk = chunk_,
                           .layer = layer,
                           .done = part,
                           .alike = part > 0 ? parts - 1 - part : 0});
}

AttentionCost SequenceGenerator::attention_cost(const Keys& keys, bool backward) const {
    const ModelShape& model = step_.model();
    AttentionCost cost;
    cost.first_query = keys.first_query;
    cost.queries = keys.queries;
    cost.first_key = keys.first;
    cost.keys = keys.tokens;
    cost.sliding_window = keys.sliding_window;
    cost.listed = keys.listed;
    cost.own_kernels = step_.own_kernels();
    cost.query_heads = model.query_heads;
    cost.kv_heads = model.kv_heads;
    cost.head_dim = model.head_dim;
    cost.backward = backward;
    cost.dtype = step_.run().compute;
    return cost;
}

GemmCost SequenceGenerator::gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool accumulates) const {
    return {m, n, k, step_.run().compute, accumulates};
}

}  // namespace oomb::schedule
