#pragma once
// The two arenas of the CPU backend: host memory, of which one part plays the GPU's.

#include <memory>

#include "trainer/executor/hazard_checker.hpp"
#include "trainer/executor/planned_memory.hpp"

namespace oomb::trainer {

class CpuMemory : public PlannedMemory {
  public:
    // Reserves both arenas (mmap, touched lazily); DoesNotFitError when the system refuses. `checked`: every byte
    // starts as NaN, buffers become NaN again at the end of their lives, and unordered accesses throw.
    CpuMemory(const schedule::Plan& plan, bool checked);
    ~CpuMemory() override;

    void issued(const issue::IssuedOperation& operation);
    // After an operation: ends the lives it says (only when checked).
    void end_lives(const issue::IssuedOperation& issued);

  private:
    void note(const issue::IssuedOperation& issued, Tier tier, std::int64_t offset_bytes, std::int64_t bytes,
              schedule::Access access) override;

    std::unique_ptr<HazardChecker> checker_;
};

}  // namespace oomb::trainer
