#pragma once
// Lists of top-K pages in place of those that were selected, with the same wait: what lists of a given locality cost.

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/issue/page_lists.hpp"

namespace oomb::trainer {

class ReplacedLists : public issue::PageListSource {
  public:
    // `selected` outlives this, and gives the lists as long as there are no others.
    explicit ReplacedLists(issue::PageListSource& selected) : selected_(selected) {}

    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override {
        std::vector<std::int32_t> found = selected_.page_lists(layer, first, count, stored);
        return lists == nullptr ? found : lists->page_lists(layer, first, count, stored);
    }

    std::shared_ptr<issue::PageListSource> lists;  // null: those selected

  private:
    issue::PageListSource& selected_;
};

}  // namespace oomb::trainer
