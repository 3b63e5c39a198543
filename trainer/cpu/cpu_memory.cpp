#include "trainer/cpu/cpu_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/core/error.hpp"

namespace oomb::trainer {

using issue::IssuedOperation;
using schedule::Access;
using schedule::Region;

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

PlannedMemory::Arenas reserve_arenas(const schedule::Plan& plan) {
    PlannedMemory::Arenas arenas{};
    for (int tier = 0; tier < kTiers; ++tier) {
        arenas[tier] = reserve(static_cast<Tier>(tier), plan.arena_bytes[tier]);
    }
    return arenas;
}

}  // namespace

CpuMemory::CpuMemory(const schedule::Plan& plan, bool checked) : PlannedMemory(plan, reserve_arenas(plan)) {
    if (!checked) {
        return;
    }
    for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
        std::memset(arena(tier), kPoison, plan.arena_bytes[static_cast<int>(tier)]);
    }
    checker_ = std::make_unique<HazardChecker>(plan);
}

CpuMemory::~CpuMemory() {
    for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
        if (arena(tier) != nullptr) {
            munmap(arena(tier), plan().arena_bytes[static_cast<int>(tier)]);
        }
    }
}

void CpuMemory::note(const IssuedOperation& issued, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                     Access access) {
    PlannedMemory::note(issued, tier, offset_bytes, bytes, access);
    if (checker_) {
        checker_->touched(issued, tier, offset_bytes, bytes, access);
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
            const Region& region = region_of(plan().regions, use.region);
            note(issued, region.tier, region.slot_offset_bytes(use.slot), region.slot_bytes, Access::kWrite);
            std::memset(arena(region.tier) + region.slot_offset_bytes(use.slot), kPoison, region.slot_bytes);
        }
    }
    for (const paging::Grant& grant : issued.grants) {
        const auto poison = [&](Tier tier, std::int32_t number) {
            for (std::size_t plane = 0; plane < plan().pool(tier, grant.page_class)->plane_bytes.size(); ++plane) {
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
