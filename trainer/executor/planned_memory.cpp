#include "trainer/executor/planned_memory.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"

namespace oomb::trainer {

using issue::IssuedOperation;
using schedule::Access;
using schedule::PoolPlan;
using schedule::Region;
using schedule::RegionName;

void* PlannedMemory::region(const IssuedOperation& issued, RegionName name, std::int64_t bytes, Access access) {
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

std::byte* PlannedMemory::slab(Tier tier, PageClass page_class, std::size_t plane) const {
    const PoolPlan* pool = plan_.pool(tier, page_class);
    require(pool != nullptr, "no {} pages are planned in {}", name_of(page_class), name_of(tier));
    return arena(tier) + pool->offset_bytes + pool->plane_offset_bytes(plane);
}

std::int64_t PlannedMemory::plane_bytes(Tier tier, PageClass page_class, std::size_t plane) const {
    return plan_.pool(tier, page_class)->plane_bytes[plane];
}

std::byte* PlannedMemory::frame(const IssuedOperation& issued, Tier tier, PageClass page_class, std::size_t plane,
                                std::int32_t frame, Access access) {
    const std::int64_t bytes = plane_bytes(tier, page_class, plane);
    std::byte* start = slab(tier, page_class, plane) + frame * bytes;
    note(issued, tier, start - arena(tier), bytes, access);
    return start;
}

void PlannedMemory::note(const IssuedOperation& /*issued*/, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                         Access /*access*/) {
    note_touched(tier, offset_bytes + bytes);
}

void PlannedMemory::note_touched(Tier tier, std::int64_t end_bytes) {
    const std::int64_t end = schedule::aligned(end_bytes);
    auto& touched = touched_[static_cast<int>(tier)];
    std::int64_t before = touched.load();
    while (before < end && !touched.compare_exchange_weak(before, end)) {
    }
}

}  // namespace oomb::trainer
