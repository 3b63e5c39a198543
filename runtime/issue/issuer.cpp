#include "runtime/issue/issuer.hpp"

#include <algorithm>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::issue {

using paging::Grant;
using schedule::Access;
using schedule::Kind;
using schedule::Operation;

namespace {

bool has_lists(const Operation& operation) {
    return std::any_of(operation.requests.begin(), operation.requests.end(),
                       [](const schedule::PageRequest& request) { return request.listed; });
}

bool is_kept_copy(Kind kind) {
    return kind == Kind::kKeepActivation || kind == Kind::kLoadActivation;
}

}  // namespace

paging::ResidencyShape residency_shape(const schedule::Plan& plan, PageClass page_class) {
    const schedule::StepShape step(plan.model, plan.run);
    const auto frames = [&](Tier tier) {
        const schedule::PoolPlan* pool = plan.pool(tier, page_class);
        return pool == nullptr ? 0 : pool->frames;
    };
    const bool activation = page_class == PageClass::kActivation;
    paging::ResidencyShape shape;
    shape.page_class = page_class;
    shape.layers = step.model().layers;
    const bool unused = page_class == PageClass::kKvGradient && plan.run.forward_only;
    shape.pages_per_layer = activation ? step.kept_chunks() : unused ? 0 : step.pages();
    shape.hbm_frames = frames(Tier::kHbm);
    shape.host_frames = frames(Tier::kHost);
    shape.resident_pages = activation ? plan.kept_hbm : plan.resident_pages;
    shape.cached_in_hbm = !activation;
    shape.host_limited = page_class == PageClass::kKvGradient && plan.run.gradient_pages.mode != Amount::Mode::kAll;
    return shape;
}

Issuer::Issuer(const schedule::Plan& plan, IssuedSink& sink, PageListSource* lists)
    : plan_(plan), sink_(sink), source_(lists), hazards_(plan) {
    for (int page_class = 0; page_class < kPageClasses; ++page_class) {
        residencies_.emplace_back(residency_shape(plan, static_cast<PageClass>(page_class)));
    }
}

std::int64_t Issuer::table_bytes() const {
    std::int64_t bytes = hazards_.table_bytes();
    for (const paging::Residency& residency : residencies_) {
        bytes += residency.table_bytes();
    }
    return bytes;
}

void Issuer::take(const Operation& operation) {
    IssuedOperation issued;
    if (issue(operation, issued)) {
        sink_.take(std::move(issued));
    }
}

bool Issuer::issue(const Operation& operation, IssuedOperation& issued) {
    issued.operation = operation;
    issued.lists = nullptr;
    if (has_lists(operation)) {
        name_pages(issued);
    }
    const bool moves = grant(issued);
    const bool page_copy = operation.id.kind == Kind::kFetch || operation.id.kind == Kind::kWriteBack;
    if (page_copy && !moves) {
        return false;
    }
    if (moves && !page_copy) {  // no require(): the text would be made for every operation
        fail<InternalError>("{}: its pages are not in HBM", to_text(operation.id));
    }
    if (is_kept_copy(operation.id.kind) && issued.grants.front().tier == Tier::kHbm) {
        issued.operation.engine = schedule::Engine::kCompute;  // the copy engines reach the host only
    }
    hazards_.begin(issued.operation.engine);
    for (const schedule::RegionUse& use : operation.regions) {
        hazards_.region(use);
    }
    for (std::size_t i = 0; i < issued.grants.size(); ++i) {
        track(operation, issued.grants[i], operation.requests[i].use);
    }
    issued.ticket = hazards_.finish(issued.waits);
    issued.number = ++number_;
    if (operation.id.kind == Kind::kStoreLists) {
        lists_stored_ = issued.ticket;
        lists_ = nullptr;
    }
    return true;
}

// Whether pages are to move.
bool Issuer::grant(IssuedOperation& issued) {
    while (!issued.grants.empty()) {
        spare_.push_back(std::move(issued.grants.back()));
        issued.grants.pop_back();
    }
    bool moves = false;
    for (const schedule::PageRequest& request : issued.operation.requests) {
        if (spare_.empty()) {
            issued.grants.emplace_back();
        } else {
            issued.grants.push_back(std::move(spare_.back()));
            spare_.pop_back();
        }
        Grant& grant = issued.grants.back();
        residencies_[static_cast<int>(request.pages.page_class)].request(request.use, request.pages, grant);
        moves = moves || !grant.to_hbm.empty() || !grant.to_host.empty();
    }
    return moves;
}

// Puts what the lists name in the place of the pages that the schedule could not know.
void Issuer::name_pages(IssuedOperation& issued) {
    Operation& operation = issued.operation;
    const std::int64_t page_tokens = plan_.run.page_tokens;
    const std::pair<std::int64_t, std::int64_t> group{operation.id.layer, operation.first_row / page_tokens};
    if (lists_ == nullptr || lists_of_ != group) {
        const std::int64_t history = operation.id.chunk * (plan_.run.chunk_tokens / page_tokens);
        lists_ = read_lists(group.first, group.second, schedule::divide_up(operation.rows, page_tokens), history);
        lists_of_ = group;
    }
    issued.lists = lists_;
    const auto count = static_cast<std::int64_t>(lists_->pages.size());
    for (schedule::PageRequest& request : operation.requests) {
        if (request.listed && count > request.bound) {
            fail<InternalError>("{}: its lists name {} pages, its bound is {}", to_text(operation.id), count,
                                request.bound);
        }
        if (request.listed) {
            request.pages.first = 0;
            request.pages.count = count;
            request.pages.list = lists_->pages.data();
        }
    }
}

std::shared_ptr<const PageLists> Issuer::read_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                                    std::int64_t history) const {
    require(source_ != nullptr, "page lists of layer {} are needed and nobody makes any", layer);
    return source_->checked({layer, first, count, plan_.run.top_k, history, lists_stored_});
}

void Issuer::track(const Operation& operation, const Grant& grant, PageUse use) {
    for (const paging::PageCopy& copy : grant.to_hbm) {
        hazards_.frame(Tier::kHost, grant.page_class, copy.host_frame, Access::kRead);
        hazards_.frame(Tier::kHbm, grant.page_class, copy.hbm_frame, Access::kWrite);
    }
    for (const paging::PageCopy& copy : grant.to_host) {
        hazards_.frame(Tier::kHbm, grant.page_class, copy.hbm_frame, Access::kRead);
        hazards_.frame(Tier::kHost, grant.page_class, copy.host_frame, Access::kWrite);
    }
    for (const std::int32_t frame : grant.freed_hbm) {
        hazards_.frame(Tier::kHbm, grant.page_class, frame, Access::kWrite);
    }
    for (const std::int32_t frame : grant.freed_host) {
        hazards_.frame(Tier::kHost, grant.page_class, frame, Access::kWrite);
    }
    if (operation.id.kind == Kind::kFetch || operation.id.kind == Kind::kWriteBack) {
        return;  // touches nothing but its copies
    }
    for (const std::int32_t frame : grant.frames) {
        hazards_.frame(grant.tier, grant.page_class, frame, use == PageUse::kRead ? Access::kRead : Access::kWrite);
    }
}

}  // namespace oomb::issue
