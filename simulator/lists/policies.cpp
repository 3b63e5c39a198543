#include "simulator/lists/policies.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/issue/issuer.hpp"

namespace oomb::simulator {
namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

using Kind = PageRequest::Kind;

// Next uses by place in the requests: of every page after every request, found once from the end.
class Future : public paging::NextUses {
  public:
    Future(const std::vector<PageRequest>& requests, const paging::ResidencyShape& shape, bool knows_lists)
        : requests_(requests),
          shape_(shape),
          knows_lists_(knows_lists),
          next_of_page_(static_cast<std::size_t>(shape.layers * shape.pages_per_layer), kNever),
          next_selection_(static_cast<std::size_t>(shape.layers), kNever) {
        for (std::size_t at = requests.size(); at-- > 0;) {
            const PageRequest& request = requests[at];
            if (request.kind == Kind::kSelection) {
                later_.push_back(next_selection_.at(request.pages.layer));
                next_selection_[request.pages.layer] = static_cast<std::int32_t>(at);
            } else if (request.pages.page_class == shape.page_class) {
                look_back(request, static_cast<std::int32_t>(at));
            }
        }
    }

    std::int64_t next_use(std::int64_t layer, std::int64_t page) const override {
        const std::int32_t known = next_of_page_[index_of(layer, page)];
        return knows_lists_ ? known : std::min(known, next_selection_[layer]);
    }

    // Request `at` is carried out next: what is asked from here on are the uses after it.
    void pass(std::size_t at) {
        const PageRequest& request = requests_[at];
        if (request.kind == Kind::kSelection) {
            next_selection_[request.pages.layer] = take();
            return;
        }
        for (std::int64_t i = request.pages.count; i-- > 0;) {
            next_of_page_[index_of(request.pages.layer, request.pages.page(i))] = take();
        }
    }

  private:
    // Pages that are written back stay as they are, those that die are not used again.
    static bool needs(const PageRequest& request) { return request.use != PageUse::kWriteBack; }

    std::size_t index_of(std::int64_t layer, std::int64_t page) const { return page * shape_.layers + layer; }

    // later_ is taken from its end, so pages are put down in the opposite order.
    void look_back(const PageRequest& request, std::int32_t at) {
        for (std::int64_t i = 0; i < request.pages.count; ++i) {
            std::int32_t& next = next_of_page_.at(index_of(request.pages.layer, request.pages.page(i)));
            later_.push_back(next);
            next = request.use == PageUse::kRelease ? kNever : needs(request) ? at : next;
        }
    }

    std::int32_t take() {
        const std::int32_t next = later_.back();
        later_.pop_back();
        return next;
    }

    const std::vector<PageRequest>& requests_;
    const paging::ResidencyShape& shape_;
    bool knows_lists_;
    std::vector<std::int32_t> later_;         // the next use after each, from the last request to the first
    std::vector<std::int32_t> next_of_page_;  // by index * layers + layer
    std::vector<std::int32_t> next_selection_;
};

std::int64_t homed_on_host(const PageSet& pages, const paging::Grant& grant, const paging::ResidencyShape& shape) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < pages.count; ++i) {
        count += grant.frames[i] >= 0 && pages.page(i) * shape.layers + pages.layer >= shape.resident_pages ? 1 : 0;
    }
    return count;
}

}  // namespace

std::string_view name_of(Policy policy) {
    constexpr std::string_view kNames[] = {"least recently used", "next use known", "offline optimum"};
    return kNames[static_cast<int>(policy)];
}

double PageTraffic::hit_rate() const {
    return asked == 0 ? 1.0 : 1.0 - static_cast<double>(fetched) / static_cast<double>(asked);
}

PageTraffic traffic_of(const std::vector<PageRequest>& requests, const paging::ResidencyShape& shape, Policy policy) {
    PageTraffic traffic;
    std::optional<Future> future;
    if (policy != Policy::kLeastRecentlyUsed) {
        future.emplace(requests, shape, policy == Policy::kOptimum);
    }
    paging::Residency residency(shape, future ? &*future : nullptr);
    for (std::size_t at = 0; at < requests.size(); ++at) {
        const PageRequest& request = requests[at];
        const bool selection = request.kind == Kind::kSelection;
        if (!selection && request.pages.page_class != shape.page_class) {
            continue;
        }
        if (future) {
            future->pass(at);
        }
        if (selection) {
            continue;
        }
        const paging::Grant grant = residency.request(request.use, request.pages);
        if (request.kind == Kind::kFetch) {
            traffic.asked += homed_on_host(request.pages, grant, shape);
        }
        traffic.fetched += std::ssize(grant.to_hbm);
        traffic.written += std::ssize(grant.to_host);
    }
    return traffic;
}

paging::ResidencyShape with_ring(const schedule::Plan& plan, PageClass page_class, std::int64_t times) {
    paging::ResidencyShape shape = issue::residency_shape(plan, page_class);
    const std::int64_t resident = std::min(shape.resident_pages, shape.hbm_frames);
    shape.hbm_frames = std::min(resident + times * (shape.hbm_frames - resident), shape.layers * shape.pages_per_layer);
    return shape;
}

}  // namespace oomb::simulator
