#pragma once
// How much host memory this process may still take, and the most it has taken (Linux).

#include <cstdint>
#include <filesystem>
#include <string>

namespace oomb {

// Where the kernel's files are; tests put their own in place.
struct SystemPaths {
    std::filesystem::path proc = "/proc";
    std::filesystem::path cgroup = "/sys/fs/cgroup";
};

struct HostMemory {
    std::int64_t available_bytes = 0;
    std::string limited_by;  // the file that gave the least: "/proc/meminfo" or a cgroup's limit
};

// The least of MemAvailable and, for this process's cgroup and each above it (version 1 and 2), limit minus usage,
// where page cache that the kernel may drop (inactive_file) does not count as usage. A cgroup whose files are absent or
// hold no limit is passed over. Throws FileError when meminfo cannot be read.
HostMemory host_memory(const SystemPaths& paths = {});

// Most bytes that were resident at once in this process so far (VmHWM). Throws FileError when it cannot be read.
std::int64_t peak_resident_bytes(const SystemPaths& paths = {});

}  // namespace oomb
