#include "runtime/core/memory_info.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"

namespace oomb {

namespace {

constexpr std::int64_t kMaxFileBytes = kMiB;

// The files of a memory cgroup.
struct CgroupFiles {
    std::string_view limit;
    std::string_view usage;
    std::string_view reclaimable;  // key in memory.stat
};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0) {
        return std::nullopt;
    }
    return number;
}

// The number after `key` at the beginning of a line.
std::optional<std::int64_t> find_number(std::string_view text, std::string_view key) {
    for (const std::string_view line : lines_of(text)) {
        if (line.starts_with(key)) {
            return parse_number(line.substr(key.size()));
        }
    }
    return std::nullopt;
}

std::optional<std::string> try_read(const std::filesystem::path& path) {
    try {
        return read_text_file(path, kMaxFileBytes);
    } catch (const FileError&) {
        return std::nullopt;  // absent or not ours to read: the caller passes it over
    }
}

std::int64_t read_kilobytes(const std::filesystem::path& path, std::string_view key) {
    const std::optional<std::int64_t> number = find_number(read_text_file(path, kMaxFileBytes), key);
    if (!number || *number > (std::int64_t{1} << 52)) {
        fail<FileError>("{}: has no usable line \"{} <number> kB\"", path.string(), key);
    }
    return *number * kKiB;
}

// Bytes that the cgroup in `folder` may still take, if it has a limit.
std::optional<std::int64_t> left_in(const std::filesystem::path& folder, const CgroupFiles& files) {
    const auto limit_text = try_read(folder / files.limit);
    const auto usage_text = try_read(folder / files.usage);
    if (!limit_text || !usage_text) {
        return std::nullopt;
    }
    const auto limit = parse_number(*limit_text);  // "max" is no number
    const auto usage = parse_number(*usage_text);
    if (!limit || !usage) {
        return std::nullopt;
    }
    const auto stat = try_read(folder / "memory.stat");
    const std::int64_t cache = stat ? find_number(*stat, fmt::format("{} ", files.reclaimable)).value_or(0) : 0;
    const std::int64_t used = std::max<std::int64_t>(*usage - std::min(cache, *usage), 0);
    return std::max<std::int64_t>(*limit - used, 0);
}

// Lowers `memory` by the limits of `path` (as in /proc/self/cgroup) and of every cgroup above it below `root`.
void apply_cgroup(HostMemory& memory, const std::filesystem::path& root, std::filesystem::path path,
                  const CgroupFiles& files) {
    path = path.relative_path();
    for (;;) {
        const std::filesystem::path folder = path.empty() ? root : root / path;
        const std::optional<std::int64_t> left = left_in(folder, files);
        if (left && *left < memory.available_bytes) {
            memory = {*left, (folder / files.limit).string()};
        }
        if (path.empty()) {
            return;
        }
        path = path.parent_path();
    }
}

bool names_memory(std::string_view controllers) {
    return fmt::format(",{},", controllers).find(",memory,") != std::string::npos;
}

}  // namespace

HostMemory host_memory(const SystemPaths& paths) {
    const std::filesystem::path meminfo = paths.proc / "meminfo";
    HostMemory memory{read_kilobytes(meminfo, "MemAvailable:"), meminfo.string()};
    const std::string memberships = try_read(paths.proc / "self" / "cgroup").value_or("");
    for (const std::string_view line : lines_of(memberships)) {  // "<id>:<controllers>:<path>"
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) {
            continue;
        }
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::filesystem::path path = line.substr(second + 1);
        if (controllers.empty()) {
            apply_cgroup(memory, paths.cgroup, path, kVersion2);
        } else if (names_memory(controllers)) {
            apply_cgroup(memory, paths.cgroup / "memory", path, kVersion1);
        }
    }
    return memory;
}

std::int64_t peak_resident_bytes(const SystemPaths& paths) {
    return read_kilobytes(paths.proc / "self" / "status", "VmHWM:");
}

}  // namespace oomb
