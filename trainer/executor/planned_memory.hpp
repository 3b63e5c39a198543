#pragma once
// The two arenas of a run as its operations see them: regions and frames at the plan's offsets, checked against what
// an operation declares.

#include <array>
#include <atomic>
#include <cstddef>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::trainer {

class PlannedMemory {
  public:
    using Arenas = std::array<std::byte*, kTiers>;  // plan.arena_bytes each; owned by whoever reserved them

    // `plan` outlives the memory.
    PlannedMemory(const schedule::Plan& plan, const Arenas& arenas) : plan_(plan), arenas_(arenas) {}
    virtual ~PlannedMemory() = default;
    PlannedMemory(const PlannedMemory&) = delete;
    PlannedMemory& operator=(const PlannedMemory&) = delete;

    // Start of a region that the operation declares, in the slot it declares. `elements` are what the caller will
    // touch. InternalError if it declares the region not at all, or only to read.
    template <class T>
    T* write(const issue::IssuedOperation& issued, schedule::RegionName name, std::int64_t elements) {
        return static_cast<T*>(region(issued, name, elements * sizeof(T), schedule::Access::kWrite));
    }
    template <class T>
    const T* read(const issue::IssuedOperation& issued, schedule::RegionName name, std::int64_t elements) {
        return static_cast<const T*>(region(issued, name, elements * sizeof(T), schedule::Access::kRead));
    }
    // One plane of a frame.
    std::byte* frame(const issue::IssuedOperation& issued, Tier tier, PageClass page_class, std::size_t plane,
                     std::int32_t frame, schedule::Access access);

    // Start of a plane of a pool; frames follow at plane_bytes. For kernels that address a slab by frame numbers, after
    // frame() has noted each of them.
    std::byte* slab(Tier tier, PageClass page_class, std::size_t plane) const;
    std::int64_t plane_bytes(Tier tier, PageClass page_class, std::size_t plane) const;

    // From outside of operations, while idle.
    template <class T>
    T* idle(schedule::RegionName name) const {
        const schedule::Region& region = region_of(plan_.regions, name);
        return reinterpret_cast<T*>(arena(region.tier) + region.offset_bytes);
    }

    std::byte* arena(Tier tier) const { return arenas_[static_cast<int>(tier)]; }
    // End of the highest byte touched so far, rounded up to the region alignment.
    std::int64_t touched_bytes(Tier tier) const { return touched_[static_cast<int>(tier)].load(); }
    // Bytes that set_* calls touch count as well.
    void note_touched(Tier tier, std::int64_t end_bytes);

  protected:
    // Every access passes here.
    virtual void note(const issue::IssuedOperation& issued, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
                      schedule::Access access);
    const schedule::Plan& plan() const { return plan_; }

  private:
    void* region(const issue::IssuedOperation& issued, schedule::RegionName name, std::int64_t bytes,
                 schedule::Access access);

    const schedule::Plan& plan_;
    Arenas arenas_;
    std::array<std::atomic<std::int64_t>, kTiers> touched_{};
};

}  // namespace oomb::trainer
