#pragma once
// The slow, obviously right training step: the whole sequence at once, LibTorch autograd in float64; and the same in
// bf16, the measure of how far bf16 may be off.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/core/page_recall.hpp"
#include "trainer/executor/executor.hpp"
#include "trainer/model/parameter_layout.hpp"

namespace oomb::testing {

using PageListsByLayer = std::vector<std::vector<std::int32_t>>;  // each [query pages that have a list, pages]
// Top-K pages as docs/topk.md defines them, selected by LibTorch; or the lists that are given.
struct OracleTopK {
    std::int64_t chunk_tokens = 0, page_tokens = 0, pages = 0;
    const PageListsByLayer* given = nullptr;
};
// --attention local: a token attends to itself, the window - 1 before it (0: all), and the first `sinks`.
struct OracleLocal {
    std::int64_t window = 0, sinks = 0;
};

struct OracleResult {
    double loss = 0.0;
    std::vector<double> gradients;  // in the order of the layout
    PageListsByLayer lists;         // of the last sequence
    // Gradients at the outputs of the K and V projections, [layers][tokens, K/V width], of the last sequence.
    std::vector<std::vector<double>> key_gradients, value_gradients;
    // Of all lists: by how much of itself the score of the last page selected is above that of the best one that is
    // not.
    double least_score_gap = std::numeric_limits<double>::infinity();
};

// Loss summed over all valid targets of all sequences, divided once by their number. `type` is kF64 or kBF16.
OracleResult oracle_step(const ModelShape& shape, const trainer::ParameterLayout& layout,
                         const std::vector<double>& weights, std::span<const trainer::SequenceView> sequences,
                         DType type = DType::kF64, const OracleTopK* top_k = nullptr, OracleLocal local = {});

// The loss of every token of a sequence in float64, 0 for those that have no target; the lists go to `lists`, if any.
std::vector<double> oracle_losses(const ModelShape& shape, const trainer::ParameterLayout& layout,
                                  const std::vector<double>& weights, const trainer::SequenceView& sequence,
                                  const OracleTopK* top_k = nullptr, PageListsByLayer* lists = nullptr,
                                  OracleLocal local = {});

// What the pages before each query page's chunk cover of dense attention in float64, from the whole attention matrix:
// [layers, budgets].
std::vector<RecallSums> oracle_recall(const ModelShape& shape, const trainer::ParameterLayout& layout,
                                      const std::vector<double>& weights, const trainer::SequenceView& sequence,
                                      std::int64_t chunk_tokens, std::int64_t page_tokens,
                                      const std::vector<std::int64_t>& budgets);

}  // namespace oomb::testing
