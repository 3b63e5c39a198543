#pragma once
// The pages of requests that the schedule could not name, when their operations are issued.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/issue/page_lists.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/step_shape.hpp"

namespace oomb::issue {

// Whoever walks a schedule in program order asks it for each operation that has a listed request.
class ListedPages {
  public:
    // Both outlive it. `source` may be null where no operation has lists.
    ListedPages(const schedule::Plan& plan, PageListSource* source);

    // The next chunk begins, of so many tokens, maybe of another and shorter sequence.
    void begin_chunk(std::int64_t tokens);
    // A store_lists is issued with this ticket.
    void stored(Ticket ticket);

    // Puts pages in the place of those of each listed request; they belong to the result, whose `pages` they are.
    // - Attention, fetch: all that the lists of the operation's query pages name; the result has the lists, too.
    // - Prefetch: at most its bound, ascending. By lists of its own chunk those that the first groups name. By lists of
    //   an earlier chunk the pages that are new since then, the latest first, then those that the most lists name, of
    //   equals the later one.
    // - Write back: gradient pages of this group, and of earlier ones that wait, that no later group of the layer adds
    //   to. The others wait in HBM, where their frames suffice; else those needed last are written, too.
    // Throws InternalError where lists are not as they must be, or name more pages than the operation's bound.
    std::shared_ptr<const PageLists> name(schedule::Operation& operation);

  private:
    using Shared = std::shared_ptr<const PageLists>;
    // Gradient page that HBM alone holds as it is, and the next group of its layer that adds to it.
    struct Waiting {
        std::int32_t page = 0;
        std::int32_t next = 0;
    };

    std::int64_t group_of(const schedule::Operation& operation) const;
    Shared read(std::int64_t layer, std::int64_t first, std::int64_t count) const;
    void take_chunk(std::int64_t layer, std::int64_t chunk);
    Shared prefetched(const schedule::Operation& operation);
    std::vector<std::int32_t> named_first(std::int64_t most) const;
    std::vector<std::int32_t> named_most(const PageLists& lists, std::int64_t history, std::int64_t most) const;
    Shared written(const schedule::Operation& operation);
    void find_next_groups();

    const schedule::StepShape step_;
    PageListSource* source_;
    Ticket stored_ = 0;
    std::int64_t chunk_pages_ = 0;  // of the present chunk
    std::int64_t resident_pages_, most_waiting_;
    // Of the last chunk and layer that was asked for: by group of query pages.
    std::pair<std::int64_t, std::int64_t> of_{-1, -1};
    std::vector<Shared> groups_;
    std::vector<std::vector<std::int32_t>> next_groups_;  // parallel to the pages of each group; empty: not found yet
    std::vector<Waiting> waiting_;
};

}  // namespace oomb::issue
