#pragma once
// Tells somebody the lists of pages on their way to the issuer, from the backend or, random ones, from where they are
// drawn; each group's once per sequence.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::trainer {

// Lists of a group of query pages: [query pages, length]; the span is valid during the call.
struct GroupLists {
    std::int64_t sequence = 0;  // within the optimizer step
    std::int64_t layer = 0;
    std::int64_t query_page = 0;  // the group's first
    std::int64_t length = 0;
    std::span<const std::int32_t> lists;
};

class ListTap : public issue::PageListSource {
  public:
    // `source` outlives the tap. `step` is the longest sequence of the run.
    ListTap(const schedule::StepShape& step, issue::PageListSource& source)
        : source_(source),
          pages_(step.pages()),
          length_(step.run().top_k),
          told_(step.selects() ? static_cast<std::size_t>(step.model().layers * step.pages()) : 0) {}

    void begin_sequence(std::int64_t sequence) {
        sequence_ = sequence;
        told_.assign(told_.size(), false);
    }

    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override {
        std::vector<std::int32_t> lists = source_.page_lists(layer, first, count, stored);
        const auto place = static_cast<std::size_t>(layer * pages_ + first);
        if (on_lists && !told_.at(place)) {
            told_[place] = true;
            on_lists({sequence_, layer, first, length_, lists});
        }
        return lists;
    }

    // Called from the thread that issues. May be empty.
    std::function<void(const GroupLists&)> on_lists;

  private:
    issue::PageListSource& source_;
    std::int64_t pages_, length_;
    std::int64_t sequence_ = 0;
    std::vector<bool> told_;  // [layers, pages]: by a group's first query page
};

}  // namespace oomb::trainer
