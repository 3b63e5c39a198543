// Recordings of known work: bytes and counts exactly, times as CUDA events have them. The program recorded is
// profiled_program, unchanged; `oomb-profile run` puts the recorder into it. OOMB_BIN says where the programs are.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>

#include "profiler/analysis/call_sums.hpp"
#include "profiler/analysis/overlap.hpp"
#include "profiler/analysis/sums.hpp"
#include "profiler/record/session.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "tests/profiler/fabricated.hpp"
#include "tests/profiler/gpu_work.hpp"

namespace oomb::profiler {
namespace {

std::string folder_of_tests() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

struct Recorded {
    int code = 0;
    std::string output;  // both streams
    Json work;           // what the program says of itself; null if it said nothing
    std::optional<Profile> profile;

    std::int64_t number(const char* key) const { return work.at(key).get<std::int64_t>(); }
};

// The shell's words around the program's name stay out of it.
Recorded record(const std::string& mode, const std::string& flags = "") {
    const TemporaryPath out;
    const char* bin = std::getenv("OOMB_BIN");
    const std::string command = std::string(bin == nullptr ? "build/bin" : bin) + "/oomb-profile run " + flags +
                                " --out " + out.get().string() + " -- " + folder_of_tests() +
                                "/oomb_profiled_program " + mode + " 2>&1";
    Recorded recorded;
    FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    char line[4096];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
        recorded.output += line;
        if (line[0] == '{') {
            recorded.work = Json::parse(line);
        }
    }
    const int status = pclose(pipe);
    recorded.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (std::filesystem::exists(out.get())) {
        recorded.profile = read_profile(out.get());
    }
    return recorded;
}

struct Sums {
    std::int64_t kernels = 0, memset_bytes = 0;
    std::array<std::int64_t, kCopyKinds> pieces{}, bytes{};
};

Sums sums_of(const Profile& profile) {
    Sums sums{.kernels = std::ssize(profile.kernels)};
    for (const Memset& memset : profile.memsets) {
        sums.memset_bytes += memset.bytes;
    }
    for (const Copy& copy : profile.copies) {
        sums.pieces[static_cast<std::size_t>(copy.kind)] += copy.pieces;
        sums.bytes[static_cast<std::size_t>(copy.kind)] += copy.bytes;
    }
    return sums;
}

void check_counts(const Recorded& recorded) {
    INFO(recorded.output);
    REQUIRE(recorded.code == 0);
    REQUIRE(recorded.profile);
    const Sums sums = sums_of(*recorded.profile);
    CHECK(recorded.profile->file.whole);
    CHECK(recorded.profile->losses == Losses{});
    CHECK(recorded.profile->faults.without_time == 0);
    CHECK(recorded.profile->faults.unnamed == 0);
    CHECK(sums.kernels == recorded.number("kernels"));
    CHECK(sums.memset_bytes == recorded.number("memset_bytes"));
    constexpr auto kIn = static_cast<std::size_t>(CopyKind::kHostToDevice);
    constexpr auto kOut = static_cast<std::size_t>(CopyKind::kDeviceToHost);
    CHECK(sums.pieces[kIn] == recorded.number("to_device"));
    CHECK(sums.bytes[kIn] == recorded.number("to_device_bytes"));
    CHECK(sums.pieces[kOut] == recorded.number("to_host"));
    CHECK(sums.bytes[kOut] == recorded.number("to_host_bytes"));
}

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

bool has_note(const Profile& profile, const std::string& part) {
    return std::any_of(profile.notes.begin(), profile.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
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

TEST_CASE("injected: counters beside the records, or one line about why there are none") {
    const Recorded recorded = record("copies", "--counters");
    check_counts(recorded);
    const Profile& profile = *recorded.profile;
    if (has_note(profile, "counters are not sampled")) {
        MESSAGE(recorded.output);
        CHECK(profile.counters.empty());
        return;
    }
    // Sampling begins some hundred milliseconds after the first context.
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max(), end_ns = 0;
    double read = 0;
    for (const Counter& counter : profile.counters) {
        if (profile.text(counter.name) == "pcie__read_bytes.sum") {
            begin_ns = std::min(begin_ns, counter.begin_ns);
            end_ns = std::max(end_ns, counter.end_ns);
            read += static_cast<double>(counter.value);
        }
    }
    REQUIRE(end_ns - begin_ns > 1'000'000'000);
    double copied = 0;
    for (const Copy& copy : profile.copies) {
        const auto within = static_cast<double>(
            std::max<std::int64_t>(0, std::min(copy.end_ns, end_ns) - std::max(copy.begin_ns, begin_ns)));
        copied += static_cast<double>(copy.bytes) * within / static_cast<double>(copy.end_ns - copy.begin_ns);
    }
    // Beside what was copied the GPU reads commands, some MB/s. A sample covers a millisecond of more than 1,000.
    CHECK(read > 0.98 * copied);
    CHECK(read < 1.02 * copied);
}

// The program ends while sampling is being prepared.
TEST_CASE("injected: counters of a program of 0.2 s: it ends as it would without") {
    check_counts(record("overlap", "--counters"));
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
