// Random requests that keep the rules, against page contents that are really moved: every page always reads as last
// written, frames are never shared, and no copy is made without need.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/paging/residency.hpp"

namespace oomb::paging {
namespace {

using Address = std::pair<std::int32_t, std::int64_t>;  // layer, page

// Slabs of one number per frame, moved as the grants say.
class Contents {
  public:
    Contents(const ResidencyShape& shape, const NextUses* next_uses) : shape_(shape), residency_(shape, next_uses) {}

    void birth(const PageSet& set) { write(set, residency_.request(PageUse::kBirth, set)); }
    void accumulate(const PageSet& set) {
        const Grant grant = move(residency_.request(PageUse::kAccumulate, set));
        for (std::int64_t i = 0; i < set.count; ++i) {
            const bool was_alive = expected_.contains({set.layer, set.page(i)});
            CHECK(grant.first_touch[i] == (was_alive ? 0 : 1));
        }
        write(set, grant);
    }
    void read(const PageSet& set, PageUse use) {
        const Grant grant = move(residency_.request(use, set));
        for (std::int64_t i = 0; i < set.count; ++i) {
            const auto found = expected_.find({set.layer, set.page(i)});
            if (found == expected_.end()) {
                CHECK(grant.frames[i] == -1);
            } else {
                CHECK(slab(grant.tier)[grant.frames[i]] == found->second);
            }
        }
    }
    void write_back(const PageSet& set) { move(residency_.request(PageUse::kWriteBack, set)); }
    void release(const PageSet& set) {
        const Grant grant = residency_.request(PageUse::kRelease, set);
        for (std::int64_t i = 0; i < set.count; ++i) {
            expected_.erase({set.layer, set.page(i)});
        }
        for (const std::int32_t frame : grant.freed_hbm) {
            slab(Tier::kHbm)[frame] = kPoison;
        }
        for (const std::int32_t frame : grant.freed_host) {
            slab(Tier::kHost)[frame] = kPoison;
        }
    }
    bool alive(Address page) const { return expected_.contains(page); }
    const Residency& residency() const { return residency_; }
    std::size_t pages() const { return expected_.size(); }

  private:
    static constexpr int kPoison = -1;

    std::map<std::int32_t, int>& slab(Tier tier) { return slabs_[static_cast<int>(tier)]; }

    Grant move(Grant grant) {
        std::set<std::int32_t> targets;
        for (const PageCopy& copy : grant.to_hbm) {
            CHECK(targets.insert(copy.hbm_frame).second);
            slab(Tier::kHbm)[copy.hbm_frame] = slab(Tier::kHost).at(copy.host_frame);
        }
        for (const PageCopy& copy : grant.to_host) {
            CHECK(targets.insert(copy.host_frame).second);
            slab(Tier::kHost)[copy.host_frame] = slab(Tier::kHbm).at(copy.hbm_frame);
        }
        return grant;
    }
    void write(const PageSet& set, const Grant& grant) {
        CHECK(std::set<std::int32_t>(grant.frames.begin(), grant.frames.end()).size() == grant.frames.size());
        for (std::int64_t i = 0; i < set.count; ++i) {
            slab(grant.tier)[grant.frames[i]] = ++written_;
            expected_[{set.layer, set.page(i)}] = written_;
        }
    }

    ResidencyShape shape_;
    Residency residency_;
    std::map<std::int32_t, int> slabs_[kTiers];
    std::map<Address, int> expected_;
    int written_ = 0;
};

class RandomRequests {
  public:
    RandomRequests(std::uint64_t seed, const ResidencyShape& shape, std::int64_t largest,
                   const NextUses* next_uses = nullptr)
        : random_(seed), shape_(shape), largest_(largest), contents_(shape, next_uses) {}

    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            one();
            CHECK(contents_.residency().alive_pages() == static_cast<std::int64_t>(contents_.pages()));
            CHECK(contents_.residency().pool(Tier::kHbm).most_in_use() <= shape_.hbm_frames);
        }
    }

