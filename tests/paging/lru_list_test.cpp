// LruList against a list that is searched from end to end.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/paging/lru_list.hpp"

namespace oomb::paging {
namespace {

void check_equal(LruList list, const std::vector<std::int32_t>& model, std::int32_t frames) {
    for (std::int32_t frame = 0; frame < frames; ++frame) {
        CHECK(list.contains(frame) == (std::find(model.begin(), model.end(), frame) != model.end()));
    }
    for (const std::int32_t frame : model) {  // taking the oldest away shows the whole order
        REQUIRE_FALSE(list.empty());
        CHECK(list.oldest() == frame);
        list.remove(frame);
    }
    CHECK(list.empty());
}

TEST_CASE("random touches and removals keep the order of last use") {
    std::mt19937_64 random(3);
    for (const std::int32_t frames : {1, 2, 5, 20}) {
        LruList list(frames);
        std::vector<std::int32_t> model;
        check_equal(list, model, frames);
        for (int i = 0; i < 1000; ++i) {
            const auto frame = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(frames));
            std::erase(model, frame);
            if (random() % 3 == 0) {
                list.remove(frame);
            } else {
                list.touch(frame);
                model.push_back(frame);
            }
            check_equal(list, model, frames);
        }
        CHECK(list.table_bytes() == 8 * frames);
    }
}

}  // namespace
}  // namespace oomb::paging
