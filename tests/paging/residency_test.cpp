// The residency state machine: what each request answers, and which rules it enforces.
#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "runtime/paging/residency.hpp"

namespace oomb::paging {
namespace {

using Frames = std::vector<std::int32_t>;
using Touches = std::vector<std::uint8_t>;

ResidencyShape shape_of(std::int64_t hbm, std::int64_t host, std::int64_t resident = 0) {
    return {.page_class = PageClass::kKvGradient,
            .layers = 2,
            .pages_per_layer = 8,
            .hbm_frames = hbm,
            .host_frames = host,
            .resident_pages = resident};
}

PageSet pages(std::int64_t first, std::int64_t count, std::int32_t layer = 0) {
    return {PageClass::kKvGradient, layer, first, count};
}

PageSet pages(const Frames& list, std::int32_t layer = 0) {
    return {PageClass::kKvGradient, layer, 0, static_cast<std::int64_t>(list.size()), list.data()};
}

bool moves(const Grant& grant) {
    return !grant.to_hbm.empty() || !grant.to_host.empty();
}

// Births pages and gives them a copy on the host, so that they may be evicted.
Grant birth(Residency& residency, const PageSet& set) {
    Grant grant = residency.request(PageUse::kBirth, set);
    residency.request(PageUse::kWriteBack, set);
    return grant;
}

TEST_CASE("birth gives a frame and moves nothing; a read finds the page there") {
    Residency residency(shape_of(4, 8));
    const Grant born = residency.request(PageUse::kBirth, pages(0, 3));
    CHECK(born.tier == Tier::kHbm);
    CHECK(born.page_class == PageClass::kKvGradient);
    CHECK(born.frames == Frames{0, 1, 2});
    CHECK_FALSE(moves(born));
    const Grant read = residency.request(PageUse::kRead, pages(1, 2));
    CHECK(read.frames == Frames{1, 2});
    CHECK_FALSE(moves(read));
    CHECK(residency.alive_pages() == 3);
    CHECK(residency.pool(Tier::kHost).in_use() == 0);
}

TEST_CASE("a page is written back once, and again only after it was added to") {
    Residency residency(shape_of(4, 8));
    residency.request(PageUse::kBirth, pages(0, 2));
    const Grant first = residency.request(PageUse::kWriteBack, pages(0, 2));
    CHECK(first.frames == Frames{0, 1});
    REQUIRE(first.to_host.size() == 2);
    CHECK(first.to_host[1].hbm_frame == 1);
    CHECK(first.to_host[1].host_frame == 1);
    const Grant second = residency.request(PageUse::kWriteBack, pages(0, 2));
    CHECK(second.frames == Frames{-1, -1});
    CHECK_FALSE(moves(second));
    residency.request(PageUse::kRead, pages(0, 2));
    CHECK_FALSE(moves(residency.request(PageUse::kWriteBack, pages(0, 2))));
    residency.request(PageUse::kAccumulate, pages(1, 1));
    const Grant third = residency.request(PageUse::kWriteBack, pages(0, 2));
    CHECK(third.frames == Frames{-1, 1});
    REQUIRE(third.to_host.size() == 1);
    CHECK(third.to_host[0].host_frame == 1);  // its frame on the host stays its own
}

TEST_CASE("the page used longest ago makes room, and comes back from its host frame") {
    Residency residency(shape_of(3, 8));
    birth(residency, pages(0, 3));
    residency.request(PageUse::kRead, pages(0, 1));            // order of use: 1, 2, 0
    CHECK(birth(residency, pages(3, 1)).frames == Frames{1});  // in the frame of page 1
    const Grant back = residency.request(PageUse::kRead, pages(1, 1));
    REQUIRE(back.to_hbm.size() == 1);
    CHECK(back.to_hbm[0].host_frame == 1);
    CHECK(back.to_hbm[0].hbm_frame == 2);  // page 2 was the oldest
    CHECK(back.frames == Frames{2});
    CHECK(residency.request(PageUse::kRead, pages(0, 1)).frames == Frames{0});
    CHECK(residency.pool(Tier::kHbm).most_in_use() == 3);
    CHECK(residency.pool(Tier::kHost).in_use() == 4);
}

TEST_CASE("a request never evicts its own pages, also those it names later") {
    Residency residency(shape_of(3, 8));
    birth(residency, pages(0, 3));
    birth(residency, pages(3, 1));  // page 0 left; the oldest is page 1
    const Grant grant = residency.request(PageUse::kRead, pages(0, 3));
    REQUIRE(grant.to_hbm.size() == 1);
    CHECK(grant.frames[1] == 1);
    CHECK(grant.frames[2] == 2);
    CHECK(grant.frames[0] == 0);  // in the place of page 3, which was used last but is not asked for
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kRead, pages(0, 4)),
                         doctest::Contains("more than the 3 HBM frames"), InternalError);
}

