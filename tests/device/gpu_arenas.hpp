#pragma once
// A device, two arenas and an engine between them, for tests that move real bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/device/check.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/hbm_arena.hpp"
#include "runtime/device/host_arena.hpp"
#include "runtime/device/transfer_engine.hpp"

namespace oomb::device {

struct GpuArenas {
    explicit GpuArenas(std::int64_t bytes, std::int64_t piece_bytes = kGiB, const TransferOptions& transfer = {})
        : info(open_device()),
          hbm(bytes),
          host(bytes, options_of(info, piece_bytes)),
          engine(hbm.view(), host.view(), transfer) {}

    static HostArenaOptions options_of(const DeviceInfo& info, std::int64_t piece_bytes) {
        HostArenaOptions options;
        options.numa_node = info.numa_node;
        options.piece_bytes = piece_bytes;
        return options;
    }

    DeviceInfo info;
    HbmArena hbm;
    HostArena host;
    TransferEngine engine;
};

// The numbers 0 .. count - 1 in an order that depends on the seed.
inline std::vector<std::int64_t> shuffled(std::int64_t count, unsigned seed) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

inline void fill_random(std::byte* memory, std::int64_t bytes, unsigned seed) {
    std::mt19937_64 random(seed);
    std::generate(memory, memory + bytes, [&] { return static_cast<std::byte>(random()); });
}

}  // namespace oomb::device
