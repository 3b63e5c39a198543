// FramePool against a set of free numbers.
#include <doctest/doctest.h>

#include <random>
#include <set>
#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/paging/frame_pool.hpp"

namespace oomb::paging {
namespace {

TEST_CASE("frames come in order, then the one given back last") {
    FramePool pool(3);
    CHECK(pool.take() == 0);
    CHECK(pool.take() == 1);
    pool.give_back(0);
    pool.give_back(1);
    CHECK(pool.take() == 1);
    CHECK(pool.take() == 0);
    CHECK(pool.take() == 2);
    CHECK_FALSE(pool.has_free());
    CHECK_THROWS_WITH_AS(pool.take(), doctest::Contains("all 3 frames"), InternalError);
    CHECK(pool.in_use() == 3);
    CHECK(pool.most_in_use() == 3);
}

TEST_CASE("a frame that was never handed out can't be given back, an empty pool has none") {
    FramePool pool(2);
    CHECK_THROWS_AS(pool.give_back(0), InternalError);
    CHECK(pool.take() == 0);
    CHECK_THROWS_AS(pool.give_back(1), InternalError);
    CHECK_THROWS_AS(pool.give_back(-1), InternalError);
    FramePool none(0);
    CHECK_FALSE(none.has_free());
    CHECK_THROWS_AS(none.take(), InternalError);
}

TEST_CASE("random taking and giving back: no frame twice, all frames used, the peak is remembered") {
    std::mt19937_64 random(1);
    for (const std::int64_t frames : {1, 2, 7, 100}) {
        FramePool pool(frames);
        std::vector<std::int32_t> held;
        std::int64_t most = 0;
        for (int i = 0; i < 2000; ++i) {
            const bool take = held.empty() || (pool.has_free() && random() % 5 < 3);
            if (take) {
                held.push_back(pool.take());
                CHECK(held.back() >= 0);
                CHECK(held.back() < frames);
            } else {
                const std::size_t which = random() % held.size();
                pool.give_back(held[which]);
                held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
            }
            most = std::max(most, static_cast<std::int64_t>(held.size()));
            CHECK(std::set<std::int32_t>(held.begin(), held.end()).size() == held.size());
            CHECK(pool.in_use() == static_cast<std::int64_t>(held.size()));
            CHECK(pool.most_in_use() == most);
            CHECK(pool.has_free() == (static_cast<std::int64_t>(held.size()) < frames));
        }
        CHECK(pool.table_bytes() == 4 * frames);
    }
}

}  // namespace
}  // namespace oomb::paging
