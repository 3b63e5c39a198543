#pragma once
// Where every page of one class is, and what has to move when an operation asks for pages.
//
// One deterministic state machine, (state, request) -> frames and copies, run in program order by whoever walks the
// schedule: the trainer before it hands the operation to its engine, the simulator before it gives it a time. It
// touches no memory and knows no device.

#include <compare>
#include <cstdint>
#include <vector>

#include "runtime/core/page_set.hpp"
#include "runtime/paging/frame_pool.hpp"
#include "runtime/paging/lru_list.hpp"

namespace oomb::paging {

struct ResidencyShape {
    PageClass page_class = PageClass::kKv;
    std::int64_t layers = 0;
    std::int64_t pages_per_layer = 0;
    std::int64_t hbm_frames = 0;
    std::int64_t host_frames = 0;
    // Pages (layer, index) with index * layers + layer below this have their home in HBM, the others on the host.
    std::int64_t resident_pages = 0;
    // Pages on the host are brought to HBM to be used. Without a cache they are used in their home (kept activations),
    // and all pages of a request have theirs in the same tier.
    bool cached_in_hbm = true;
    // The user has limited the frames on the host (--gradient-pages): a page that finds none is no fault of the plan's.
    bool host_limited = false;
};

// Movement of one page between its frames, to be carried out by the operation that asked.
struct PageCopy {
    std::int32_t hbm_frame = 0;
    std::int32_t host_frame = 0;
};

// Answer to one request. Vectors run parallel to the pages of the set.
struct Grant {
    PageClass page_class = PageClass::kKv;
    Tier tier = Tier::kHbm;            // where the frames below lie
    std::vector<std::int32_t> frames;  // -1: kFetchIfAlive left the page alone; kWriteBack: it had nothing to write
    std::vector<std::uint8_t> first_touch;  // kAccumulate: 1 where the page was born by this request
    std::vector<PageCopy> to_hbm;           // kRead, kFetchIfAlive, kAccumulate: copies host -> HBM
    std::vector<PageCopy> to_host;          // kWriteBack: copies HBM -> host
    std::vector<std::int32_t> freed_hbm;    // kRelease
    std::vector<std::int32_t> freed_host;

    void clear();  // keeps the vectors' memory
};

// When pages are needed again, as far as somebody knows: the order of eviction of who compares policies
// (simulator/lists/policies.hpp). Runs evict the page whose last use is the oldest.
class NextUses {
  public:
    virtual ~NextUses() = default;
    // On any scale that grows with time; of equals the page whose last use is the oldest goes first.
    virtual std::int64_t next_use(std::int64_t layer, std::int64_t page) const = 0;
};

class Residency {
  public:
    // With `next_uses`, which outlives it, the page that is needed last makes room, else the least recently used one.
    explicit Residency(const ResidencyShape& shape, const NextUses* next_uses = nullptr);

    // Frames of a request's pages stay valid until a later request evicts or releases them; the hazard tracker orders
    // the next user of a frame after the earlier ones. Throws InternalError when the schedule breaks a rule: reads a
    // page that does not exist, births one twice, asks for more frames than there are beside those of pages that only
    // HBM holds, which make no room until they are written back. Pages get the frames that are free or make room in
    // ascending order, as many as they are: neighbours in the text become neighbours in memory, which travel in one
    // copy.
    Grant request(PageUse use, const PageSet& pages);
    // The same, into a grant whose memory is used again.
    void request(PageUse use, const PageSet& pages, Grant& grant);