  private:
    // Some pages of one layer that are alive or not, as asked (-1: either).
    PageSet choose(int alive) {
        const auto layer = static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(shape_.layers));
        list_.clear();
        for (std::int32_t page = 0; page < shape_.pages_per_layer; ++page) {
            const bool fits = alive < 0 || contents_.alive({layer, page}) == (alive == 1);
            if (fits && random_() % 2 == 0 && static_cast<std::int64_t>(list_.size()) < largest_) {
                list_.push_back(page);
            }
        }
        return {shape_.page_class, layer, 0, static_cast<std::int64_t>(list_.size()), list_.data()};
    }

    void one() {
        switch (random_() % 6) {
            case 0: {
                const PageSet set = choose(0);
                contents_.birth(set);
                contents_.write_back(set);
                break;
            }
            case 1:
                contents_.read(choose(1), PageUse::kRead);
                break;
            case 2:
                contents_.read(choose(-1), PageUse::kFetchIfAlive);
                break;
            case 3: {
                const PageSet set = choose(-1);
                contents_.accumulate(set);
                wait(set);
                break;
            }
            case 4:
                contents_.write_back(choose(1));
                break;
            default:
                contents_.release(choose(1));
        }
    }

    // Some of the pages are written back much later. No more wait than leave the largest request its frames.
    void wait(const PageSet& set) {
        std::vector<std::int32_t> now;
        for (std::int64_t i = 0; i < set.count; ++i) {
            const Address page{set.layer, set.page(i)};
            if (random_() % 2 == 0 && std::ssize(waiting_) < shape_.hbm_frames - shape_.resident_pages - largest_) {
                waiting_.insert(page);
            } else if (!waiting_.contains(page)) {
                now.push_back(static_cast<std::int32_t>(set.page(i)));
            }
        }
        contents_.write_back({shape_.page_class, set.layer, 0, std::ssize(now), now.data()});
        if (random_() % 4 == 0) {
            for (const auto& [layer, page] : std::exchange(waiting_, {})) {
                if (contents_.alive({layer, page})) {
                    contents_.write_back({shape_.page_class, layer, page, 1});
                }
            }
        }
    }

    std::mt19937_64 random_;
    ResidencyShape shape_;
    std::int64_t largest_;
    Contents contents_;
    std::set<Address> waiting_;  // may hold what only HBM has
    std::vector<std::int32_t> list_;
};

// Whatever is said of the future.
class RandomNextUses : public NextUses {
  public:
    std::int64_t next_use(std::int64_t /*layer*/, std::int64_t /*page*/) const override {
        return static_cast<std::int64_t>(random_() % 5);
    }

  private:
    mutable std::mt19937_64 random_{7};
};

TEST_CASE("pages read as last written, whatever travels") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const std::int64_t layers = 1 + static_cast<std::int64_t>(seed % 3), pages = 9, largest = 4, waiting = 3;
        const std::int64_t total = layers * pages;
        const std::int64_t resident = static_cast<std::int64_t>(seed * 7) % (total + 1);
        const bool cached = seed % 5 != 4;
        ResidencyShape shape{.page_class = PageClass::kKv,
                             .layers = layers,
                             .pages_per_layer = pages,
                             .hbm_frames = cached ? std::min(total, resident + largest + waiting) : 0,
                             .host_frames = cached ? total - resident : total,
                             .resident_pages = cached ? resident : 0,
                             .cached_in_hbm = cached};
        CAPTURE(seed);
        RandomRequests(seed, shape, largest).run(400);
        const RandomNextUses next_uses;
        RandomRequests(seed, shape, largest, &next_uses).run(400);
        CHECK(Residency(shape).table_bytes() == total * kPageRecord_bytes +
                                                    shape.hbm_frames * kFrameStateRecord_bytes[0] +
                                                    shape.host_frames * kFrameStateRecord_bytes[1]);
    }
}

}  // namespace
}  // namespace oomb::paging
