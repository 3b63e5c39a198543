#include "profiler/analysis/memory_use.hpp"

#include <doctest/doctest.h>

#include <map>

#include "profiler/report/report.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

Memory memory(std::int64_t at, bool allocates, MemoryKind kind, std::uint64_t address, std::int64_t bytes,
              std::uint32_t device = 0) {
    return {.at_ns = at,
            .allocates = static_cast<std::uint8_t>(allocates ? 1 : 0),
            .kind = kind,
            .address = address,
            .bytes = bytes,
            .place = {device, 1, 0}};
}

}  // namespace

TEST_CASE("memory in use: peak, when, kinds and devices apart, releases that nobody allocated") {
    const auto kDevice = MemoryKind::kDevice, kPinned = MemoryKind::kPinned;
    const Profile profile = profile_of({memory(30, false, kDevice, 0x10, 0),  // says no size: that of the allocation
                                        memory(10, true, kDevice, 0x10, 100), memory(20, true, kDevice, 0x20, 50),
                                        memory(40, true, kDevice, 0x30, 70), memory(50, false, kDevice, 0x99, 5),
                                        memory(15, true, kPinned, 0x1000, 8, 1), memory(25, true, kDevice, 0x40, 9, 1),
                                        memory(60, true, kDevice, 0x30, 10)});  // again: the first one is gone
    const MemoryUses uses = memory_use_of(profile);
    CHECK(uses.unknown_releases == 1);
    REQUIRE(uses.kinds.size() == 3);
    const MemoryUse& pinned = uses.kinds[0];
    CHECK(pinned.kind == kPinned);
    CHECK(pinned.device == 0);  // host memory is of no device
    CHECK(pinned.points == std::vector<MemoryUse::Point>{{15, 8}});
    const MemoryUse& device = uses.kinds[1];
    CHECK(device.kind == kDevice);
    CHECK(device.points == std::vector<MemoryUse::Point>{{10, 100}, {20, 150}, {30, 50}, {40, 120}, {60, 60}});
    CHECK(device.peak_bytes == 150);
    CHECK(device.peak_at_ns == 20);
    CHECK(device.allocations == 4);
    CHECK(device.releases == 2);
    CHECK(uses.kinds[2].device == 1);
    CHECK(uses.kinds[2].peak_bytes == 9);
}

TEST_CASE("memory in use: random allocations and releases against what is held") {
    Random random(3);
    for (int round = 0; round < 100; ++round) {
        std::map<std::uint64_t, std::int64_t> held;
        std::vector<Record> records;
        std::int64_t in_use = 0, peak = 0, unknown = 0;
        for (std::int64_t at = 1; at <= 80; ++at) {
            const auto address = static_cast<std::uint64_t>(random_below(random, 12)) + 1;
            const bool allocates = random_below(random, 2) == 0;
            const std::int64_t bytes = random_below(random, 1000) + 1;
            unknown += !allocates && !held.contains(address) ? 1 : 0;
            held.erase(address);
            if (allocates) {
                held[address] = bytes;
            }
            in_use = 0;
            for (const auto& [where, size] : held) {
                in_use += size;
            }
            peak = std::max(peak, in_use);
            records.push_back(memory(at, allocates, MemoryKind::kDevice, address, bytes));
        }
        const MemoryUses uses = memory_use_of(profile_of(records));
        REQUIRE(uses.kinds.size() == 1);
        CHECK(uses.unknown_releases == unknown);
        CHECK(uses.kinds[0].peak_bytes == peak);
        CHECK(uses.kinds[0].points.back().bytes == in_use);
    }
}

TEST_CASE("memory is in the table and in the JSON") {
    const Profile profile =
        profile_of({memory(5, true, MemoryKind::kDevice, 1, 3 << 20), StringRecord{1, "k"},
                    memory(6, false, MemoryKind::kPinned, 2, 1), Kernel{.begin_ns = 10, .end_ns = 20, .name = 1}});
    const std::string text = report_text(find(profile, {}), {});
    for (const char* part : {"device, device 0", "3.0 MiB", "before", "1 releases of memory from before"}) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, part, "\n", text);
    }
    const Json json = report_json(find(profile, {}))["memory"];
    CHECK(json["unknown_releases"] == 1);
    CHECK(json["kinds"][0]["peak_bytes"] == 3 << 20);
    CHECK(json["kinds"][0]["peak_at_ns"] == 5);
    CHECK(json["kinds"][0]["end_bytes"] == 3 << 20);
}

}  // namespace oomb::profiler
