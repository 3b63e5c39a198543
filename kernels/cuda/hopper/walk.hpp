#pragma once
// Which pages of a window a tile of queries reads, and which queries read a page. Plain arithmetic for device and host;
// the host's tests hold it to the definition of the mask (tests/kernels/hopper_walk_test.cpp).
//
// Keys are counted from the window's first token, in 32 bits: a window has fewer than 2^31 tokens.

#include <cstdint>
#include <limits>

#include "kernels/attention.hpp"
#include "runtime/paging/page_view.hpp"

namespace oomb::kernels::cuda::hopper {

constexpr int kPageTokens = 128;

// Keys [begin, end) that one query sees; {0, 0} for none.
struct KeySpan {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    constexpr bool empty() const { return begin >= end; }
};
template <class T>
constexpr KeySpan keys_seen(const AttentionMask& mask, const paging::PageView<T>& window, std::int64_t query) {
    const std::int64_t begin = mask.begin(query) - window.first_token;
    const std::int64_t end = mask.end(query) - window.first_token;
    const std::int64_t first = begin > 0 ? begin : 0;
    const std::int64_t last = end < window.tokens ? end : window.tokens;
    return first < last ? KeySpan{static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)} : KeySpan{};
}

// Of the queries of a tile, 128 at most, together: some query sees a key of [begin, end), and no query one outside;
// every query sees all of [all_begin, all_end). Pages of which some query sees a key follow one another.
struct TileKeys {
    std::int32_t begin = std::numeric_limits<std::int32_t>::max();
    std::int32_t end = 0;
    std::int32_t all_begin = 0;
    std::int32_t all_end = std::numeric_limits<std::int32_t>::max();

    constexpr void add(KeySpan query) {
        if (query.empty()) {
            all_end = 0;
            return;
        }
        begin = query.begin < begin ? query.begin : begin;
        end = query.end > end ? query.end : end;
        all_begin = query.begin > all_begin ? query.begin : all_begin;
        all_end = query.end < all_end ? query.end : all_end;
    }
    constexpr bool empty() const { return end == 0; }
    constexpr std::int32_t first_page() const { return empty() ? 0 : begin / kPageTokens; }
    constexpr std::int32_t pages() const {
        return empty() ? 0 : (end + kPageTokens - 1) / kPageTokens - begin / kPageTokens;
    }
    constexpr bool all_see(std::int32_t page) const {
        return page * kPageTokens >= all_begin && (page + 1) * kPageTokens <= all_end;
    }
};

// Keys of one page that a query sees, [low, high) counted from the page's first, in 16 bits each; 0 for none.
constexpr std::uint32_t page_span(KeySpan query, std::int32_t page) {
    const std::int32_t low = query.begin - page * kPageTokens;
    const std::int32_t high = query.end - page * kPageTokens;
    const std::int32_t first = low > 0 ? low : 0;
    const std::int32_t last = high < kPageTokens ? high : kPageTokens;
    return first < last ? static_cast<std::uint32_t>(first) | static_cast<std::uint32_t>(last) << 16 : 0;
}
constexpr bool in_page_span(std::uint32_t span, int key) {
    return key >= static_cast<int>(span & 0xFFFF) && key < static_cast<int>(span >> 16);
}
// Queries [begin, end) of `queries` beyond which none sees a key of the page; documents may hide it from more.
struct QuerySpan {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
template <class T>
constexpr QuerySpan readers_of(const AttentionMask& mask, const paging::PageView<T>& window, std::int32_t page,
                               std::int64_t queries) {
    const std::int64_t first_key = std::int64_t{page} * kPageTokens;
    const std::int64_t keys_end = first_key + kPageTokens < window.tokens ? first_key + kPageTokens : window.tokens;
    const std::int64_t before = window.first_token - mask.first_query;  // of keys, less those of queries
    const std::int64_t begin = first_key + before > 0 ? first_key + before : 0;
    const std::int64_t slid = keys_end + before + mask.sliding_window - 1;  // the last key has slid out of its window
    const std::int64_t end = mask.sliding_window > 0 && slid < queries ? slid : queries;
    return begin < end ? QuerySpan{begin, end} : QuerySpan{};
}
constexpr std::uint32_t kWholePage = std::uint32_t{kPageTokens} << 16;

// Turns where dq is ordered: of every head, two to each 64 queries.
constexpr std::int64_t turns_of(std::int64_t tokens, std::int64_t query_heads) {
    return (tokens + kPageTokens - 1) / kPageTokens * 4 * query_heads;
}

}  // namespace oomb::kernels::cuda::hopper