TEST_CASE("pages of a request get its frames in ascending order: neighbours travel together") {
    Residency residency(shape_of(4, 8));
    birth(residency, pages(0, 4));
    residency.request(PageUse::kRead, pages({1, 0}));  // make room last
    birth(residency, pages(4, 2));                     // in frames 2 and 3
    residency.request(PageUse::kRead, pages({5, 4}));
    const Grant grant = residency.request(PageUse::kRead, pages(2, 2));  // frame 1 has been left alone longer than 0
    CHECK(grant.frames == Frames{0, 1});
    REQUIRE(grant.to_hbm.size() == 2);
    CHECK(grant.to_hbm[0].host_frame == 2);
    CHECK(grant.to_hbm[1].host_frame == 3);
    CHECK(residency.request(PageUse::kRead, pages({1, 0})).frames == Frames{2, 3});  // those of 5 and 4 again
}

TEST_CASE("a page that only HBM holds makes no room until it is written back") {
    Residency residency(shape_of(3, 8));
    birth(residency, pages(0, 3));
    residency.request(PageUse::kAccumulate, pages(0, 1));
    birth(residency, pages(3, 2));  // in the place of pages 1 and 2, which were used before page 0
    CHECK_FALSE(moves(residency.request(PageUse::kRead, pages(0, 1))));
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kRead, pages(1, 3)),
                         doctest::Contains("more than the 3 HBM frames that may make room"), InternalError);
    residency.request(PageUse::kWriteBack, pages(0, 1));
    CHECK(residency.request(PageUse::kRead, pages(1, 3)).frames.size() == 3);
    CHECK(residency.request(PageUse::kRead, pages(0, 1)).to_hbm.size() == 1);
}

TEST_CASE("pages with their home in HBM stay, and are not written back") {
    // Time order over layers: (page 0, layer 0), (0, 1), (1, 0) are resident.
    Residency residency(shape_of(5, 8, 3));
    residency.request(PageUse::kBirth, pages(0, 2, 0));
    residency.request(PageUse::kBirth, pages(0, 1, 1));
    CHECK_FALSE(moves(residency.request(PageUse::kWriteBack, pages(0, 2, 0))));
    CHECK_FALSE(moves(residency.request(PageUse::kWriteBack, pages(0, 1, 1))));
    for (std::int64_t page = 2; page < 8; ++page) {  // through the two frames that are left
        birth(residency, pages(page, 1, 0));
    }
    CHECK(residency.request(PageUse::kRead, pages(0, 2, 0)).frames == Frames{0, 1});
    CHECK(residency.request(PageUse::kRead, pages(0, 1, 1)).frames == Frames{2});
    CHECK(residency.pool(Tier::kHost).in_use() == 6);
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kRead, pages(2, 3, 0)), doctest::Contains("more than"),
                         InternalError);
}

