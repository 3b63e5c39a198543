#pragma once
// Page lists drawn at random: of each query page and layer K pages of its history, every set of K alike. What lists of
// the same length that are chosen by their scores have to be better than.

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::issue {

class RandomPages : public PageListSource {
  public:
    // `step` of the run's longest sequence: K, pages and chunks; draws are a function of `run().page_seed`, the
    // sequence, the layer and the query page, whatever the order in which they are asked for.
    explicit RandomPages(const schedule::StepShape& step) : step_(step) {}

    // Sequences are counted as they come: each has draws of its own.
    void next_sequence() { ++sequence_; }
    // As if so many had come.
    void skip_to(std::int64_t sequences) { sequence_ = static_cast<std::uint64_t>(sequences); }
    // Waits for nothing.
    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         Ticket stored) override;

  private:
    schedule::StepShape step_;
    std::uint64_t sequence_ = 0;
};

}  // namespace oomb::issue
