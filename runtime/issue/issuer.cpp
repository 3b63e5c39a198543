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
    : sink_(sink), listed_(plan, lists), hazards_(plan) {
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
    issued.lists = has_lists(operation) ? listed_.name(issued.operation) : nullptr;
    const bool moves = grant(issued);
    const bool page_copy = is_page_copy(operation.id.kind);
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
        listed_.stored(issued.ticket);
    } else if (operation.id.kind == Kind::kLoadTokens) {
        listed_.begin_chunk(operation.rows);
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

void Issuer::track(const Operation& operation, const Grant& grant, PageUse use) {
    for (const paging::PageCopy& copy : grant.to_hbm) {
        hazards_.frame(Tier::kHost, grant.page_class, copy.host_frame, Access::kRead);
        hazards_.frame(Tier::kHbm, grant.page_class, copy.hbm_frame, Access::kWrite);
    }
    for (const paging::PageCopy& copy : grant.to_host) {
        hazards_.frame(Tier::kHbm, grant.page_class, copy.hbm_frame, Access::kRead);
        hazards_.frame(Tier::kHost, grant.page_class, copy.host_frame, Access::kWrite);
    }
    hazards_.frames(Tier::kHbm, grant.page_class, grant.freed_hbm, Access::kWrite);
    hazards_.frames(Tier::kHost, grant.page_class, grant.freed_host, Access::kWrite);
    if (is_page_copy(operation.id.kind)) {
        return;  // touches nothing but its copies
    }
    hazards_.frames(grant.tier, grant.page_class, grant.frames, use == PageUse::kRead ? Access::kRead : Access::kWrite);
}

}  // namespace oomb::issue
