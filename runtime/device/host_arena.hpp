#pragma once
// The pinned host memory of a run: mapped, made resident and registered once, before the first step.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/core/units.hpp"
#include "runtime/device/arena_view.hpp"
#include "runtime/device/host_limits.hpp"
#include "runtime/device/host_mapping.hpp"

namespace oomb::device {

// How memory is pinned; tests put their own in place.
struct PinCalls {
    cudaError_t (*pin)(void* memory, std::size_t bytes, unsigned flags) = cudaHostRegister;
    cudaError_t (*unpin)(void* memory) = cudaHostUnregister;
};

struct HostArenaOptions {
    int numa_node = -1;  // DeviceInfo::numa_node
    int threads = 0;     // that touch; 0: the cores there are, 16 at most
    // Registered at a time, so that progress shows and the first pieces are pinned while the last are being touched.
    std::int64_t piece_bytes = kGiB;
    std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)>
        progress;  // called by the constructing thread
    PinCalls calls;
};

// Exactly the bytes asked (rounded to 4 KiB pages), aligned to 2 MiB, zeroed, undone on destruction.
class HostArena {
  public:
    // Checks `limits` before anything is touched. Throws DoesNotFitError for a shortfall or when the driver cannot pin,
    // with what was pinned undone; CudaError for the rest. Needs a current device.
    explicit HostArena(std::int64_t bytes, const HostArenaOptions& options = {},
                       const HostLimits& limits = read_host_limits());

    const ArenaView& view() const { return view_; }
    std::int64_t bytes() const { return view_.bytes; }
    bool on_numa_node() const { return mapping_.on_numa_node(); }

  private:
    // The registered pieces, given back in reverse.
    class Pins {
      public:
        Pins(const PinCalls& calls, std::int64_t pieces);
        ~Pins();
        Pins(const Pins&) = delete;
        Pins& operator=(const Pins&) = delete;
        cudaError_t add(std::byte* memory, std::int64_t bytes);

      private:
        PinCalls calls_;
        std::vector<std::byte*> pieces_;
    };

    HostMapping mapping_;
    Pins pins_;  // behind the mapping: destroyed before it
    ArenaView view_;
};

}  // namespace oomb::device
