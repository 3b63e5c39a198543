#include "simulator/page_requests.hpp"

#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/schedule/generator.hpp"

namespace oomb::simulator {
namespace {

using schedule::Kind;
using schedule::Operation;

class Recorder : public schedule::OperationSink {
  public:
    Recorder(const schedule::Plan& plan, issue::PageListSource* source)
        : step_(plan.model, plan.run), source_(source) {}

    void take(const Operation& operation) override {
        if (operation.id.kind == Kind::kStoreLists) {
            PageRequest selection;
            selection.kind = PageRequest::Kind::kSelection;
            selection.pages.layer = operation.id.layer;
            requests.push_back(selection);
            lists_ = nullptr;
        }
        for (const schedule::PageRequest& asked : operation.requests) {
            if (asked.pages.page_class != PageClass::kActivation) {
                add(operation, asked);
            }
        }
    }

    std::vector<PageRequest> requests;

  private:
    void add(const Operation& operation, const schedule::PageRequest& asked) {
        PageRequest request;
        request.use = asked.use;
        request.pages = asked.pages;
        request.kind = operation.id.kind == Kind::kFetch ? PageRequest::Kind::kFetch : PageRequest::Kind::kUse;
        if (asked.listed) {
            request.lists = lists_of(operation);
            request.pages.first = 0;
            request.pages.count = std::ssize(request.lists->pages);
            request.pages.list = request.lists->pages.data();
        }
        pages_ += request.pages.count;
        if (pages_ > kMostRequestedPages) {
            fail<UnsupportedError>("the step asks for more than {} pages; compare a shorter --context or larger pages",
                                   kMostRequestedPages);
        }
        requests.push_back(std::move(request));
    }

    std::shared_ptr<const issue::PageLists> lists_of(const Operation& operation) {
        const std::int64_t page = step_.run().page_tokens;
        const std::pair<std::int64_t, std::int64_t> group{operation.id.layer, operation.first_row / page};
        if (lists_ == nullptr || group != lists_of_) {
            require(source_ != nullptr, "page lists of layer {} are needed and nobody makes any", group.first);
            const std::int64_t count = schedule::divide_up(operation.rows, page);
            lists_ = std::make_shared<const issue::PageLists>(
                issue::checked_lists(source_->page_lists(group.first, group.second, count, 0), group.first,
                                     group.second, count, step_.run().top_k, step_.first_page(operation.id.chunk)));
            lists_of_ = group;
        }
        return lists_;
    }

    schedule::StepShape step_;
    issue::PageListSource* source_;
    std::int64_t pages_ = 0;
    std::shared_ptr<const issue::PageLists> lists_;  // of the last group: its requests follow one another
    std::pair<std::int64_t, std::int64_t> lists_of_;
};

}  // namespace

std::vector<PageRequest> page_requests(const schedule::Plan& plan, issue::PageListSource* lists) {
    Recorder recorder(plan, lists);
    schedule::SequenceGenerator(schedule::StepShape(plan.model, plan.run), 0, 1, recorder).generate();
    return std::move(recorder.requests);
}

}  // namespace oomb::simulator
