#include "runtime/issue/page_lists.hpp"

#include <algorithm>
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
    lists.pages = lists.lists;
    std::sort(lists.pages.begin(), lists.pages.end());
    lists.pages.erase(std::unique(lists.pages.begin(), lists.pages.end()), lists.pages.end());
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
