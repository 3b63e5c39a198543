#pragma once
// The GPU memory of a run: one allocation, made before the first step.

#include <cstdint>
#include <memory>

#include "runtime/device/arena_view.hpp"

namespace oomb::device {

class HbmArena {
  public:
    // cudaMalloc of exactly `bytes`, aligned to 256. Throws DoesNotFitError with asked, free and total bytes when the
    // driver has not as much; CudaError for anything else. The contents are undefined.
    explicit HbmArena(std::int64_t bytes);

    const ArenaView& view() const { return view_; }
    std::int64_t bytes() const { return view_.bytes; }

  private:
    struct Free {
        void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory_;
    ArenaView view_;
};

}  // namespace oomb::device