TEST_CASE("fetch leaves pages alone that do not exist") {
    Residency residency(shape_of(2, 8));
    birth(residency, pages(1, 1));
    birth(residency, pages(4, 2));  // page 1 left, page 4 is the oldest
    const Grant grant = residency.request(PageUse::kFetchIfAlive, pages(0, 3));
    CHECK(grant.frames == Frames{-1, 0, -1});
    REQUIRE(grant.to_hbm.size() == 1);
    CHECK(grant.to_hbm[0].host_frame == 0);
    CHECK(residency.alive_pages() == 3);
}

TEST_CASE("adding to a page: the first touch gives birth, later ones find it") {
    Residency residency(shape_of(4, 8));
    birth(residency, pages(1, 1));
    const Grant first = residency.request(PageUse::kAccumulate, pages(0, 3));
    CHECK(first.first_touch == Touches{1, 0, 1});
    CHECK(first.frames == Frames{1, 0, 2});
    const Grant second = residency.request(PageUse::kAccumulate, pages(0, 3));
    CHECK(second.first_touch == Touches{0, 0, 0});
    CHECK(second.frames == first.frames);
    CHECK(residency.request(PageUse::kWriteBack, pages(0, 3)).to_host.size() == 3);
}

TEST_CASE("a cache renamed to later pages does what it would have done after requests for them") {
    const auto after = [](std::int64_t walked, std::int64_t shift) {
        Residency residency(shape_of(3, 8));
        for (std::int64_t page = 0; page < 8; ++page) {
            birth(residency, pages(page, 1));
        }
        for (std::int64_t page = 0; page < walked; ++page) {
            residency.request(PageUse::kRead, pages(page, 1));
        }
        residency.rename_cached(0, shift);
        std::vector<std::size_t> copies;
        for (const std::int64_t page : {5, 4, 3, 6, 7, 0, 5}) {
            copies.push_back(residency.request(PageUse::kRead, pages(page, 1)).to_hbm.size());
        }
        return copies;
    };
    CHECK(after(4, 2) == after(6, 0));
    CHECK(after(3, 3) == after(6, 0));
    CHECK(after(4, 0) != after(6, 0));
}

TEST_CASE("an emptied cache gives its frames as if other pages had pushed its own out") {
    Residency emptied(shape_of(5, 16)), pushed(shape_of(5, 16));
    for (Residency* one : {&emptied, &pushed}) {
        birth(*one, pages(0, 5, 0));
        one->request(PageUse::kRead, pages(1, 2, 0));
    }
    emptied.empty_cache();
    birth(pushed, pages(0, 5, 1));
    CHECK(emptied.cached() == 0);
    CHECK(emptied.pool(Tier::kHbm).in_use() == 0);
    const Grant found = emptied.request(PageUse::kRead, pages(0, 5, 0));
    CHECK(found.to_hbm.size() == 5);
    CHECK(found.frames == pushed.request(PageUse::kRead, pages(0, 5, 0)).frames);  // the one used longest ago first
}

TEST_CASE("pages that only HBM holds stay in an emptied cache; frames that were given back go first") {
    Residency residency(shape_of(4, 8));
    birth(residency, pages(0, 3));
    residency.request(PageUse::kAccumulate, pages(1, 1));
    residency.request(PageUse::kRelease, pages(2, 1));
    residency.empty_cache();
    CHECK(residency.cached() == 0);
    CHECK_FALSE(moves(residency.request(PageUse::kRead, pages(1, 1))));
    CHECK(residency.request(PageUse::kRead, pages(0, 1)).frames == Frames{2});
    CHECK(residency.request(PageUse::kBirth, pages(3, 1)).frames == Frames{0});
}

