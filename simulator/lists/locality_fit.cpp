#include "simulator/lists/locality_fit.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>

#include "runtime/core/error.hpp"

namespace oomb::simulator {
namespace {

struct Mean {
    double sum = 0.0, weight = 0.0;
    void add(double value) {
        sum += value;
        weight += 1.0;
    }
    double value() const { return weight > 0 ? sum / weight : 0.0; }
};

using List = std::span<const std::int32_t>;

// Marks pages; cleared in constant time.
class Marks {
  public:
    explicit Marks(std::int64_t pages) : marked_(static_cast<std::size_t>(pages), 0) {}
    void clear() { ++now_; }
    bool has(std::int32_t page) const { return marked_[page] == now_; }
    bool add(std::int32_t page) {  // true: it is new
        const bool is_new = !has(page);
        marked_[page] = now_;
        return is_new;
    }

  private:
    std::vector<std::int64_t> marked_;
    std::int64_t now_ = 1;
};

class Counter {
  public:
    explicit Counter(const ListedRun& run)
        : run_(run),
          places_(kFirstPages),
          distances_(std::bit_width(static_cast<std::uint64_t>(run.pages()))),
          seen_(run.pages()),
          before_(run.pages()) {
        for (std::int64_t size = 2; size < run.pages_per_chunk(); size *= 2) {
            groups_.push_back({size, {}});
        }
        groups_.push_back({run.pages_per_chunk(), {}});
    }

    // Lists of all query pages of one chunk and layer, in order; those of the chunk before, where it has some.
    void chunk(const std::vector<List>& lists, const std::vector<List>& before, std::int64_t history) {
        for (std::size_t i = 0; i < lists.size(); ++i) {
            count_hits(lists[i], history);
            if (i > 0) {
                neighbours_.add(shared({lists[i - 1]}, {lists[i]}));
            }
        }
        for (auto& [size, mean] : groups_) {
            for (std::int64_t first = 0; first + size <= std::ssize(lists); first += size) {
                const std::vector<List> group(lists.begin() + first, lists.begin() + first + size);
                mean.add(static_cast<double>(std::ssize(union_of(group, seen_))) /
                         static_cast<double>(size * run_.top_k));
            }
        }
        if (!before.empty()) {
            chunks_.add(shared(before, lists));
        }
    }

    ListStatistics statistics() const {
        ListStatistics found;
        found.lists = lists_;
        found.named_share = named_.value();
        found.recent_share = recent_.value();
        for (std::int64_t page = 0; page < kFirstPages; ++page) {
            found.by_place.push_back({page, page, places_[page].value()});
        }
        for (std::size_t bin = 0; bin < distances_.size(); ++bin) {
            if (distances_[bin].weight > 0) {
                found.by_distance.push_back(
                    {std::int64_t{1} << bin, (std::int64_t{2} << bin) - 1, distances_[bin].value()});
            }
        }
        for (const auto& [size, mean] : groups_) {
            found.groups.push_back({size, mean.value()});
        }
        found.neighbour_overlap = neighbours_.value();
        found.chunk_overlap = chunks_.value();
        return found;
    }

  private:
    void count_hits(List list, std::int64_t history) {
        ++lists_;
        named_.add(static_cast<double>(list.size()) / static_cast<double>(history));
        seen_.clear();
        for (const std::int32_t page : list) {
            seen_.add(page);
            recent_.add(page + run_.top_k >= history ? 1.0 : 0.0);
        }
        for (std::int32_t page = 0; page < history; ++page) {
            const double hit = seen_.has(page) ? 1.0 : 0.0;
            if (page < kFirstPages) {
                places_[page].add(hit);
            } else {
                distances_[std::bit_width(static_cast<std::uint64_t>(history - page)) - 1].add(hit);
            }
        }
    }

    static std::vector<std::int32_t> union_of(const std::vector<List>& lists, Marks& marks) {
        std::vector<std::int32_t> pages;
        marks.clear();
        for (const List& list : lists) {
            std::copy_if(list.begin(), list.end(), std::back_inserter(pages),
                         [&](std::int32_t page) { return marks.add(page); });
        }
        return pages;
    }

    // Of the pages of `lists`, the share that `before` names.
    double shared(const std::vector<List>& before, const std::vector<List>& lists) {
        union_of(before, before_);
        const std::vector<std::int32_t> pages = union_of(lists, seen_);
        const auto both =
            std::count_if(pages.begin(), pages.end(), [&](std::int32_t page) { return before_.has(page); });
        return static_cast<double>(both) / static_cast<double>(pages.size());
    }

