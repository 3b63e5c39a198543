// Policies of eviction against a search through all of them, and against what the issuer moves.
#include "simulator/lists/policies.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "runtime/issue/issuer.hpp"
#include "simulator/lists/locality.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::test {

namespace {

using simulator::PageRequest;
using simulator::Policy;
using testing::RandomStep;
using testing::RandomSteps;

// A page's number, layers apart. Requests own their lists.
PageRequest request_of(PageRequest::Kind kind, PageUse use, const std::vector<std::int32_t>& pages,
                       std::int32_t layer) {
    auto lists = std::make_shared<issue::PageLists>();
    lists->pages = pages;
    PageRequest request;
    request.kind = kind;
    request.use = use;
    request.pages = {PageClass::kKv, layer, 0, std::ssize(lists->pages), lists->pages.data()};
    request.lists = std::move(lists);
    return request;
}

// All pages are born and written back, one by one; then some are read, fetched before, and some die.
std::vector<PageRequest> random_requests(RandomSteps& random, std::int64_t layers, std::int64_t pages,
                                         std::int64_t frames, int reads) {
    std::vector<PageRequest> requests;
    std::vector<std::set<std::int32_t>> alive(layers);
    for (std::int32_t page = 0; page < pages; ++page) {
        for (std::int32_t layer = 0; layer < layers; ++layer) {
            requests.push_back(request_of(PageRequest::Kind::kUse, PageUse::kBirth, {page}, layer));
            requests.push_back(request_of(PageRequest::Kind::kUse, PageUse::kWriteBack, {page}, layer));
            alive[layer].insert(page);
        }
    }
    for (int i = 0; i < reads; ++i) {
        const auto layer = static_cast<std::int32_t>(random.between(0, layers - 1));
        std::vector<std::int32_t> set;
        for (const std::int32_t page : alive[layer]) {
            if (random.coin() && std::ssize(set) < frames) {
                set.push_back(page);
            }
        }
        if (set.empty()) {
            continue;
        }
        requests.push_back(request_of(PageRequest::Kind::kFetch, PageUse::kRead, set, layer));
        requests.push_back(request_of(PageRequest::Kind::kUse, PageUse::kRead, set, layer));
        if (random.between(0, 5) == 0) {
            requests.push_back(request_of(PageRequest::Kind::kUse, PageUse::kRelease, {set.front()}, layer));
            alive[layer].erase(set.front());
        }
    }
    return requests;
}

// The fewest fetches that any choice of evictions allows: every set of pages that can be in the frames after each
// request, with the fewest fetches that lead there.
std::int64_t fewest_fetches(const std::vector<PageRequest>& requests, std::int64_t frames) {
    using Pages = std::set<std::pair<std::int32_t, std::int64_t>>;
    std::map<Pages, std::int64_t> states{{{}, 0}};
    for (const PageRequest& request : requests) {
        std::map<Pages, std::int64_t> next;
        for (const auto& [in_frames, fetched] : states) {
            Pages with = in_frames, asked;
            std::int64_t cost = fetched;
            for (std::int64_t i = 0; i < request.pages.count; ++i) {
                const std::pair page(request.pages.layer, request.pages.page(i));
                asked.insert(page);
                if (request.use == PageUse::kRelease) {
                    with.erase(page);
                } else if (request.use != PageUse::kWriteBack) {
                    cost += with.insert(page).second && request.use == PageUse::kRead ? 1 : 0;
                }
            }
            // Whatever is not asked for may leave; more than one step needs never pays, but is allowed.
            std::vector<std::pair<std::int32_t, std::int64_t>> others;
            std::set_difference(with.begin(), with.end(), asked.begin(), asked.end(), std::back_inserter(others));
            for (std::uint64_t out = 0; out < std::uint64_t{1} << others.size(); ++out) {
                Pages kept = with;
                for (std::size_t i = 0; i < others.size(); ++i) {
                    if ((out >> i & 1) != 0) {
                        kept.erase(others[i]);
                    }
                }
                if (std::ssize(kept) <= frames) {
                    const auto [found, is_new] = next.emplace(kept, cost);
                    found->second = std::min(found->second, cost);
                }
            }
        }
        states = std::move(next);
    }
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (const auto& [pages, fetched] : states) {
        fewest = std::min(fewest, fetched);
    }
    return fewest;
}

paging::ResidencyShape small_shape(std::int64_t layers, std::int64_t pages, std::int64_t frames) {
    paging::ResidencyShape shape;
    shape.layers = layers;
    shape.pages_per_layer = pages;
    shape.hbm_frames = frames;
    shape.host_frames = layers * pages;
    return shape;
}

class Counted : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation issued) override {
        for (const paging::Grant& grant : issued.grants) {
            fetched[static_cast<int>(grant.page_class)] += std::ssize(grant.to_hbm);
            written[static_cast<int>(grant.page_class)] += std::ssize(grant.to_host);
        }
    }
    std::int64_t fetched[kPageClasses] = {}, written[kPageClasses] = {};
};

}  // namespace

