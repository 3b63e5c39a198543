#pragma once
// What keeps a process from pinning host memory, read before anything is touched.
//
// Memory is checked beforehand. `ulimit -l` is not: NVIDIA's driver does not count what it pins against it (driver 580:
// a process without rights pins 64 MiB under a limit of 64 KiB), so a check would refuse runs that work. It is named
// when the driver does refuse.

#include <cstdint>
#include <optional>

#include "runtime/core/memory_info.hpp"

namespace oomb::device {

struct HostLimits {
    HostMemory memory;                           // MemAvailable and the cgroups (version 1, 2) of this process
    std::optional<std::int64_t> lockable_bytes;  // `ulimit -l`; none: unlimited, or the process has CAP_IPC_LOCK
};

// Throws FileError when /proc/meminfo cannot be read.
HostLimits read_host_limits(const SystemPaths& paths = {});

// Throws DoesNotFitError that names the limit, what it leaves and what is asked.
void require_host_memory(std::int64_t bytes, const HostLimits& limits);

// What to add to the message of a failed registration: "" or a hint at `ulimit -l`.
std::string lock_hint(std::int64_t bytes, const HostLimits& limits);

}  // namespace oomb::device
