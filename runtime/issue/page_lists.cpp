#include "runtime/issue/page_lists.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::issue {

PageLists checked_lists(std::vector<std::int32_t> found, std::int64_t layer, std::int64_t first, std::int64_t count,
                        std::int64_t length, std::int64_t history) {
    PageLists lists;
    lists.length = length;
    lists.lists = std::move(found);
    require(std::ssize(lists.lists) == count * lists.length, "page lists: {} entries for {} query pages of {}",
            lists.lists.size(), count, lists.length);
    for (std::int64_t i = 0; i < std::ssize(lists.lists); ++i) {
        const std::int32_t page = lists.lists[i], before = i % lists.length == 0 ? -1 : lists.lists[i - 1];
        if (page <= before || page >= history) {
            fail<InternalError>(
                "page list of query page {} of layer {}: found page {} after {}, allowed are ascending ones below {}",
                first + i / lists.length, layer, page, before, history);
        }
    }
    constexpr std::int64_t kBits = 64;
    std::vector<std::uint64_t> named(static_cast<std::size_t>(history / kBits + 1));
    for (const std::int32_t page : lists.lists) {
        named[page / kBits] |= std::uint64_t{1} << (page % kBits);
    }
    for (std::size_t word = 0; word < named.size(); ++word) {
        for (std::uint64_t bits = named[word]; bits != 0; bits &= bits - 1) {
            lists.pages.push_back(static_cast<std::int32_t>(word * kBits) + std::countr_zero(bits));
        }
    }
    return lists;
}

std::vector<std::int32_t> places_of(const PageLists& lists) {
    std::vector<std::int32_t> places(lists.lists.size());
    std::transform(lists.lists.begin(), lists.lists.end(), places.begin(), [&](std::int32_t page) {
        return static_cast<std::int32_t>(std::lower_bound(lists.pages.begin(), lists.pages.end(), page) -
                                         lists.pages.begin());
    });
    return places;
}

}  // namespace oomb::issue
