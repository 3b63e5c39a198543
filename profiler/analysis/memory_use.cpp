#include "profiler/analysis/memory_use.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace oomb::profiler {
namespace {

class Uses {
  public:
    void allocate(const Memory& memory) {
        release(memory);
        MemoryUse& use = use_of(memory);
        use.allocations += 1;
        add(use, memory.at_ns, memory.bytes);
        held_[memory.address] = {&use, memory.bytes};
    }

    // False: nothing is known of the address.
    bool release(const Memory& memory) {
        const auto found = held_.find(memory.address);
        if (found == held_.end()) {
            return false;
        }
        found->second.use->releases += 1;
        add(*found->second.use, memory.at_ns, -found->second.bytes);
        held_.erase(found);
        return true;
    }

    std::vector<MemoryUse> finish() {
        std::vector<MemoryUse> list;
        for (auto& [key, use] : uses_) {
            list.push_back(std::move(use));
        }
        return list;
    }

  private:
    struct Held {
        MemoryUse* use;
        std::int64_t bytes;
    };

    MemoryUse& use_of(const Memory& memory) {
        const std::uint32_t device = of_device(memory.kind) ? memory.place.device : 0;
        MemoryUse& use = uses_[{device, memory.kind}];  // stays where it is
        use.kind = memory.kind;
        use.device = device;
        return use;
    }

    static void add(MemoryUse& use, std::int64_t at_ns, std::int64_t bytes) {
        const std::int64_t before = use.points.empty() ? 0 : use.points.back().bytes;
        const std::int64_t now = bytes > 0 ? add_clamped(before, bytes) : std::max<std::int64_t>(0, before + bytes);
        if (!use.points.empty() && use.points.back().at_ns == at_ns) {
            use.points.back().bytes = now;
        } else {
            use.points.push_back({at_ns, now});
        }
        if (now > use.peak_bytes) {
            use.peak_bytes = now;
            use.peak_at_ns = at_ns;
        }
    }

    std::map<std::pair<std::uint32_t, MemoryKind>, MemoryUse> uses_;
    std::unordered_map<std::uint64_t, Held> held_;  // by address
};

}  // namespace

bool of_device(MemoryKind kind) {
    return kind == MemoryKind::kDevice || kind == MemoryKind::kArray || kind == MemoryKind::kDeviceStatic;
}

MemoryUses memory_use_of(const Profile& profile) {
    Uses uses;
    MemoryUses found;
    for (const Memory& memory : profile.memory) {
        if (memory.allocates != 0) {
            uses.allocate(memory);
        } else if (!uses.release(memory)) {
            found.unknown_releases += 1;
        }
    }
    found.kinds = uses.finish();
    return found;
}

}  // namespace oomb::profiler