TEST_CASE("no choice of evictions fetches less than the optimum; without selections what is known is all") {
    RandomSteps random(901);
    int beaten = 0;
    for (int i = 0; i < 150; ++i) {
        const std::int64_t layers = random.between(1, 2), pages = layers == 1 ? random.between(3, 6) : 3;
        const std::int64_t frames = random.between(1, 4);
        const auto requests = random_requests(random, layers, pages, frames, 8);
        const auto shape = small_shape(layers, pages, frames);
        const std::int64_t optimum = traffic_of(requests, shape, Policy::kOptimum).fetched;
        const std::int64_t lru = traffic_of(requests, shape, Policy::kLeastRecentlyUsed).fetched;
        CHECK(optimum == fewest_fetches(requests, frames));
        CHECK(traffic_of(requests, shape, Policy::kNextUseKnown).fetched == optimum);
        CHECK(lru >= optimum);
        beaten += lru > optimum ? 1 : 0;
    }
    CHECK(beaten > 30);
}

TEST_CASE("a selection hides what lies behind it: then the least recently used page goes") {
    using enum PageRequest::Kind;
    std::vector<PageRequest> requests;
    for (std::int32_t page = 0; page < 3; ++page) {
        requests.push_back(request_of(kUse, PageUse::kBirth, {page}, 0));
        requests.push_back(request_of(kUse, PageUse::kWriteBack, {page}, 0));
    }
    // Two frames: pages 1 and 2, the latter used last. Page 0 comes, then page 1 is needed and page 2 is not.
    for (const std::int32_t page : {1, 2, 0}) {
        requests.push_back(request_of(kFetch, PageUse::kRead, {page}, 0));
    }
    const std::size_t before_selection = requests.size();
    requests.push_back(request_of(kFetch, PageUse::kRead, {1}, 0));
    const auto shape = small_shape(1, 3, 2);
    const auto fetched = [&](Policy policy) { return traffic_of(requests, shape, policy).fetched; };
    CHECK(fetched(Policy::kLeastRecentlyUsed) == 2);
    CHECK(fetched(Policy::kNextUseKnown) == 1);
    CHECK(fetched(Policy::kOptimum) == 1);
    PageRequest selection;
    selection.kind = kSelection;
    requests.insert(requests.begin() + static_cast<std::ptrdiff_t>(before_selection), selection);
    CHECK(fetched(Policy::kNextUseKnown) == 2);
    CHECK(fetched(Policy::kOptimum) == 1);
}

TEST_CASE("over whole steps: least recently used moves what the issuer moves, and nothing beats the optimum") {
    RandomSteps random(902, {.layers = 4, .chunks = 9, .pages_per_chunk = 6, .top_k = true});
    int selecting = 0, better = 0;
    for (int i = 0; i < 200; ++i) {
        RandomStep step = random.next();
        step.run.offload = Offload::kHost;
        const schedule::Plan plan = schedule::make_plan(step.model, step.run);
        CAPTURE(to_json(plan));
        const bool selects = schedule::StepShape(plan.model, plan.run).selects();
        const auto source =
            selects ? modelled_lists(simulator::default_locality(), simulator::listed_run(plan)) : nullptr;
        Counted counted;
        issue::Issuer issuer(plan, counted, source.get());
        schedule::SequenceGenerator(schedule::StepShape(plan.model, plan.run), 0, 1, issuer).generate();
        const auto requests = simulator::page_requests(plan, source.get());
        for (const PageClass page_class : {PageClass::kKv, PageClass::kKvGradient}) {
            const auto shape = simulator::with_ring(plan, page_class, 1);
            const auto lru = traffic_of(requests, shape, Policy::kLeastRecentlyUsed);
            const auto known = traffic_of(requests, shape, Policy::kNextUseKnown);
            const auto optimum = traffic_of(requests, shape, Policy::kOptimum);
            CHECK(lru.fetched == counted.fetched[static_cast<int>(page_class)]);
            CHECK(lru.written == counted.written[static_cast<int>(page_class)]);
            CHECK(known.written == lru.written);
            CHECK(optimum.written == lru.written);
            CHECK(optimum.asked == lru.asked);
            CHECK(optimum.fetched <= lru.fetched);
            CHECK(optimum.fetched <= known.fetched);
            CHECK((selects || known.fetched == optimum.fetched));
            CHECK(optimum.hit_rate() >= 0.0);
            CHECK(traffic_of(requests, simulator::with_ring(plan, page_class, 2), Policy::kOptimum).fetched <=
                  optimum.fetched);
            better += optimum.fetched < lru.fetched ? 1 : 0;
        }
        selecting += selects ? 1 : 0;
    }
    CHECK(selecting > 40);
    CHECK(better > 20);
}

}  // namespace oomb::test
