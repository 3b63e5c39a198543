#include "runtime/issue/listed_pages.hpp"

#include <algorithm>
#include <limits>

#include "runtime/core/error.hpp"

namespace oomb::issue {

using schedule::Kind;
using schedule::Operation;

namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kNever = kMost;  // as a next group

// Ascending ones.
std::shared_ptr<const PageLists> of_pages(std::vector<std::int32_t> pages) {
    PageLists lists;
    lists.pages = std::move(pages);
    return std::make_shared<const PageLists>(std::move(lists));
}

}  // namespace

// While a group's pages are in use, those of the next one find room beside the ones that wait.
ListedPages::ListedPages(const schedule::Plan& plan, PageListSource* source)
    : step_(plan.model, plan.run), source_(source), resident_pages_(plan.resident_pages), most_waiting_(0) {
    const schedule::PoolPlan* pool = plan.pool(Tier::kHbm, PageClass::kKvGradient);
    if (pool != nullptr && step_.selects()) {
        const std::int64_t of_group =
            std::min(step_.pages_per_group() * step_.run().top_k, step_.first_page(step_.chunks() - 1));
        most_waiting_ = std::max<std::int64_t>(0, pool->frames - resident_pages_ - 2 * of_group);
    }
}

void ListedPages::begin_chunk(std::int64_t tokens) {
    chunk_pages_ = schedule::divide_up(tokens, step_.run().page_tokens);
    of_ = {-1, -1};
}

void ListedPages::stored(Ticket ticket) {
    stored_ = ticket;
    of_ = {-1, -1};
}

std::shared_ptr<const PageLists> ListedPages::name(Operation& operation) {
    Shared lists;
    if (operation.id.kind == Kind::kPrefetch) {
        lists = prefetched(operation);
    } else {
        take_chunk(operation.id.layer, operation.id.chunk);
        lists = operation.id.kind == Kind::kWriteBack ? written(operation) : groups_.at(group_of(operation));
    }
    const auto count = static_cast<std::int64_t>(lists->pages.size());
    for (schedule::PageRequest& request : operation.requests) {
        if (request.listed && count > request.bound) {
            fail<InternalError>("{}: its lists name {} pages, its bound is {}", to_text(operation.id), count,
                                request.bound);
        }
        if (request.listed) {
            request.pages.first = 0;
            request.pages.count = count;
            request.pages.list = lists->pages.data();
        }
    }
    return lists;
}

std::int64_t ListedPages::group_of(const Operation& operation) const {
    const std::int64_t row = operation.first_row - step_.first_token(operation.id.chunk);
    return row / (step_.pages_per_group() * step_.run().page_tokens);
}

ListedPages::Shared ListedPages::read(std::int64_t layer, std::int64_t first, std::int64_t count) const {
    require(source_ != nullptr, "page lists of layer {} are needed and nobody makes any", layer);
    const std::int64_t history = step_.first_page(first / step_.pages_per_chunk());
    return source_->checked({layer, first, count, step_.run().top_k, history, stored_});
}

void ListedPages::take_chunk(std::int64_t layer, std::int64_t chunk) {
    if (of_ == std::pair{layer, chunk}) {
        return;
    }
    if (!waiting_.empty()) {
        fail<InternalError>("gradient page {} of layer {} was never written back", waiting_.front().page, of_.first);
    }
    groups_.clear();
    next_groups_.clear();
    const std::int64_t of_group = step_.pages_per_group();
    for (std::int64_t page = 0; page < chunk_pages_; page += of_group) {
        groups_.push_back(read(layer, step_.first_page(chunk) + page, std::min(of_group, chunk_pages_ - page)));
    }
    of_ = {layer, chunk};
}

