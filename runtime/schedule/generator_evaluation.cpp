#include "runtime/schedule/generator_parts.hpp"

namespace oomb::schedule {

using enum RegionName;

void SequenceGenerator::evaluate_chunk(std::int64_t chunk) {
    begin_chunk(Phase::kForward, chunk);
    load_tokens();
    forward_chunk();
    evaluate_loss();
}

// Head and cross entropy by row tiles, as in training; then the chunk's losses leave for the host.
void SequenceGenerator::evaluate_loss() {
    const std::int64_t tiles = divide_up(rows_, step_.run().logit_tile_tokens);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
        evaluate_loss_tile(tile, tiles);
    }
    Operation store =
        make(Kind::kStoreLosses, step_.model().layers - 1, 0, CopyCost{rows_ * step_.accumulator_bytes(), 0});
    store.engine = Engine::kDeviceToHost;
    store.regions = {end(kTokenLosses), write(kHostLosses)};
    emit(store);
}

void SequenceGenerator::evaluate_loss_tile(std::int64_t tile, std::int64_t tiles) {
    const ModelShape& model = step_.model();
    const std::int64_t rows = rows_of_tile(tile), row_bytes = rows * step_.compute_bytes();
    emit_tile(Kind::kFinalNorm, tile, ElementwiseCost{2 * row_bytes * model.hidden},
              {read_and(tile + 1 == tiles, kFinalHidden), read(kWeights), begin(kTileNormed)});
    emit_tile(Kind::kLinearHead, tile, gemm(rows, model.vocab, model.hidden),
              {end(kTileNormed), read(kWeights), begin(kLogits)});
    emit_tile(Kind::kCrossEntropy, tile, ElementwiseCost{row_bytes * model.vocab},
              {read(kTokens, token_slot()), end(kLogits), write_and(tile == 0, kTokenLosses), write(kScalars)});
}

// Once the log-sum-exps over all keys are known: the attention mass of every page before the chunk, window by window,
// beside the scores by which top-K would choose.
void SequenceGenerator::measure_recall(std::int64_t layer) {
    const ModelShape& model = step_.model();
    const std::int64_t pages = step_.first_page(chunk_), parts = history_parts(layer);
    const std::int64_t table_bytes = step_.pages_of(chunk_) * pages * step_.accumulator_bytes();
    emit_linear(Kind::kPageScores, layer, gemm(rows_ * model.kv_heads, pages, model.head_dim),
                {read(kQuery), read(kPageMeans, static_cast<std::int32_t>(layer)), begin(kPageScores)});
    for (std::int64_t part = 0; part < parts; ++part) {
        const Keys keys = history_keys(layer, part, PageClass::kKv);
        emit_page_copies(Kind::kFetch, Engine::kHostToDevice, layer, parts + part + 1, PageUse::kRead, keys);
        Operation mass =
            make(Kind::kPageMass, layer, part, gemm(rows_ * model.query_heads, keys.tokens, model.head_dim));
        mass.regions = {read_and(part + 1 == parts, kQuery), read(kLogSumExp, slot(layer)), scratch(kAttentionScratch),
                        write_and(part == 0, kPageMass)};
        mass.requests.push_back(keys.request(PageUse::kRead));
        emit(mass);
    }
    emit_pass(Kind::kPageRecall, layer, 2 * table_bytes, {end(kPageScores), end(kPageMass), write(kRecall)});
}

// After the last chunk all pages die.
void SequenceGenerator::release_history() {
    for (std::int64_t layer = 0; layer < step_.model().layers; ++layer) {
        Operation release = make(Kind::kRelease, layer, 0, std::monostate{});
        release.requests.push_back(
            {PageUse::kRelease, {PageClass::kKv, static_cast<std::int32_t>(layer), 0, step_.pages()}, 0});
        emit(release);
    }
}

}  // namespace oomb::schedule
