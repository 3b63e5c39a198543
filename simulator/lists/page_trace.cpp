#include "simulator/lists/page_trace.hpp"

#include <algorithm>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/trace/trace.hpp"

namespace oomb::simulator {
namespace {

constexpr std::int64_t kMostLists = std::int64_t{1} << 26;  // entries: a quarter of a GiB

ListedRun run_of(const JsonNode& plan) {
    const JsonNode run = plan.at("run");
    ListedRun found;
    found.layers = plan.at("model").at("layers").as_integer(1, std::int64_t{1} << 9);
    found.page_tokens = run.at("page_tokens").as_integer(1, kMostTokens);
    found.chunk_tokens = run.at("chunk_tokens").as_integer(found.page_tokens, kMostTokens);
    found.context_tokens = run.at("context_tokens").as_integer(1, kMostTokens);
    if (run.at("attention").as_string() == "dense") {
        run.at("attention").refuse("\"topk\" or \"random\": a dense run has no lists of pages");
    }
    found.top_k = run.at("top_k").as_integer(1, kMostTokens);
    if (found.chunk_tokens % found.page_tokens != 0) {
        run.at("chunk_tokens").refuse(fmt::format("a multiple of page_tokens, {}", found.page_tokens));
    }
    return found;
}

// Gathers the lists of one sequence after the other, and keeps the best.
class Gatherer {
  public:
    explicit Gatherer(PageTrace& best) : best_(best), now_(best) {
        rows_ = std::max<std::int64_t>(0, best.run.pages() - best.run.first_listed_page());
        if (best.run.layers * rows_ > kMostLists / best.run.top_k) {
            fail<FileError>("{}: its run has {} lists of {} pages, read are at most {} entries", best.path,
                            best.run.layers * rows_, best.run.top_k, kMostLists);
        }
    }

    void take(const trace::ListsRecord& record) {
        if (record.step != now_.step || record.sequence != now_.sequence) {
            finish();
            now_.step = record.step;
            now_.sequence = record.sequence;
            now_.lists.assign(best_.run.layers * rows_ * best_.run.top_k, -1);
            filled_ = 0;
        }
        const std::int64_t first = record.query_page - best_.run.first_listed_page();
        const std::int64_t count = std::ssize(record.lists) / record.length;
        const bool fits = record.length == best_.run.top_k && record.layer < best_.run.layers && first >= 0 &&
                          first + count <= rows_ &&
                          record.query_page % best_.run.pages_per_chunk() + count <= best_.run.pages_per_chunk();
        const auto largest = std::max_element(record.lists.begin(), record.lists.end());
        if (!fits || *largest >= best_.run.history_of(record.query_page)) {
            fail<FileError>(
                "{}: found {} lists of {} pages, up to page {}, of query pages {} on of layer {}; the run of its "
                "header has {} layers, {} pages and lists of {} pages before the chunk",
                best_.path, count, record.length, *largest, record.query_page, record.layer, best_.run.layers,
                best_.run.pages(), best_.run.top_k);
        }
        auto at = now_.lists.begin() + (record.layer * rows_ + first) * best_.run.top_k;
        filled_ += std::count(at, at + std::ssize(record.lists), -1);
        std::copy(record.lists.begin(), record.lists.end(), at);
    }

    void finish() {
        now_.complete = filled_ > 0 && filled_ == std::ssize(now_.lists);
        if (now_.complete || (!best_.complete && filled_ > most_filled_)) {
            most_filled_ = filled_;
            best_ = now_;
        }
    }

  private:
    PageTrace& best_;
    PageTrace now_;
    std::int64_t rows_ = 0;
    std::int64_t filled_ = 0, most_filled_ = 0;
};

}  // namespace

ListedRun listed_run(const schedule::Plan& plan) {
    return {plan.model.layers, plan.run.context_tokens, plan.run.chunk_tokens, plan.run.page_tokens, plan.run.top_k};
}

std::span<const std::int32_t> PageTrace::list(std::int64_t layer, std::int64_t query_page) const {
    const std::int64_t rows = run.pages() - run.first_listed_page(), row = query_page - run.first_listed_page();
    require(layer >= 0 && layer < run.layers && row >= 0 && row < rows, "no list of query page {} of layer {}",
            query_page, layer);
    const std::span list(lists.data() + (layer * rows + row) * run.top_k, static_cast<std::size_t>(run.top_k));
    return list.front() < 0 ? std::span<const std::int32_t>() : list;
}

PageTrace read_page_trace(const std::filesystem::path& path) {
    trace::TraceReader reader(path);
    PageTrace found;
    found.path = path.string();
    found.run = run_of(JsonNode(reader.header().plan, fmt::format("{}: plan", path.string())));
    Gatherer gatherer(found);
    reader.on_lists = [&](const trace::ListsRecord& record) { gatherer.take(record); };
    for (trace::TraceRecord record; reader.next(record);) {
    }
    gatherer.finish();
    if (found.lists.empty()) {
        fail<FileError>(
            "{}: holds no lists of pages; a run with more than --top-k pages before its last chunk has some",
            path.string());
    }
    return found;
}

namespace {

class RecordedLists : public issue::PageListSource {
  public:
    explicit RecordedLists(const PageTrace& trace) : trace_(trace) {}
    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket /*stored*/) override {
        std::vector<std::int32_t> lists;
        for (std::int64_t page = first; page < first + count; ++page) {
            const auto list = trace_.list(layer, page);
            lists.insert(lists.end(), list.begin(), list.end());
        }
        return lists;
    }

  private:
    const PageTrace& trace_;
};

}  // namespace

std::unique_ptr<issue::PageListSource> recorded_lists(const PageTrace& trace, const schedule::Plan& plan) {
    const ListedRun asked = listed_run(plan);
    const std::tuple<const char*, std::int64_t, std::int64_t> pairs[] = {
        {"layers of --model", trace.run.layers, asked.layers},
        {"--context", trace.run.context_tokens, asked.context_tokens},
        {"--chunk", trace.run.chunk_tokens, asked.chunk_tokens},
        {"--page-tokens", trace.run.page_tokens, asked.page_tokens},
        {"--top-k", trace.run.top_k, asked.top_k}};
    for (const auto& [name, recorded, wanted] : pairs) {
        if (recorded != wanted) {
            fail<UsageError>(
                "{}: the run of {} has {}, found {}; give what it ran with, or fit a model of its lists with oomb-plan "
                "locality and pass that as --locality",
                name, trace.path, recorded, wanted);
        }
    }
    if (!trace.complete) {
        fail<UsageError>("{}: no sequence of it is whole, lists are missing; record a whole step", trace.path);
    }
    return std::make_unique<RecordedLists>(trace);
}

}  // namespace oomb::simulator
