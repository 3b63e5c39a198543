#include "runtime/device/host_limits.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"

namespace oomb::device {

namespace {

// Lowers `ulimit -l` for the time of a test; any process may.
class LowLockLimit {
  public:
    explicit LowLockLimit(std::int64_t bytes) {
        REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before_) == 0);
        rlimit lower = before_;
        lower.rlim_cur = std::min<rlim_t>(before_.rlim_max, static_cast<rlim_t>(bytes));
        REQUIRE(setrlimit(RLIMIT_MEMLOCK, &lower) == 0);
    }
    LowLockLimit(const LowLockLimit&) = delete;
    LowLockLimit& operator=(const LowLockLimit&) = delete;
    ~LowLockLimit() { setrlimit(RLIMIT_MEMLOCK, &before_); }

  private:
    rlimit before_{};
};

SystemPaths machine(const test::ScratchFolder& folder, std::string_view capabilities) {
    folder.write("proc/meminfo", "MemAvailable:    8388608 kB\n");
    folder.write("proc/self/status", fmt::format("Name:\tx\nCapEff:\t{}\nSeccomp:\t0\n", capabilities));
    return {folder.path() / "proc", folder.path() / "cgroup"};
}

}  // namespace

TEST_CASE("`ulimit -l` counts unless the process may lock anything") {
    const LowLockLimit limit(4 * kMiB);
    const test::ScratchFolder folder;
    const HostLimits plain = read_host_limits(machine(folder, "0000000000000000"));
    CHECK(plain.memory.available_bytes == 8 * kGiB);
    CHECK(plain.lockable_bytes == 4 * kMiB);
    const HostLimits other_rights = read_host_limits(machine(folder, "000001ffffffbfff"));  // all but bit 14
    CHECK(other_rights.lockable_bytes == 4 * kMiB);
    CHECK_FALSE(read_host_limits(machine(folder, "0000000000004000")).lockable_bytes);
}

TEST_CASE("a shortfall of memory names who limits, what is left and what is missing") {
    const HostLimits limits{{10 * kGiB, "/sys/fs/cgroup/memory.max"}, std::nullopt};
    CHECK_NOTHROW(require_host_memory(10 * kGiB, limits));
    test::check_contains(test::message_of<DoesNotFitError>([&] { require_host_memory(12 * kGiB, limits); }),
                         {"12.0 GiB (12,884,901,888 bytes)", "/sys/fs/cgroup/memory.max leaves 10.0 GiB",
                          "2.0 GiB short", "--host-memory"});
}

TEST_CASE("the hint at `ulimit -l` is given only where it is the smaller number") {
    const HostLimits limits{{10 * kGiB, "x"}, 8 * kMiB};
    CHECK(lock_hint(8 * kMiB, limits).empty());
    test::check_contains(lock_hint(9 * kMiB, limits), {"`ulimit -l` allows 8.0 MiB", "9.0 MiB"});
    CHECK(lock_hint(kGiB, {{10 * kGiB, "x"}, std::nullopt}).empty());
}

}  // namespace oomb::device
