#pragma once
// The two arenas of the CPU backend: host memory, of which one part plays the GPU's.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/plan.hpp"
#include "trainer/executor/hazard_checker.hpp"

namespace oomb::trainer {

class CpuMemory {
  public:
    // Reserves both arenas (mmap, touched lazily); DoesNotFitError when the system refuses. `checked`: every byte
    // starts as NaN, buffers become NaN again at the end of their lives, and unordered accesses throw.
    CpuMemory(const schedule::Plan& plan, bool checked);
    ~CpuMemory();
    CpuMemory(const CpuMemory&) = delete;
    CpuMemory& operator=(const CpuMemory&) = delete;

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
    std::byte* slab(Tier tier, PageClass page_class, std::size_t plane);
    std::int64_t plane_bytes(Tier tier, PageClass page_class, std::size_t plane) const;

    // From outside of operations, while idle.
    template <class T>
    T* idle(schedule::RegionName name) {
        return reinterpret_cast<T*>(arena(region_of(plan_.regions, name).tier) +
                                    region_of(plan_.regions, name).offset_bytes);
    }

    void issued(const issue::IssuedOperation& operation);
    // After an operation: ends the lives it says (only when checked).
    void end_lives(const issue::IssuedOperation& issued);
    std::int64_t touched_bytes(Tier tier) const { return touched_[static_cast<int>(tier)].load(); }
    // Bytes that set_* calls touch count as well.
    void note_touched(Tier tier, std::int64_t end_bytes);

  private:
    void* region(const issue::IssuedOperation& issued, schedule::RegionName name, std::int64_t bytes,
                 schedule::Access access);
    std::byte* arena(Tier tier) const { return arenas_[static_cast<int>(tier)]; }
    void note(const issue::IssuedOperation& issued, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
              schedule::Access access);

    const schedule::Plan& plan_;
    std::array<std::byte*, kTiers> arenas_{};
    std::array<std::atomic<std::int64_t>, kTiers> touched_{};
    std::unique_ptr<HazardChecker> checker_;
};

}  // namespace oomb::trainer
