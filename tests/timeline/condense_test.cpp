#include "timeline/condense.hpp"

#include <doctest/doctest.h>

#include <random>

namespace oomb::testing {
namespace {

using timeline::condense;
using timeline::Pieces;

Pieces random_pieces(std::uint64_t seed, int count) {
    std::mt19937_64 random(seed);
    Pieces pieces;
    std::int64_t at = 0;
    for (int i = 0; i < count; ++i) {
        const std::int64_t end = at + static_cast<std::int64_t>(random() % 40);
        pieces.push_back({at, end, static_cast<std::uint32_t>(random() % 3)});
        at = end + static_cast<std::int64_t>(random() % 30);
    }
    return pieces;
}

TEST_CASE("few enough pieces are drawn as they are") {
    const std::vector<Pieces> lanes = {random_pieces(1, 30), {}, random_pieces(2, 5)};
    const auto drawn = condense(lanes, 35);
    CHECK(drawn.resolution_ns == 0);
    REQUIRE(drawn.lanes.size() == 3);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        REQUIRE(drawn.lanes[lane].size() == lanes[lane].size());
        for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
            CHECK(drawn.lanes[lane][i].begin_ns == lanes[lane][i].begin_ns);
            CHECK(drawn.lanes[lane][i].first == i);
            CHECK(drawn.lanes[lane][i].count == 1);
            CHECK(drawn.lanes[lane][i].category == lanes[lane][i].category);
        }
    }
}

TEST_CASE("too many are joined: none is lost, long ones stay, the limit holds") {
    Pieces pieces;
    std::int64_t at = 0, busy_ns = 0;
    for (int i = 0; i < 5000; ++i) {
        const std::int64_t length = i % 100 == 50 ? 1'000'000 : 500;
        pieces.push_back({at, at + length, i % 3 == 0 ? 4U : 2U});
        busy_ns += length;
        at += length + 10;
    }
    const auto drawn = condense({pieces}, 400);
    CHECK(std::ssize(drawn.lanes[0]) <= 400);
    CHECK(drawn.resolution_ns > 500);
    std::size_t next = 0;
    std::int64_t found_ns = 0, alone = 0;
    for (const auto& piece : drawn.lanes[0]) {
        CHECK(piece.first == next);
        CHECK(piece.begin_ns == pieces[piece.first].begin_ns);
        CHECK(piece.end_ns == pieces[piece.first + piece.count - 1].end_ns);
        next = piece.first + piece.count;
        found_ns += piece.busy_ns;
        alone += piece.count == 1 && piece.end_ns - piece.begin_ns == 1'000'000 ? 1 : 0;
        CHECK((piece.count == 1 || piece.end_ns - piece.begin_ns < 2 * drawn.resolution_ns));
        if (piece.count > 2) {
            CHECK(piece.category == 2);  // two of three are
        }
    }
    CHECK(next == pieces.size());
    CHECK(found_ns == busy_ns);
    CHECK(alone == 50);
}

TEST_CASE("a limit that cannot be kept ends too") {
    CHECK(condense({random_pieces(2, 100)}, 1).resolution_ns > 0);
    // Times at the edge of what a file may say: nothing overflows.
    const std::int64_t most = std::int64_t{1} << 61;
    CHECK(condense({{{0, 10, 0}, {most - 1, most, 0}}}, 0).lanes[0].size() <= 2);
}

}  // namespace
}  // namespace oomb::testing