TEST_CASE("settled pages live and die in their homes, beside a full cache") {
    Residency residency(shape_of(3, 6, 4));  // pages 0 and 1 of both layers at home in HBM
    residency.settle(true, pages(0, 1));
    birth(residency, pages(2, 2));
    residency.settle(true, pages(4, 2));
    CHECK(residency.alive_pages() == 5);
    CHECK(residency.cached() == 2);
    CHECK_FALSE(moves(residency.request(PageUse::kRead, pages(0, 1))));
    CHECK(residency.request(PageUse::kRead, pages(4, 1)).to_hbm.size() == 1);
    CHECK_THROWS_AS(residency.settle(true, pages(0, 1)), InternalError);
    CHECK_THROWS_AS(residency.settle(false, pages(4, 1)), InternalError);  // in the cache
    residency.settle(false, pages(5, 1));
    CHECK(residency.pool(Tier::kHost).in_use() == 3);
}

TEST_CASE("release frees the frames of both tiers, and the page may be born again") {
    Residency residency(shape_of(2, 3));
    birth(residency, pages(0, 2));
    residency.request(PageUse::kBirth, pages(2, 1, 1));  // page 0 of layer 0 left HBM
    const Grant gone = residency.request(PageUse::kRelease, pages(0, 2));
    CHECK(gone.freed_hbm == Frames{1});
    CHECK(gone.freed_host == Frames{1, 0});  // the last page first
    CHECK(gone.frames.empty());
    CHECK(residency.alive_pages() == 1);
    CHECK(residency.pool(Tier::kHbm).in_use() == 1);
    CHECK(residency.pool(Tier::kHost).in_use() == 0);
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kRead, pages(0, 1)), doctest::Contains("does not exist"),
                         InternalError);
    CHECK(residency.request(PageUse::kAccumulate, pages(0, 1)).first_touch == Touches{1});
}

TEST_CASE("lists of pages answer as ranges do") {
    Residency residency(shape_of(4, 8));
    const Frames some = {0, 3, 6};
    CHECK(residency.request(PageUse::kBirth, pages(some, 1)).frames == Frames{0, 1, 2});
    CHECK(residency.request(PageUse::kWriteBack, pages(some, 1)).to_host.size() == 3);
    birth(residency, pages(0, 2));  // evicts page 0 of layer 1
    const Frames others = {0, 6};
    const Grant grant = residency.request(PageUse::kRead, pages(others, 1));
    REQUIRE(grant.to_hbm.size() == 1);
    CHECK(grant.to_hbm[0].host_frame == 0);
    CHECK(grant.frames == Frames{1, 2});  // page 6 is where it was, page 3 was the oldest
    const Frames gone = {3, 6};
    CHECK(residency.request(PageUse::kRelease, pages(gone, 1)).freed_host.size() == 2);
    CHECK_THROWS_AS(residency.request(PageUse::kRead, pages(some, 1)), InternalError);
}

TEST_CASE("rules of the schedule") {
    Residency residency(shape_of(4, 8));
    birth(residency, pages(2, 1));
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kBirth, pages(2, 1)),
                         doctest::Contains("page 2 of layer 0 is born twice"), InternalError);
    for (const PageUse use : {PageUse::kRead, PageUse::kWriteBack, PageUse::kRelease}) {
        CHECK_THROWS_WITH_AS(residency.request(use, pages(1, 1)), doctest::Contains("page 1 of layer 0 does not exist"),
                             InternalError);
    }
    CHECK_THROWS_WITH_AS(residency.request(PageUse::kBirth, pages(8, 1)), doctest::Contains("8 pages and 2 layers"),
                         InternalError);
    CHECK_THROWS_AS(residency.request(PageUse::kBirth, pages(-1, 1)), InternalError);
    CHECK_THROWS_AS(residency.request(PageUse::kBirth, pages(0, 1, 2)), InternalError);
    Residency no_host(shape_of(4, 0));
    no_host.request(PageUse::kBirth, pages(0, 1));
    CHECK_THROWS_AS(no_host.request(PageUse::kWriteBack, pages(0, 1)), InternalError);
    ResidencyShape limited = shape_of(4, 1);
    limited.host_limited = true;
    Residency few(limited);
    few.request(PageUse::kBirth, pages(0, 2));
    few.request(PageUse::kWriteBack, pages(0, 1));
    CHECK_THROWS_WITH_AS(few.request(PageUse::kWriteBack, pages(1, 1)),
                         doctest::Contains("the 1 that have room on the host are there"), DoesNotFitError);
}