    // For a simulation that leaves out requests which would do to other pages what earlier ones did. All pages of the
    // cache, the HBM frames of pages at home on the host which the host has, too:
    std::uint64_t requests() const { return request_number_; }
    std::int64_t cached() const { return evictable_.size(); }
    std::uint64_t cache_used() const { return cache_used_; }  // number of the last request that used one of them
    std::uint64_t oldest_use() const;  // of the last request that used the one that is evicted next; 0: there is none
    // As if the requests that brought them had been those of other pages: (layer, index) becomes (layer + layers, index
    // + pages). They exist, and the host has them.
    void rename_cached(std::int64_t layers, std::int64_t pages);
    // As if other pages had needed the room of all that are in the cache: those that the host has make room, the least
    // recently used one first.
    void empty_cache();
    // Pages are born, or die, in their homes: frames of the cache are left alone.
    void settle(bool born, const PageSet& pages);

    const ResidencyShape& shape() const { return shape_; }
    const FramePool& pool(Tier tier) const { return tier == Tier::kHbm ? hbm_ : host_; }
    std::int64_t alive_pages() const { return alive_; }
    // Host bytes of its tables, none of which grows: kPageRecord_bytes and kFrameStateRecord_bytes. What an order by
    // next uses takes besides is not counted, nor are the frames of one request.
    std::int64_t table_bytes() const;

  private:
    struct Page {
        std::int32_t hbm_frame = -1;
        std::int32_t host_frame = -1;
        bool alive = false;
        bool newer_in_hbm = false;  // HBM holds what the host does not
        bool lives_in_hbm = false;  // its home, for good
    };
    static_assert(sizeof(Page) == kPageRecord_bytes);

    std::int64_t index_of(const PageSet& pages, std::int64_t i) const;
    bool lives_in_hbm(std::int64_t index) const { return pages_[index].lives_in_hbm; }
    Tier tier_of(const PageSet& pages) const;
    void give_birth(std::int64_t index, Grant& grant);
    void bring(std::int64_t index, Grant& grant);
    void write_back(std::int64_t index, Grant& grant);
    void release(std::int64_t index, Grant& grant);
    void find_frames(PageUse use, const PageSet& pages);
    std::int32_t take_hbm_frame(std::int64_t index);
    std::int32_t evict();
    // Pages at home in HBM make no room for others, so nobody asks when they were used.
    void touch(std::int64_t index) {
        if (const Page& page = pages_[index]; page.hbm_frame >= 0 && !page.lives_in_hbm) {
            use_in_cache(page);
        }
    }
    void use_in_cache(const Page& page);
    std::int32_t victim();
    void find_victims();

    struct Victim {
        std::int64_t next_use = 0;
        std::int64_t age = 0;  // larger: used longer ago
        std::int32_t frame = 0;
        auto operator<=>(const Victim&) const = default;
    };

    ResidencyShape shape_;
    const NextUses* next_uses_;
    FramePool hbm_, host_;
    std::vector<Page> pages_;            // by layer * pages_per_layer + page: a request's lie close together
    std::vector<std::int64_t> page_in_;  // HBM frame -> page
    LruList evictable_;                  // HBM frames of pages at home on the host, whose frame there is as new
    std::uint64_t request_number_ = 0;
    std::uint64_t cache_used_ = 0;
    std::vector<std::uint64_t> last_request_;  // HBM frame of the cache -> request that used it last
    std::int64_t alive_ = 0;
    std::vector<std::int32_t> found_;       // ascending HBM frames for the pages of the present request that have none
    std::size_t next_found_ = 0;            // the first of them that has no page yet
    std::vector<Victim> victims_;           // with next_uses_: a heap of what the present request may evict
    std::uint64_t victims_of_request_ = 0;  // the request that it is of

    static constexpr std::int64_t kFreeListEntry_bytes = sizeof(std::int32_t);
    static_assert(sizeof(decltype(page_in_)::value_type) + sizeof(LruList::Link) +
                      sizeof(decltype(last_request_)::value_type) + kFreeListEntry_bytes ==
                  kFrameStateRecord_bytes[static_cast<int>(Tier::kHbm)]);
    static_assert(kFreeListEntry_bytes == kFrameStateRecord_bytes[static_cast<int>(Tier::kHost)]);
};

}  // namespace oomb::paging
