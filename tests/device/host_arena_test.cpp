#include "runtime/device/host_arena.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "runtime/device/check.hpp"
#include "tests/core/messages.hpp"

namespace oomb::device {

namespace {

// Stands for the driver: notes what is pinned and refuses when told to.
struct Driver {
    std::vector<std::pair<std::byte*, std::size_t>> pinned;
    int calls = 0;
    int fail_at = -1;
    cudaError_t failure = cudaSuccess;
};
Driver driver;

cudaError_t pin(void* memory, std::size_t bytes, unsigned) {
    if (driver.calls++ == driver.fail_at) {
        return driver.failure;
    }
    driver.pinned.emplace_back(static_cast<std::byte*>(memory), bytes);
    return cudaSuccess;
}

cudaError_t unpin(void* memory) {
    const auto piece = std::ranges::find(driver.pinned, memory, [](const auto& entry) -> void* { return entry.first; });
    if (piece == driver.pinned.end()) {
        return cudaErrorHostMemoryNotRegistered;
    }
    driver.pinned.erase(piece);
    return cudaSuccess;
}

HostArenaOptions options(int threads = 3) {
    driver = {};
    HostArenaOptions result;
    result.threads = threads;
    result.piece_bytes = 2 * kMiB;
    result.calls = {pin, unpin};
    return result;
}

const HostLimits kPlenty{{kTiB, "/proc/meminfo"}, std::nullopt};

bool mapped(const std::byte* address) {
    std::vector<unsigned char> resident(1);
    return mincore(const_cast<std::byte*>(address), 1, resident.data()) == 0;
}

bool all_resident(const std::byte* base, std::int64_t bytes) {
    std::vector<unsigned char> resident(static_cast<std::size_t>((bytes + 4095) / 4096));
    return mincore(const_cast<std::byte*>(base), static_cast<std::size_t>(bytes), resident.data()) == 0 &&
           std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

TEST_CASE("an arena of an odd size is resident, zeroed, pinned piece by piece without a gap, and undone") {
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{4097}, 5 * kMiB + 123, 36 * kMiB - 1}) {
        const std::byte* base = nullptr;
        {
            const HostArena arena(bytes, options(), kPlenty);
            base = arena.view().base;
            CHECK(arena.bytes() == bytes);
            CHECK(reinterpret_cast<std::uintptr_t>(base) % (2 * kMiB) == 0);
            CHECK(all_resident(base, bytes));
            CHECK(std::all_of(base, base + bytes, [](std::byte value) { return value == std::byte{0}; }));
            std::int64_t covered = 0;
            for (const auto& [memory, count] : driver.pinned) {
                CHECK(memory == base + covered);
                covered += static_cast<std::int64_t>(count);
            }
            CHECK(covered == bytes);
        }
        CHECK(driver.pinned.empty());
        CHECK_FALSE(mapped(base));
    }
}

TEST_CASE("the mapping holds the bytes asked and no page more") {
    const HostMapping mapping(3 * kMiB + 1, -1);
    CHECK(mapped(mapping.base() + 3 * kMiB));
    CHECK(mapping.bytes() == 3 * kMiB + 1);
    CHECK_FALSE(mapping.on_numa_node());
}

TEST_CASE("pieces larger than a step of the threads are waited for as a whole") {
    const std::int64_t bytes = 70 * kMiB + 5;
    const HostMapping mapping(bytes, 0);
    ParallelTouch touch(mapping.base(), bytes, 40 * kMiB, 4);
    touch.wait_piece(0);
    CHECK(all_resident(mapping.base(), 40 * kMiB));
    touch.wait_piece(1);
    CHECK(all_resident(mapping.base(), bytes));
}

TEST_CASE("stopping the threads early returns") {
    const HostMapping mapping(64 * kMiB, -1);
    const ParallelTouch touch(mapping.base(), mapping.bytes(), kMiB, 2);
}

TEST_CASE("progress rises to the end") {
    HostArenaOptions with = options();
    std::vector<std::int64_t> seen;
    with.progress = [&](std::int64_t done, std::int64_t total) {
        CHECK(total == 5 * kMiB);
        seen.push_back(done);
    };
    const HostArena arena(5 * kMiB, with, kPlenty);
    CHECK(seen == std::vector<std::int64_t>{2 * kMiB, 4 * kMiB, 5 * kMiB});
}

TEST_CASE("a shortfall is named before anything is pinned") {
    const HostLimits limits{{kMiB, "/sys/fs/cgroup/memory.max"}, std::nullopt};
    const std::string message = test::message_of<DoesNotFitError>([&] { HostArena(2 * kMiB, options(), limits); });
    test::check_contains(message, {"/sys/fs/cgroup/memory.max", "1.0 MiB"});
    CHECK(driver.calls == 0);
}

TEST_CASE("when the driver refuses a piece, those before it are given back") {
    HostArenaOptions failing = options();
    driver.fail_at = 2;
    driver.failure = cudaErrorMemoryAllocation;
    const HostLimits limits{{kTiB, "x"}, kMiB};
    const std::string message = test::message_of<DoesNotFitError>([&] { HostArena(9 * kMiB, failing, limits); });
    test::check_contains(message, {"refused to pin more than 4.0 MiB", "of 9.0 MiB", "`ulimit -l` allows 1.0 MiB"});
    CHECK(driver.calls == 3);
    CHECK(driver.pinned.empty());
}

TEST_CASE("another failure is a CUDA error") {
    HostArenaOptions failing = options();
    driver.fail_at = 0;
    driver.failure = cudaErrorInvalidValue;
    const std::string message = test::message_of<CudaError>([&] { HostArena(kMiB, failing, kPlenty); });
    test::check_contains(message, {"cudaHostRegister", "cudaErrorInvalidValue"});
}

}  // namespace oomb::device
