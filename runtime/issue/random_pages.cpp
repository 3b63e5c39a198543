#include "runtime/issue/random_pages.hpp"

#include <algorithm>

#include "runtime/core/splitmix.hpp"

namespace oomb::issue {
namespace {

// Below `end`; some values are more likely than others by at most end / 2^64.
std::int64_t random_below(std::uint64_t key, std::uint64_t counter, std::int64_t end) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>(Wide{random_bits(key, counter)} * static_cast<std::uint64_t>(end) >> 64);
}

// Appends `count` of the first `history` pages, ascending (Floyd's algorithm: Bentley, Programming Pearls, 1987).
void draw(std::uint64_t key, std::int64_t count, std::int64_t history, std::vector<std::int32_t>& lists) {
    std::vector<std::int32_t> drawn;  // ascending
    for (std::int64_t last = history - count; last < history; ++last) {
        const auto page = static_cast<std::int32_t>(random_below(key, static_cast<std::uint64_t>(last), last + 1));
        const auto place = std::lower_bound(drawn.begin(), drawn.end(), page);
        if (place != drawn.end() && *place == page) {
            drawn.push_back(static_cast<std::int32_t>(last));  // above all that were drawn before
        } else {
            drawn.insert(place, page);
        }
    }
    lists.insert(lists.end(), drawn.begin(), drawn.end());
}

}  // namespace

std::vector<std::int32_t> RandomPages::page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                  Ticket /*stored*/) {
    const std::uint64_t of_sequence = random_bits(stream_key(step_.run().page_seed, "pages"), sequence_);
    const std::uint64_t of_layer = random_bits(of_sequence, static_cast<std::uint64_t>(layer));
    std::vector<std::int32_t> lists;
    lists.reserve(count * step_.run().top_k);
    for (std::int64_t page = first; page < first + count; ++page) {
        const std::int64_t history = step_.first_page(page / step_.pages_per_chunk());
        draw(random_bits(of_layer, static_cast<std::uint64_t>(page)), step_.run().top_k, history, lists);
    }
    return lists;
}

}  // namespace oomb::issue