TEST_CASE("without a cache, pages are born and used in their home") {
    ResidencyShape shape = shape_of(0, 3);
    shape.cached_in_hbm = false;
    Residency on_host(shape);
    CHECK(on_host.request(PageUse::kBirth, pages(0, 2)).frames == Frames{0, 1});
    const Grant read = on_host.request(PageUse::kRead, pages(1, 1));
    CHECK(read.tier == Tier::kHost);
    CHECK(read.frames == Frames{1});
    CHECK_FALSE(moves(read));
    CHECK(on_host.request(PageUse::kRelease, pages(0, 2)).freed_host == Frames{1, 0});

    shape = shape_of(3, 3, 3);  // (page 0, layer 0), (0, 1), (1, 0) at home in HBM
    shape.cached_in_hbm = false;
    Residency both(shape);
    CHECK(both.request(PageUse::kBirth, pages(0, 2)).tier == Tier::kHbm);
    CHECK(both.request(PageUse::kBirth, pages(2, 1)).tier == Tier::kHost);
    CHECK(both.request(PageUse::kBirth, pages(1, 1, 1)).frames == Frames{1});
    CHECK(both.request(PageUse::kRead, pages(1, 1, 1)).tier == Tier::kHost);
    CHECK(both.request(PageUse::kRead, pages(1, 1)).frames == Frames{1});
    CHECK_THROWS_WITH_AS(both.request(PageUse::kRead, pages(0, 3)), doctest::Contains("some at home in HBM"),
                         InternalError);
    CHECK(both.request(PageUse::kRelease, pages(0, 2)).freed_hbm == Frames{1, 0});
    CHECK(both.request(PageUse::kRelease, pages(2, 1)).freed_host == Frames{0});
}

class FixedNextUses : public NextUses {
  public:
    explicit FixedNextUses(std::vector<std::int64_t> of_page) : of_page_(std::move(of_page)) {}
    std::int64_t next_use(std::int64_t layer, std::int64_t page) const override {
        return layer == 0 ? of_page_.at(page) : 0;
    }

  private:
    std::vector<std::int64_t> of_page_;
};

TEST_CASE(
    "with next uses the page that is needed last makes room, of equals the least recently used, of its own request "
    "none") {
    const FixedNextUses next_uses({5, 9, 9, 1, 7});
    Residency residency(shape_of(4, 8), &next_uses);
    birth(residency, pages(0, 4));
    residency.request(PageUse::kRead, pages(1, 1));  // page 2 is now the older of the two that are needed last
    CHECK(birth(residency, pages(4, 1)).frames == Frames{2});
    CHECK(residency.request(PageUse::kRead, pages(2, 1)).frames == Frames{1});
    // Pages 0, 2, 3 and 4 are there. Page 2 is needed last, but now.
    const Grant both = residency.request(PageUse::kRead, pages(1, 2));
    CHECK(both.to_hbm.size() == 1);
    CHECK(both.frames == Frames{2, 1});
    residency.request(PageUse::kAccumulate,
                      pages(3, 1));  // what only HBM holds stays, though all else is needed before
    const FixedNextUses last({0, 0, 0, 9, 0});
    Residency dirty(shape_of(2, 8), &last);
    dirty.request(PageUse::kBirth, pages(3, 1));
    birth(dirty, pages(0, 1));
    CHECK(birth(dirty, pages(1, 1)).frames == Frames{1});
    CHECK_THROWS_WITH_AS(dirty.request(PageUse::kRead, pages(0, 2)), doctest::Contains("more than the 2 HBM frames"),
                         InternalError);
}

}  // namespace
}  // namespace oomb::paging
