// Which pages the Hopper kernels read, against the definition of the mask, key by key. No GPU is needed.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "kernels/cuda/hopper/walk.hpp"

namespace oomb::kernels::test {
namespace {

namespace hopper = cuda::hopper;

struct Problem {
    AttentionMask mask;
    std::vector<std::int64_t> document_starts;
    paging::PageView<const float> window;
    std::int64_t queries;

    bool sees(std::int64_t query, std::int64_t key) const {  // both counted from the first of theirs
        const std::int64_t q = mask.first_query + query, k = window.first_token + key;
        const std::int64_t document = document_starts.empty() ? mask.document_start : document_starts[query];
        return k <= q && k >= document && (mask.sliding_window == 0 || k > q - mask.sliding_window);
    }
};

Problem random_problem(std::mt19937& random) {
    const auto up_to = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
    const std::int64_t far = up_to(1) * (std::int64_t{1} << 33);
    Problem p;
    p.queries = 1 + up_to(127);
    p.window.first_token = far + up_to(400);
    p.window.tokens = 1 + up_to(700);
    p.window.page_tokens = hopper::kPageTokens;
    p.mask.first_query = far + up_to(1'200);
    p.mask.sliding_window = up_to(2) == 0 ? 1 + up_to(500) : 0;
    p.mask.document_start = up_to(1) * (far + up_to(900));
    if (up_to(2) == 0) {
        for (std::int64_t i = 0; i < p.queries; ++i) {
            p.document_starts.push_back(far + up_to(1'200));
        }
    }
    return p;
}

TEST_CASE("a tile reads every page that one of its queries sees, and masks where not all see all") {
    std::mt19937 random(1);
    int empty = 0, masked = 0, whole = 0;
    for (int round = 0; round < 1'000; ++round) {
        Problem p = random_problem(random);
        p.mask.document_starts = p.document_starts.empty() ? nullptr : p.document_starts.data();
        hopper::TileKeys tile;
        for (std::int64_t i = 0; i < p.queries; ++i) {
            const hopper::KeySpan span = hopper::keys_seen(p.mask, p.window, i);
            int wrong = 0;
            for (std::int64_t key = 0; key < p.window.tokens; ++key) {
                wrong += (key >= span.begin && key < span.end) != p.sees(i, key);
            }
            REQUIRE(wrong == 0);
            tile.add(span);
        }
        const auto pages = static_cast<std::int32_t>((p.window.tokens + hopper::kPageTokens - 1) / hopper::kPageTokens);
        REQUIRE(tile.first_page() + tile.pages() <= pages);
        empty += tile.pages() == 0;
        std::int32_t pages_seen = 0;
        for (std::int32_t page = 0; page < pages; ++page) {
            bool any = false, all = true;
            int wrong = 0;
            const hopper::QuerySpan readers = hopper::readers_of(p.mask, p.window, page, p.queries);
            for (std::int64_t i = 0; i < p.queries; ++i) {
                const bool may_read = i >= readers.begin && i < readers.end;
                const std::uint32_t span = hopper::page_span(hopper::keys_seen(p.mask, p.window, i), page);
                for (int key = 0; key < hopper::kPageTokens; ++key) {
                    const std::int64_t in_window = std::int64_t{page} * hopper::kPageTokens + key;
                    const bool seen = in_window < p.window.tokens && p.sees(i, in_window);
                    any = any || seen;
                    all = all && seen;
                    wrong += hopper::in_page_span(span, key) != seen || (seen && !may_read);
                }
            }
            REQUIRE(wrong == 0);
            const bool read = page >= tile.first_page() && page < tile.first_page() + tile.pages();
            REQUIRE((read || !any));
            REQUIRE(tile.all_see(page) == all);
            // Pages that are seen follow one another from the first: a page's place among them needs no list of them.
            REQUIRE((!any || page == tile.first_page() + pages_seen));
            pages_seen += any;
            whole += all;
            masked += any && !all;
        }
    }
    CHECK(empty > 50);
    CHECK(masked > 300);
    CHECK(whole > 300);
}

TEST_CASE("spans of a page") {
    CHECK(hopper::page_span({0, 1'000}, 3) == hopper::kWholePage);
    CHECK(hopper::page_span({}, 0) == 0);
    CHECK(hopper::page_span({0, 128}, 1) == 0);
    CHECK(hopper::page_span({130, 140}, 1) == (2U | 12U << 16));
}

}  // namespace
}  // namespace oomb::kernels::test
