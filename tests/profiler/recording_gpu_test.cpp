// Recordings of known work: bytes and counts exactly, times as CUDA events have them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <set>

#include "profiler/analysis/call_sums.hpp"
#include "profiler/analysis/overlap.hpp"
#include "profiler/analysis/sums.hpp"
#include "profiler/record/session.hpp"
#include "runtime/core/error.hpp"
#include "tests/profiler/gpu_work.hpp"
#include "tests/profiler/recorded_program.hpp"

namespace oomb::profiler {
namespace {

// The part of a profile from the long kernel to the memset that follows it: what do_overlapping times. Copies of other
// work come behind that.
Profile from_the_long_kernel(const Profile& profile) {
    const auto longest =
        std::max_element(profile.kernels.begin(), profile.kernels.end(),
                         [](const auto& a, const auto& b) { return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns; });
    std::int64_t end_ns = std::numeric_limits<std::int64_t>::max();
    for (const Memset& memset : profile.memsets) {
        end_ns = memset.begin_ns > longest->end_ns ? std::min(end_ns, memset.begin_ns) : end_ns;
    }
    std::vector<Record> records{*longest};
    for (const Copy& copy : profile.copies) {
        if (copy.begin_ns > longest->begin_ns - 5'000'000 && copy.begin_ns < end_ns &&
            copy.kind == CopyKind::kHostToDevice) {
            records.emplace_back(copy);
        }
    }
    return profile_of(records);
}

void check_overlap(const Profile& profile, const KnownWork& work) {
    const std::vector<DeviceOverlap> devices = overlap_of(from_the_long_kernel(profile));
    REQUIRE(devices.size() == 1);
    const DirectionTime& in = devices[0].directions[static_cast<std::size_t>(CopyKind::kHostToDevice)];
    CHECK(in.copies == 16);
    const auto within_a_percent = [](std::int64_t found_ns, double seconds) {
        return std::abs(static_cast<double>(found_ns) * 1e-9 - seconds) <= 0.01 * seconds;
    };
    // Events stand outside of what they time, some microseconds of 40 ms and more.
    CHECK(within_a_percent(devices[0].compute_ns, work.compute_seconds));
    CHECK(within_a_percent(in.busy_ns, work.to_device_seconds));
    CHECK(within_a_percent(in.hidden_ns, work.hidden_seconds));
    CHECK(within_a_percent(in.exposed_ns, work.to_device_seconds - work.hidden_seconds));
    CHECK(work.hidden_seconds > 0.02);
    CHECK(work.to_device_seconds - work.hidden_seconds > 0.02);
}

// Steps first to last of do_steps and nothing else: launched within them, ended with them or later.
void check_steps(const Profile& profile, int first, int last) {
    const Sums sums = sums_of(profile);
    std::int64_t bytes = 0;
    for (int step = first; step <= last; ++step) {
        bytes += kStepBytes * step;
    }
    CHECK(profile.file.whole);
    CHECK(profile.faults.without_time == 0);
    // Between two steps of the window lies a kernel of none.
    CHECK(sums.kernels == 3 * (last - first + 1) + (last - first));
    CHECK(sums.bytes[static_cast<std::size_t>(CopyKind::kHostToDevice)] == bytes);
    CHECK_FALSE(profile.devices.empty());  // made at CUDA's start
    CHECK_FALSE(profile.memory.empty());
}

}  // namespace

TEST_CASE("injected: bytes exactly, overlap within 1 % of event timing") {
    const Recorded recorded = record("overlap");
    check_counts(recorded);
    check_overlap(*recorded.profile, {.compute_seconds = recorded.work["compute_seconds"].get<double>(),
                                      .to_device_seconds = recorded.work["to_device_seconds"].get<double>(),
                                      .hidden_seconds = recorded.work["hidden_seconds"].get<double>()});
    CHECK(recorded.profile->devices.size() >= 1);
    CHECK_FALSE(recorded.profile->synchronizations.empty());
    CHECK_FALSE(recorded.profile->memory.empty());
}

TEST_CASE("injected: batches of copies, threads, graphs") {
    check_counts(record("batches"));
    check_counts(record("threads"));
    check_counts(record("graphs"));
}

TEST_CASE("injected: work is attributed to the marked operations, and only then") {
    const Recorded recorded = record("marks", "--operations");
    check_counts(recorded);
    const auto sums = sums_by_operation(*recorded.profile);
    REQUIRE(sums);
    CHECK(sums->marked.kernels == 10);
    CHECK(sums->marked.copies == 5);
    CHECK(sums->marked.copy_bytes == 25'000);
    CHECK(sums->unmarked.kernels == 1);
    for (const Kernel& kernel : recorded.profile->kernels) {
        const auto id = recorded.profile->operation_of(kernel.correlation);
        CHECK((!id || id->part < 5));
    }
    CHECK_FALSE(recorded.profile->markers.empty());
    const Recorded without = record("marks");
    check_counts(without);
    CHECK_FALSE(sums_by_operation(*without.profile));
}

TEST_CASE("injected: a killed program's recording is readable") {
    const Recorded recorded = record("killed");
    INFO(recorded.output);
    CHECK(recorded.code == 128 + SIGKILL);
    REQUIRE(recorded.profile);
    CHECK_FALSE(recorded.profile->file.whole);
    CHECK(recorded.output.find("cut off") != std::string::npos);
    // Three seconds of work, of which what is complete is written every second.
    CHECK(std::ssize(recorded.profile->kernels) > recorded.number("kernels") / 3);
    CHECK(std::ssize(recorded.profile->kernels) <= recorded.number("kernels"));
}

TEST_CASE("a program that never touches CUDA: said, exit code 1") {
    const Recorded recorded = record("nothing");
    CHECK(recorded.code == 1);
    CHECK_FALSE(recorded.profile);
    CHECK(recorded.output.find("without touching CUDA") != std::string::npos);
}

TEST_CASE("injected: a window of steps, pushed, started or numbered") {
    const std::pair<const char*, const char*> programs[] = {
        {"pushed", " --step-range step"}, {"started", " --step-range step"}, {"numbered", ""}};
    for (const auto& [mode, flags] : programs) {
        for (const StepRange steps : {StepRange{1, 1}, StepRange{2, 4}, StepRange{6, 6}}) {
            const Recorded recorded = record(mode, "--steps " + to_text(steps) + flags);
            CAPTURE(mode);
            CAPTURE(to_text(steps));
            INFO(recorded.output);
            CHECK(recorded.code == 0);
            REQUIRE(recorded.profile);
            check_steps(*recorded.profile, static_cast<int>(steps.first), static_cast<int>(steps.last));
            CHECK(has_note(*recorded.profile, "only steps"));
        }
    }
    const Recorded never = record("pushed", "--steps 7:8 --step-range step");
    INFO(never.output);
    CHECK(never.code == 1);
    CHECK(never.output.find("the program came to step 6") != std::string::npos);
}

TEST_CASE("injected: a window of time") {
    const Recorded recorded = record("seconds", "--start-after 1 --seconds 1");
    INFO(recorded.output);
    CHECK(recorded.code == 0);
    REQUIRE(recorded.profile);
    const Profile& profile = *recorded.profile;
    CHECK(profile.file.whole);
    CHECK(profile.faults.without_time == 0);
    REQUIRE_FALSE(profile.kernels.empty());
    // The recorder's thread wakes up late by the time that switching takes, well below 0.1 s.
    const double span = 1e-9 * static_cast<double>(profile.kernels.back().end_ns - profile.kernels.front().begin_ns);
    CHECK(span > 0.9);
    CHECK(span < 1.1);
    CHECK(std::abs(1e-9 * static_cast<double>(profile.kernels.front().begin_ns - profile.header.begin_ns) - 1.0) < 0.2);
    CHECK(std::ssize(profile.kernels) < recorded.number("kernels") / 2);
    CHECK_FALSE(profile.devices.empty());
    CHECK(record("seconds", "--start-after 100").code == 1);
}

TEST_CASE("injected: calls beside the work that they launched") {
    const Recorded recorded = record("threads", "--api");
    check_counts(recorded);
    std::int64_t launches = 0;
    for (const NameSum& sum : sums_by_call(*recorded.profile)) {
        launches += sum.name.starts_with("cudaLaunchKernel") ? sum.count : 0;
    }
    CHECK(launches == recorded.number("kernels"));
    std::set<std::uint32_t> correlations;
    for (const ApiCall& call : recorded.profile->calls) {
        correlations.insert(call.correlation);
    }
    for (const Kernel& kernel : recorded.profile->kernels) {
        CHECK(correlations.contains(kernel.correlation));
    }
    CHECK(record("threads").profile->calls.empty());
}

TEST_CASE("linked: a window of steps, closed while the program goes on") {
    const TemporaryPath out;
    Session session({.out = out.get(),
                     .program = "test",
                     .command = "test",
                     .request = {.operations = true, .window = {.steps = StepRange{2, 3}}}});
    do_steps(5, StepRanges::kNumbered);
    do_for_seconds(static_cast<int>(Session::kMostDrain.count()) + 1);  // the file is closed by then, whatever happens
    const Profile before = read_profile(out.get());
    check_steps(before, 2, 3);
    session.finish();
    CHECK(read_profile(out.get()).kernels == before.kernels);
}

// The last case of this file: CUPTI stays in the process.
TEST_CASE("linked: the same, twice in one process, and never two at once") {
    for (int round = 0; round < 2; ++round) {
        const TemporaryPath out;
        Session session({.out = out.get(), .program = "test", .command = "test", .request = {.operations = true}});
        CHECK_THROWS_AS(Session({.out = out.get().string() + "2", .program = "", .command = ""}), Error);
        const KnownWork work = do_overlapping();
        const KnownWork marked = do_marked(3);
        session.finish();
        const Profile profile = read_profile(out.get());
        CHECK(profile.file.whole);
        CHECK_FALSE(profile.devices.empty());
        const Sums sums = sums_of(profile);
        CHECK(sums.kernels == work.kernels + marked.kernels);
        CHECK(sums.bytes[static_cast<std::size_t>(CopyKind::kHostToDevice)] ==
              work.to_device_bytes + marked.to_device_bytes);
        check_overlap(profile, work);
        const auto by_operation = sums_by_operation(profile);
        REQUIRE(by_operation);
        CHECK(by_operation->marked.kernels == 6);
    }
}

}  // namespace oomb::profiler
