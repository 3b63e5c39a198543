#include "simulator/lists/page_requests.hpp"

#include <algorithm>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/issue/listed_pages.hpp"
#include "runtime/schedule/generator.hpp"

namespace oomb::simulator {
namespace {

using schedule::Kind;
using schedule::Operation;

class Recorder : public schedule::OperationSink {
  public:
    Recorder(const schedule::Plan& plan, issue::PageListSource* source) : listed_(plan, source) {}

    void take(const Operation& scheduled) override {
        Operation operation = scheduled;
        if (operation.id.kind == Kind::kStoreLists) {
            PageRequest selection;
            selection.kind = PageRequest::Kind::kSelection;
            selection.pages.layer = operation.id.layer;
            requests.push_back(selection);
            listed_.stored(0);
        } else if (operation.id.kind == Kind::kLoadTokens) {
            listed_.begin_chunk(operation.rows);
        }
        const bool listed = std::any_of(operation.requests.begin(), operation.requests.end(),
                                        [](const schedule::PageRequest& asked) { return asked.listed; });
        const std::shared_ptr<const issue::PageLists> lists = listed ? listed_.name(operation) : nullptr;
        for (const schedule::PageRequest& asked : operation.requests) {
            if (asked.pages.page_class != PageClass::kActivation) {
                add(operation.id.kind, asked, lists);
            }
        }
    }

    std::vector<PageRequest> requests;

  private:
    void add(Kind kind, const schedule::PageRequest& asked, const std::shared_ptr<const issue::PageLists>& lists) {
        PageRequest request;
        request.use = asked.use;
        request.pages = asked.pages;
        request.kind =
            kind == Kind::kFetch || kind == Kind::kPrefetch ? PageRequest::Kind::kFetch : PageRequest::Kind::kUse;
        request.lists = asked.listed ? lists : nullptr;
        pages_ += request.pages.count;
        if (pages_ > kMostRequestedPages) {
            fail<UnsupportedError>("the step asks for more than {} pages; compare a shorter --context or larger pages",
                                   kMostRequestedPages);
        }
        requests.push_back(std::move(request));
    }

    issue::ListedPages listed_;
    std::int64_t pages_ = 0;
};

}  // namespace

std::vector<PageRequest> page_requests(const schedule::Plan& plan, issue::PageListSource* lists) {
    Recorder recorder(plan, lists);
    schedule::SequenceGenerator(schedule::StepShape(plan.model, plan.run), 0, 1, recorder).generate();
    return std::move(recorder.requests);
}

}  // namespace oomb::simulator
