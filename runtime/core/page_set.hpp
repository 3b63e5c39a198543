#pragma once
// The words that schedule and paging share: tiers, classes of pages, sets of pages and what is done with them.

#include <cstdint>
#include <string_view>

namespace oomb {

// Where bytes lie. On the CPU backend "HBM" is an arena in host memory that plays the GPU's part.
enum class Tier : std::uint8_t { kHbm, kHost };
inline constexpr int kTiers = 2;

// A page of kKv / kKvGradient holds `page_tokens` tokens of one layer. A page of kActivation holds one chunk of one
// layer (what is kept of layer input, attention output, log-sum-exp); its index is the chunk's place in the order in
// which chunks are kept.
enum class PageClass : std::uint8_t { kKv, kKvGradient, kActivation };
inline constexpr int kPageClasses = 3;

enum class PageUse : std::uint8_t {
    kBirth,         // write pages that do not exist yet
    kRead,          // pages must exist
    kFetchIfAlive,  // bring in those of the set that exist; the others are left alone
    kAccumulate,    // add to pages; one that does not exist is born, and the operation writes it (first touch)
    kWriteBack,     // copy to the host those whose home is there and whose HBM copy is newer
    kRelease,       // pages die, their frames are free in every tier
};

// Pages of one class and layer: the range [first, first + count), or, where `list` is set, its `count` entries
// (ascending, no duplicates; the list outlives the operation).
struct PageSet {
    PageClass page_class = PageClass::kKv;
    std::int32_t layer = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    const std::int32_t* list = nullptr;

    std::int64_t page(std::int64_t i) const { return list != nullptr ? list[i] : first + i; }
};

// Host bytes of the tables that say where pages are and who used a frame last; checked where the records are defined.
inline constexpr std::int64_t kPageRecord_bytes = 12;                     // residency, per page that may exist
inline constexpr std::int64_t kFrameStateRecord_bytes[kTiers] = {28, 4};  // residency, per frame of the tier
inline constexpr std::int64_t kFrameAccessRecord_bytes = 56;              // hazard tracker, per frame of any tier

constexpr std::string_view name_of(Tier tier) {
    return tier == Tier::kHbm ? "hbm" : "host";
}
constexpr std::string_view name_of(PageClass page_class) {
    switch (page_class) {
        case PageClass::kKv:
            return "kv";
        case PageClass::kKvGradient:
            return "kv_gradient";
        case PageClass::kActivation:
            return "activation";
    }
    return "";
}

}  // namespace oomb
