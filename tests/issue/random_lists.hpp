#pragma once
// Lists of pages for tests.

#include <algorithm>
#include <numeric>
#include <random>

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::testing {

// Random ascending lists, the same whenever they are asked for within a sequence, as in a run.
class RandomLists : public issue::PageListSource {
  public:
    explicit RandomLists(const schedule::Plan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override {
        CHECK(stored > 0);
        std::vector<std::int32_t> lists;
        const std::int64_t per_chunk = plan_.run.chunk_tokens / plan_.run.page_tokens;
        for (std::int64_t page = first; page < first + count; ++page) {
            std::vector<std::int32_t> all(page / per_chunk * per_chunk);
            std::iota(all.begin(), all.end(), 0);
            std::shuffle(all.begin(), all.end(), std::mt19937_64(seed_ + 1000 * layer + page));
            std::sort(all.begin(), all.begin() + plan_.run.top_k);
            lists.insert(lists.end(), all.begin(), all.begin() + plan_.run.top_k);
        }
        return lists;
    }

  private:
    const schedule::Plan& plan_;
    std::uint64_t seed_;
};

}  // namespace oomb::testing
