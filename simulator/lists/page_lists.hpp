#pragma once
// Where a simulated step has the lists of top-K pages from.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "runtime/issue/random_pages.hpp"
#include "simulator/lists/locality.hpp"
#include "simulator/lists/page_trace.hpp"

namespace oomb::simulator {

// Lists of a model that were drawn once, and united once, for who simulates many steps of the same chunks and K. May be
// used by several threads at a time.
class DrawnLists {
  public:
    // The source keeps what it refers to alive.
    std::unique_ptr<issue::PageListSource> open(const Locality& locality, const ListedRun& run) {
        const std::scoped_lock lock(mutex_);
        std::shared_ptr<Shared>& shared =
            shared_[{run.layers, run.context_tokens, run.chunk_tokens, run.page_tokens, run.top_k}];
        if (shared == nullptr) {
            shared = std::make_shared<Shared>(modelled_lists(locality, run), kept_entries_);
        }
        return std::make_unique<Opened>(shared);
    }

  private:
    // Of united lists: four bytes each.
    static constexpr std::int64_t kMostKeptEntries = 16 << 20;
    using KeptEntries = std::shared_ptr<std::atomic<std::int64_t>>;

    struct Shared {
        Shared(std::unique_ptr<issue::PageListSource> lists, KeptEntries entries)
            : source(std::move(lists)), kept_entries(std::move(entries)) {}
        std::mutex mutex;
        std::unique_ptr<issue::PageListSource> source;
        std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::shared_ptr<const issue::PageLists>> kept;
        KeptEntries kept_entries;
    };
    class Opened : public issue::PageListSource {
      public:
        explicit Opened(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
        std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                             issue::Ticket stored) override {
            const std::scoped_lock lock(shared_->mutex);
            return shared_->source->page_lists(layer, first, count, stored);
        }
        std::shared_ptr<const issue::PageLists> checked(const issue::AskedLists& asked) override {
            const std::scoped_lock lock(shared_->mutex);
            const std::tuple key(asked.layer, asked.first, asked.count);
            if (const auto found = shared_->kept.find(key); found != shared_->kept.end()) {
                return found->second;
            }
            std::shared_ptr<const issue::PageLists> lists = shared_->source->checked(asked);
            const std::int64_t entries = std::ssize(lists->lists) + std::ssize(lists->pages);
            if (*shared_->kept_entries + entries <= kMostKeptEntries) {
                *shared_->kept_entries += entries;
                shared_->kept.emplace(key, lists);
            }
            return lists;
        }

      private:
        std::shared_ptr<Shared> shared_;
    };

    std::mutex mutex_;
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // of ListedRun
    std::map<Key, std::shared_ptr<Shared>> shared_;
    KeptEntries kept_entries_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

struct ListSource {
    Locality locality = default_locality();
    std::shared_ptr<const PageTrace> recorded;  // instead of the model, where there is one
    std::shared_ptr<DrawnLists> drawn;          // of `locality`, where they are to be drawn once

    // For a plan that selects; throws as recorded_lists(). The source refers to `recorded`. Lists of --attention random
    // are those of a run with the same seed.
    std::unique_ptr<issue::PageListSource> open(const schedule::Plan& plan) const {
        if (recorded == nullptr && plan.run.attention == AttentionMode::kRandom) {
            return std::make_unique<issue::RandomPages>(schedule::StepShape(plan.model, plan.run));
        }
        if (recorded != nullptr) {
            return recorded_lists(*recorded, plan);
        }
        return drawn != nullptr ? drawn->open(locality, listed_run(plan)) : modelled_lists(locality, listed_run(plan));
    }
    std::string text(AttentionMode attention) const {
        if (recorded == nullptr && attention == AttentionMode::kRandom) {
            return "drawn at random";
        }
        return recorded != nullptr ? "recorded in " + recorded->path
                                   : "modelled, " + to_text(locality) + " (" + locality.source + ")";
    }
};

// Of --locality and --page-trace, each empty where it was not given. UsageError where one is given and the run has no
// selection, or both are; as read_locality() and read_page_trace().
ListSource read_list_source(const std::string& locality, const std::string& page_trace, AttentionMode attention);

}  // namespace oomb::simulator
