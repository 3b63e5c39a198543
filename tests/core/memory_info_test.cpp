#include "runtime/core/memory_info.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"

namespace oomb {

namespace {

// A machine of files: 8 GiB available unless a cgroup says less.
class Machine {
  public:
    explicit Machine(std::string_view cgroups) {
        folder_.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
        folder_.write("proc/self/cgroup", cgroups);
    }
    const Machine& with(std::string_view name, std::string_view text) const {
        folder_.write(std::filesystem::path("cgroup") / name, text);
        return *this;
    }
    SystemPaths paths() const { return {folder_.path() / "proc", folder_.path() / "cgroup"}; }
    HostMemory memory() const { return host_memory(paths()); }

  private:
    test::ScratchFolder folder_;
};

constexpr std::string_view kOneGiB = "1073741824\n";

}  // namespace

TEST_CASE("without a cgroup MemAvailable counts") {
    const Machine machine("");
    CHECK(machine.memory().available_bytes == 8 * kGiB);
    CHECK(machine.memory().limited_by.ends_with("meminfo"));
}

TEST_CASE("cgroup 2: limit minus usage, page cache that can go not counted") {
    const Machine machine("0::/work/job\n");
    CHECK(machine.memory().available_bytes == 8 * kGiB);  // the folder is absent
    machine.with("work/job/memory.max", "max\n").with("work/job/memory.current", kOneGiB);
    CHECK(machine.memory().available_bytes == 8 * kGiB);
    machine.with("work/job/memory.max", "4294967296\n");
    CHECK(machine.memory().available_bytes == 3 * kGiB);
    CHECK(machine.memory().limited_by.ends_with("cgroup/work/job/memory.max"));
    machine.with("work/job/memory.stat",
                 "anon 5\nworkingset_inactive_file 7\ninactive_file 536870912\nactive_file 9\n");
    CHECK(machine.memory().available_bytes == 3 * kGiB + kGiB / 2);
}

TEST_CASE("cgroup 2: a parent's limit counts too, and the root's in a container") {
    const Machine machine("0::/work/job\n");
    machine.with("work/job/memory.max", "4294967296\n").with("work/job/memory.current", kOneGiB);
    machine.with("work/memory.max", "2147483648\n").with("work/memory.current", kOneGiB);
    CHECK(machine.memory().available_bytes == kGiB);
    CHECK(machine.memory().limited_by.ends_with("cgroup/work/memory.max"));
    machine.with("memory.max", kOneGiB).with("memory.current", "2147483648\n");
    CHECK(machine.memory().available_bytes == 0);  // usage above the limit
}

TEST_CASE("cgroup 1: the memory controller's folder") {
    const Machine machine("12:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/elsewhere\n");
    machine.with("memory/docker/abc/memory.limit_in_bytes", "3221225472\n");
    machine.with("memory/docker/abc/memory.usage_in_bytes", "2147483648\n");
    CHECK(machine.memory().available_bytes == kGiB);
    machine.with("memory/docker/abc/memory.stat", "cache 1\ninactive_file 5\ntotal_inactive_file 1073741824\n");
    CHECK(machine.memory().available_bytes == 2 * kGiB);
    machine.with("memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");  // how version 1 says "no limit"
    CHECK(machine.memory().available_bytes == 8 * kGiB);
}

TEST_CASE("nonsense in the kernel's files is an error or passed over") {
    const test::ScratchFolder folder;
    CHECK_THROWS_AS(host_memory({folder.path(), folder.path()}), FileError);
    folder.write("meminfo", "MemTotal: 5 kB\n");
    test::check_contains(test::message_of<FileError>([&] {
                             host_memory({folder.path(), folder.path()});
                         }),
                         {"meminfo", "MemAvailable"});
    const Machine machine("garbage\n0:\n::\n0::/a\n");
    machine.with("a/memory.max", "lots\n").with("a/memory.current", "-3\n");
    CHECK(machine.memory().available_bytes == 8 * kGiB);
}

TEST_CASE("this process has a peak, and touching memory raises it") {
    const std::int64_t before = peak_resident_bytes();
    CHECK(before > kMiB);
    {
        const std::vector<char> touched(static_cast<std::size_t>(before + 64 * kMiB), 1);
        CHECK(touched.back() == 1);
    }
    // All of `touched` was resident at once; the kernel counts in batches, so allow it a MiB.
    CHECK(peak_resident_bytes() >= before + 63 * kMiB);
    CHECK(host_memory().available_bytes > 0);
}

}  // namespace oomb
