#include "runtime/device/host_limits.hpp"

#include <sys/resource.h>

#include <charconv>
#include <string_view>

#include "runtime/core/error.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"

namespace oomb::device {

namespace {

// CAP_IPC_LOCK is what the kernel looks at; it need not be root's.
bool may_lock_anything(const SystemPaths& paths) {
    constexpr std::string_view kKey = "CapEff:\t";
    constexpr unsigned kIpcLock = 14;
    std::string status;
    try {
        status = read_text_file(paths.proc / "self" / "status", kMiB);
    } catch (const FileError&) {
        return false;
    }
    const std::size_t at = status.find(kKey);
    if (at == std::string::npos) {
        return false;
    }
    std::uint64_t capabilities = 0;
    const char* begin = status.data() + at + kKey.size();
    std::from_chars(begin, status.data() + status.size(), capabilities, 16);
    return ((capabilities >> kIpcLock) & 1) != 0;
}

}  // namespace

HostLimits read_host_limits(const SystemPaths& paths) {
    HostLimits limits{host_memory(paths), std::nullopt};
    rlimit locked{};
    const bool limited = getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY;
    if (limited && !may_lock_anything(paths)) {
        limits.lockable_bytes = static_cast<std::int64_t>(locked.rlim_cur);
    }
    return limits;
}

void require_host_memory(std::int64_t bytes, const HostLimits& limits) {
    if (bytes > limits.memory.available_bytes) {
        fail<DoesNotFitError>(
            "host memory: the run pins {}, but {} leaves {}: {} short; end other processes, raise the limit, or lower "
            "--host-memory or --context",
            format_bytes(bytes), limits.memory.limited_by, format_bytes(limits.memory.available_bytes),
            format_bytes_short(bytes - limits.memory.available_bytes));
    }
}

std::string lock_hint(std::int64_t bytes, const HostLimits& limits) {
    if (!limits.lockable_bytes || bytes <= *limits.lockable_bytes) {
        return "";
    }
    return fmt::format("; `ulimit -l` allows {} of locked memory and {} are asked: raise it (ulimit -l unlimited)",
                       format_bytes(*limits.lockable_bytes), format_bytes(bytes));
}

}  // namespace oomb::device
