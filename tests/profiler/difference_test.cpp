#include "profiler/analysis/difference.hpp"

#include <doctest/doctest.h>

#include "profiler/report/difference_report.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

struct Run {
    std::int64_t shared_ns = 0;  // of each of two launches of "shared"
    std::string other;           // one launch of 40 ns
    std::int64_t hidden_ns = 0;  // of a copy of 100 ns
};

Profile recorded(const Run& run) {
    std::vector<Record> records = {StringRecord{1, "shared"}, StringRecord{2, run.other}};
    const std::uint64_t attention = schedule::pack({.kind = schedule::Kind::kAttention});
    for (std::uint32_t call = 1; call <= 2; ++call) {
        records.push_back(OperationMark{call, attention});
        records.push_back(
            Kernel{.begin_ns = 1'000 * call, .end_ns = 1'000 * call + run.shared_ns, .correlation = call, .name = 1});
    }
    records.push_back(Kernel{.begin_ns = 5'000, .end_ns = 5'040, .correlation = 3, .name = 2});
    records.push_back(Copy{.begin_ns = 5'040 - run.hidden_ns,
                           .end_ns = 5'140 - run.hidden_ns,
                           .correlation = 4,
                           .kind = CopyKind::kDeviceToHost,
                           .bytes = 64});
    return profile_of(records);
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("kernels by name: the largest difference first, new and gone ones") {
    const ProfileDifference found = difference_of(recorded({100, "old", 10}), recorded({150, "fresh", 30}));
    REQUIRE(found.kernels.size() == 3);
    CHECK(found.kernels[0].before.name == "shared");
    CHECK(found.kernels[0].before.count == 2);
    CHECK(found.kernels[0].before.total_ns == 200);
    CHECK(found.kernels[0].after.total_ns == 300);
    CHECK(found.kernels[1].before.name == "fresh");
    CHECK(found.kernels[1].before.count == 0);
    CHECK(found.kernels[2].after.name == "old");
    CHECK(found.kernels[2].after.count == 0);
    CHECK(found.kinds.at(schedule::Kind::kAttention).before.kernel_ns == 200);
    CHECK(found.kinds.at(schedule::Kind::kAttention).after.kernel_ns == 300);
    const auto copies = static_cast<std::size_t>(CopyKind::kDeviceToHost);
    CHECK(found.devices.at(0).before.directions[copies].hidden_ns == 10);
    CHECK(found.devices.at(0).after.directions[copies].hidden_ns == 30);
    CHECK(notes_of(found).empty());
    const std::string text = difference_text(found, 2);
    for (const char* part : {"+50.0 %", "+100 ns", "new", "and 1 more names", "+20.0 pts", "attention", "10.0 %"}) {
        CHECK_MESSAGE(contains(text, part), part, "\n", text);
    }
    CHECK(contains(difference_text(found, 3), "gone"));
    const Json json = difference_json(found);
    CHECK(json["kernels"][0]["difference_ns"] == 100);
    CHECK(json["devices"][0]["after"]["copies"]["device to host"]["hidden_ns"] == 30);
    CHECK(json["kinds"]["attention"]["before"]["kernel_ns"] == 200);
}

TEST_CASE("a recording against itself: nothing changed") {
    const Profile profile = recorded({100, "old", 10});
    const ProfileDifference found = difference_of(profile, profile);
    for (const auto& kernel : found.kernels) {
        CHECK(kernel.before.total_ns == kernel.after.total_ns);
        CHECK(kernel.before.count == kernel.after.count);
    }
    CHECK(found.steps.before == found.steps.after);
    CHECK(notes_of(found).empty());
}

TEST_CASE("two programs, or other numbers of steps: said") {
    const Profile profile = recorded({100, "old", 10});
    const ProfileDifference other = difference_of(
        profile, profile_of({StringRecord{1, "stranger"}, Kernel{.begin_ns = 1, .end_ns = 2, .name = 1}}));
    CHECK(other.kinds.empty());
    const std::vector<std::string> notes = notes_of(other);
    REQUIRE(notes.size() == 2);
    CHECK(contains(notes[0], "one has 1 steps"));
    CHECK(contains(notes[1], "no kernel in common"));
    CHECK(difference_of(profile_of({}), profile_of({})).devices.empty());
}

}  // namespace oomb::profiler