    ListedRun run_;
    std::vector<Mean> places_, distances_;
    std::vector<std::pair<std::int64_t, Mean>> groups_;
    Mean named_, recent_, neighbours_, chunks_;
    std::int64_t lists_ = 0;
    Marks seen_, before_;
};

// Chunks and layers of which the trace has every list.
ListStatistics count(const PageTrace& trace, const std::function<List(std::int64_t layer, std::int64_t page)>& list) {
    const ListedRun& run = trace.run;
    Counter counter(run);
    for (std::int64_t layer = 0; layer < run.layers; ++layer) {
        std::vector<List> before;
        for (std::int64_t first = run.first_listed_page(); first < run.pages(); first += run.pages_per_chunk()) {
            std::vector<List> lists;
            const std::int64_t end = std::min(first + run.pages_per_chunk(), run.pages());
            for (std::int64_t page = first; page < end && !trace.list(layer, page).empty(); ++page) {
                lists.push_back(list(layer, page));
            }
            if (std::ssize(lists) == end - first) {
                counter.chunk(lists, before, first);
                before = std::move(lists);
            } else {
                before.clear();
            }
        }
    }
    return counter.statistics();
}

}  // namespace

ListStatistics statistics_of(const PageTrace& trace) {
    return count(trace, [&](std::int64_t layer, std::int64_t page) { return trace.list(layer, page); });
}

ListStatistics statistics_of(const PageTrace& trace, const Locality& locality) {
    PageTrace made = trace;
    const auto source = modelled_lists(locality, trace.run);
    const std::int64_t first = trace.run.first_listed_page(), rows = trace.run.pages() - first;
    made.lists.clear();
    for (std::int64_t layer = 0; layer < trace.run.layers; ++layer) {
        const std::vector<std::int32_t> lists = source->page_lists(layer, first, rows, 0);
        made.lists.insert(made.lists.end(), lists.begin(), lists.end());
    }
    return count(trace, [&](std::int64_t layer, std::int64_t page) { return made.list(layer, page); });
}

namespace {

// Of pages farther from the chunk than a list is long, the first of the sequence left out.
double far_hit_rate(const ListStatistics& statistics, std::int64_t top_k) {
    double hits = 0.0, pages = 0.0;
    for (const ListStatistics::Bin& bin : statistics.by_distance) {
        if (bin.first > top_k) {
            hits += bin.hit_rate * static_cast<double>(bin.last - bin.first + 1);
            pages += static_cast<double>(bin.last - bin.first + 1);
        }
    }
    return pages > 0 ? hits / pages : 0.0;
}

// The least value for which `enough` holds, as far as halving tells.
double bisect(double& value, const std::function<bool()>& enough) {
    constexpr int kHalvings = 12;
    double low = 0.0, high = kMostExponent;
    for (int i = 0; i < kHalvings; ++i) {
        value = (low + high) / 2;
        (enough() ? high : low) = value;
    }
    return value = high;
}

// The largest group of query pages of which there are lists: a short last chunk has no whole chunk's. The lists of one
// page name as many pages whatever the popularity.
std::size_t telling_group(const ListStatistics& statistics, const std::string& path) {
    for (std::size_t i = statistics.groups.size(); i-- > 0;) {
        if (statistics.groups[i].query_pages > 1 && statistics.groups[i].distinct > 0) {
            return i;
        }
    }
    fail<FileError>(
        "{}: no two neighbouring query pages of a chunk have lists, which the fit needs; record a longer run, of more "
        "chunks with lists, and of chunks of several pages",
        path);
}

}  // namespace

Locality fit_locality(const PageTrace& trace) {
    const ListStatistics real = statistics_of(trace);
    const std::size_t group = telling_group(real, trace.path);
    const double far = far_hit_rate(real, trace.run.top_k);
    Locality fitted;
    fitted.source = trace.path;
    for (const ListStatistics::Bin& bin : real.by_place) {
        fitted.sink += std::max(0.0, bin.hit_rate - far);
    }
    const auto fit_zipf = [&] {
        return bisect(fitted.zipf, [&] {
            return statistics_of(trace, fitted).groups[group].distinct <= real.groups[group].distinct;
        });
    };
    bisect(fitted.recency, [&] {
        fit_zipf();
        return statistics_of(trace, fitted).recent_share >= real.recent_share;
    });
    fit_zipf();
    return fitted;
}

}  // namespace oomb::simulator