ListedPages::Shared ListedPages::prefetched(const Operation& operation) {
    const std::int64_t most = operation.requests[0].bound, layer = operation.id.layer;
    const std::int64_t chunk = operation.first_row / step_.run().chunk_tokens;
    if (chunk == operation.id.chunk) {
        take_chunk(layer, chunk);
        return of_pages(named_first(most));
    }
    const Shared lists = read(layer, step_.first_page(chunk), step_.pages_per_chunk());
    return of_pages(named_most(*lists, step_.first_page(operation.id.chunk), most));
}

std::vector<std::int32_t> ListedPages::named_first(std::int64_t most) const {
    std::vector<std::uint8_t> taken(static_cast<std::size_t>(step_.pages()));
    std::int64_t count = 0;
    for (const Shared& group : groups_) {
        for (const std::int32_t page : group->pages) {
            if (count < most && taken[page] == 0) {
                taken[page] = 1;
                ++count;
            }
        }
    }
    std::vector<std::int32_t> pages;
    pages.reserve(static_cast<std::size_t>(count));
    for (std::size_t page = 0; page < taken.size(); ++page) {
        if (taken[page] != 0) {
            pages.push_back(static_cast<std::int32_t>(page));
        }
    }
    return pages;
}

std::vector<std::int32_t> ListedPages::named_most(const PageLists& lists, std::int64_t history,
                                                  std::int64_t most) const {
    std::vector<std::int32_t> times(static_cast<std::size_t>(history)), pages = lists.pages;
    for (const std::int32_t page : lists.lists) {
        ++times[page];
    }
    for (std::int64_t page = history - step_.pages_per_chunk(); page < history; ++page) {
        times[page] = kMost;  // before all others
        pages.push_back(static_cast<std::int32_t>(page));
    }
    if (most < std::ssize(pages)) {
        const auto before = [&](std::int32_t a, std::int32_t b) {
            return std::pair(times[a], a) > std::pair(times[b], b);
        };
        std::vector<std::int32_t> order = pages;
        const auto first_left = order.begin() + most;
        std::nth_element(order.begin(), first_left, order.end(), before);
        std::erase_if(pages, [&, left = *first_left](std::int32_t page) { return !before(page, left); });
    }
    return pages;
}

ListedPages::Shared ListedPages::written(const Operation& operation) {
    if (next_groups_.empty()) {
        find_next_groups();
    }
    const std::int64_t group = group_of(operation), layers = step_.model().layers;
    const std::vector<std::int32_t>&pages = groups_.at(group)->pages, &next = next_groups_.at(group);
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.next == group; });  // it has a new next group
    std::vector<std::int32_t> written;
    for (std::size_t i = 0; i < pages.size(); ++i) {
        const bool at_home = pages[i] * layers + operation.id.layer < resident_pages_;
        if (next[i] != kNever && !at_home) {
            waiting_.push_back({pages[i], next[i]});
        } else {
            written.push_back(pages[i]);
        }
    }
    if (std::ssize(waiting_) > most_waiting_) {
        const auto end = waiting_.begin() + most_waiting_;
        std::nth_element(waiting_.begin(), end, waiting_.end(), [](const Waiting& a, const Waiting& b) {
            return std::pair(a.next, a.page) < std::pair(b.next, b.page);
        });
        const auto of_group = std::ssize(written);
        std::transform(end, waiting_.end(), std::back_inserter(written),
                       [](const Waiting& waiting) { return waiting.page; });
        waiting_.erase(end, waiting_.end());
        std::sort(written.begin() + of_group, written.end());
        std::inplace_merge(written.begin(), written.begin() + of_group, written.end());
    }
    return of_pages(std::move(written));
}

void ListedPages::find_next_groups() {
    next_groups_.resize(groups_.size());
    std::vector<std::int32_t> next(static_cast<std::size_t>(step_.pages()), kNever);
    for (std::size_t group = groups_.size(); group-- > 0;) {
        for (const std::int32_t page : groups_[group]->pages) {
            next_groups_[group].push_back(next[page]);
            next[page] = static_cast<std::int32_t>(group);
        }
    }
}

}  // namespace oomb::issue
