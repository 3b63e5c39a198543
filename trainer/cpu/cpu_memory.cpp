#include "trainer/cpu/cpu_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/core/error.hpp"

namespace oomb::trainer {

using issue::IssuedOperation;
using schedule::Access;
using schedule::PoolPlan;
using schedule::Region;
using schedule::RegionName;

namespace {

constexpr int kPoison = 0xff;  // NaN in every floating-point type, -1 as a token

std::byte* reserve(Tier tier, std::int64_t bytes) {
    if (bytes == 0) {
        return nullptr;
    }
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        fail<DoesNotFitError>("{} arena: the system refuses {} bytes ({}); lower --context or --chunk", name_of(tier),
                              bytes, std::strerror(errno));
    }
    return static_cast<std::byte*>(start);
}

}  // namespace

CpuMemory::CpuMemory(const schedule::Plan& plan, bool checked) : plan_(plan) {
    for (int tier = 0; tier < kTiers; ++tier) {
        arenas_[tier] = reserve(static_cast<Tier>(tier), plan.arena_bytes[tier]);
        if (checked) {
            std::memset(arenas_[tier], kPoison, plan.arena_bytes[tier]);
        }
    }
    if (checked) {
        checker_ = std::make_unique<HazardChecker>(plan);
    }
}

CpuMemory::~CpuMemory() {
    for (int tier = 0; tier < kTiers; ++tier) {
        if (arenas_[tier] != nullptr) {
            munmap(arenas_[tier], plan_.arena_bytes[tier]);
        }
    }
}

void* CpuMemory::region(const IssuedOperation& issued, RegionName name, std::int64_t bytes, Access access) {
    const auto& uses = issued.operation.regions;
    const auto* use = std::find_if(uses.begin(), uses.end(), [&](const auto& u) { return u.region == name; });
    require(use != uses.end() && (access == Access::kRead || use->access == Access::kWrite),
            "{}: does not declare its use of {}", to_text(issued.operation.id), name_of(name));
    const Region& region = region_of(plan_.regions, name);
    require(bytes <= region.slot_bytes, "{}: touches {} bytes of {}, which has {}", to_text(issued.operation.id), bytes,
            name_of(name), region.slot_bytes);
    note(issued, region.tier, region.slot_offset_bytes(use->slot), bytes, access);
    return arena(region.tier) + region.slot_offset_bytes(use->slot);
}

std::byte* CpuMemory::slab(Tier tier, PageClass page_class, std::size_t plane) {
    const PoolPlan* pool = plan_.pool(tier, page_class);
    require(pool != nullptr, "no {} pages are planned in {}", name_of(page_class), name_of(tier));
    return arena(tier) + pool->offset_bytes + pool->plane_offset_bytes(plane);
}

std::int64_t CpuMemory::plane_bytes(Tier tier, PageClass page_class, std::size_t plane) const {
    return plan_.pool(tier, page_class)->plane_bytes[plane];
}

std::byte* CpuMemory::frame(const IssuedOperation& issued, Tier tier, PageClass page_class, std::size_t plane,
                            std::int32_t frame, Access access) {
    const std::int64_t bytes = plane_bytes(tier, page_class, plane);
    std::byte* start = slab(tier, page_class, plane) + frame * bytes;
    note(issued, tier, start - arena(tier), bytes, access);
    return start;
}

void CpuMemory::note(const IssuedOperation& issued, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                     Access access) {
    note_touched(tier, offset_bytes + bytes);
    if (checker_) {
        checker_->touched(issued, tier, offset_bytes, bytes, access);
    }
}

void CpuMemory::note_touched(Tier tier, std::int64_t end_bytes) {
    const std::int64_t end = schedule::aligned(end_bytes);
    auto& touched = touched_[static_cast<int>(tier)];
    std::int64_t before = touched.load();
    while (before < end && !touched.compare_exchange_weak(before, end)) {
    }
}

void CpuMemory::issued(const IssuedOperation& operation) {
    if (checker_) {
        checker_->issued(operation);
    }
}

void CpuMemory::end_lives(const IssuedOperation& issued) {
    if (!checker_) {
        return;
    }
    for (const schedule::RegionUse& use : issued.operation.regions) {
        if (use.ends) {
            const Region& region = region_of(plan_.regions, use.region);
            note(issued, region.tier, region.slot_offset_bytes(use.slot), region.slot_bytes, Access::kWrite);
            std::memset(arena(region.tier) + region.slot_offset_bytes(use.slot), kPoison, region.slot_bytes);
        }
    }
    for (const paging::Grant& grant : issued.grants) {
        const auto poison = [&](Tier tier, std::int32_t number) {
            for (std::size_t plane = 0; plane < plan_.pool(tier, grant.page_class)->plane_bytes.size(); ++plane) {
                std::memset(frame(issued, tier, grant.page_class, plane, number, Access::kWrite), kPoison,
                            plane_bytes(tier, grant.page_class, plane));
            }
        };
        for (const std::int32_t number : grant.freed_hbm) {
            poison(Tier::kHbm, number);
        }
        for (const std::int32_t number : grant.freed_host) {
            poison(Tier::kHost, number);
        }
    }
}

}  // namespace oomb::trainer
