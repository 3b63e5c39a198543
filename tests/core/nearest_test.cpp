#include "runtime/core/nearest.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace oomb {

namespace {

// What the letters are by their definition, every way tried.
int tried(std::string_view from, std::string_view to) {
    if (from.empty() || to.empty()) {
        return static_cast<int>(from.size() + to.size());
    }
    int least = tried(from.substr(1), to.substr(1)) + (from[0] == to[0] ? 0 : 1);
    least = std::min({least, tried(from.substr(1), to) + 1, tried(from, to.substr(1)) + 1});
    if (from.size() > 1 && to.size() > 1 && from[0] == to[1] && from[1] == to[0]) {
        least = std::min(least, tried(from.substr(2), to.substr(2)) + 1);
    }
    return least;
}

}  // namespace

TEST_CASE("letters between two words are the fewest of all ways") {
    std::vector<std::string> words{""};
    for (std::size_t i = 0; words.size() < 120; ++i) {
        for (const char letter : {'a', 'b', 'c'}) {
            words.push_back(words[i] + letter);
        }
    }
    for (const std::string& from : words) {
        for (const std::string& to : words) {
            REQUIRE(letters_between(from, to) == tried(from, to));
        }
    }
}

TEST_CASE("the nearest word: a slip, a beginning, another case, and nothing where none is near") {
    const std::vector<std::string> known{"fit", "best", "max-context", "sweep", "timeline"};
    CHECK(nearest("bets", known) == "best");
    CHECK(nearest("swep", known) == "sweep");
    CHECK(nearest("max_context", known) == "max-context");
    CHECK(nearest("time", known) == "timeline");
    CHECK(nearest("BEST", known) == "best");
    CHECK(nearest("fti", known) == "fit");
    CHECK(nearest("calibrate", known).empty());
    CHECK(nearest("x", known).empty());
    CHECK(nearest("", known).empty());
    CHECK(nearest(std::string(100'000, 'x'), known).empty());
    CHECK(nearest("h200", {"h100_sxm", "h200_sxm"}) == "h200_sxm");
    CHECK(did_you_mean("offloat", {"offload"}) == "; did you mean offload?");
    CHECK(did_you_mean("other", {"none", "host"}).empty());
}

}  // namespace oomb
