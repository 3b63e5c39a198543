// Counters put into a recording: what it had stays, whatever happens.
#include "profiler/file/append_counters.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "runtime/core/error.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

constexpr std::int64_t kNoProcess = std::int64_t{1} << 30;  // beyond the numbers that Linux gives

SessionHeader header_of(std::int64_t process) {
    SessionHeader header = test_header();
    header.process = process;
    return header;
}

// Two kernels with names, from 10,000 to 30,000 ns.
void write_recording(const std::filesystem::path& path, bool close = true, std::int64_t process = kNoProcess) {
    ProfileWriter writer(path, header_of(process));
    writer.add(Kernel{.begin_ns = 10'000, .end_ns = 20'000, .name = writer.intern("first")});
    writer.flush();
    writer.add(Kernel{.begin_ns = 21'000, .end_ns = 30'000, .name = writer.intern("second")});
    writer.flush();
    if (close) {
        writer.close();
    }
}

// Samples of 1,000 ns from 0 on, the value is the number; and a note.
void write_counters(const std::filesystem::path& path, int samples) {
    ProfileWriter writer(path, header_of(7));
    for (std::int64_t i = 0; i < samples; ++i) {
        writer.add(Counter{.begin_ns = 1'000 * i,
                           .end_ns = 1'000 * (i + 1),
                           .device = 1,
                           .name = writer.intern("pcie__read_bytes.sum"),
                           .value = i});
    }
    writer.add(Note{writer.intern("said once")});
    writer.close();
}

void check_kernels(const Profile& profile) {
    REQUIRE(profile.kernels.size() == 2);
    CHECK(profile.text(profile.kernels[0].name) == "first");
    CHECK(profile.text(profile.kernels[1].name) == "second");
    CHECK(profile.file.cut_bytes == 0);
    CHECK(profile.file.damaged_blocks == 0);
    CHECK(profile.file.missing_records == 0);
    CHECK(profile.file.trailing_bytes == 0);
}

std::string message_of_append(const TemporaryPath& to, const TemporaryPath& from) {
    try {
        append_counters(to.get(), from.get(), CountersOf::kRun);
    } catch (const FileError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("counters and notes follow the records of a whole recording, which stays whole") {
    const TemporaryPath to, from;
    write_recording(to.get());
    write_counters(from.get(), 40);
    append_counters(to.get(), from.get(), CountersOf::kRun);
    const Profile profile = read_profile(to.get());
    check_kernels(profile);
    CHECK(profile.file.whole);
    CHECK(profile.header.command == "a program");
    CHECK(profile.notes == std::vector<std::string>{"said once"});
    REQUIRE(profile.counters.size() == 39);  // the recording began at 1,000 ns
    for (std::size_t i = 0; i < profile.counters.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i) + 1;
        CHECK(profile.counters[i] == Counter{.begin_ns = 1'000 * number,
                                             .end_ns = 1'000 * (number + 1),
                                             .device = 1,
                                             .name = profile.counters[0].name,
                                             .value = number});
    }
    CHECK(profile.text(profile.counters[0].name) == "pcie__read_bytes.sum");
}

TEST_CASE("an hour of counters takes many blocks") {
    const TemporaryPath to, from;
    write_recording(to.get());
    write_counters(from.get(), 1'000'000);
    append_counters(to.get(), from.get(), CountersOf::kRun);
    const Profile profile = read_profile(to.get());
    check_kernels(profile);
    CHECK(profile.file.whole);
    REQUIRE(profile.counters.size() == 999'999);
    CHECK(profile.counters.back().value == 999'999);
}

TEST_CASE("of a window: from its first work to the end of its last") {
    const TemporaryPath to, from;
    write_recording(to.get());
    write_counters(from.get(), 40);
    append_counters(to.get(), from.get(), CountersOf::kWindow);
    const Profile profile = read_profile(to.get());
    REQUIRE(profile.counters.size() == 20);
    CHECK(profile.counters.front().begin_ns == 10'000);
    CHECK(profile.counters.back().end_ns == 30'000);
    CHECK(profile.notes.size() == 1);
}

TEST_CASE("a window in which nothing ran has no counters") {
    const TemporaryPath to, from;
    ProfileWriter(to.get(), header_of(kNoProcess)).close();
    write_counters(from.get(), 40);
    append_counters(to.get(), from.get(), CountersOf::kWindow);
    const Profile profile = read_profile(to.get());
    CHECK(profile.counters.empty());
    CHECK(profile.notes.size() == 1);
    CHECK(profile.file.whole);
}

TEST_CASE("the recording of a killed program stays cut off, wherever it was cut") {
    const TemporaryPath from;
    write_counters(from.get(), 40);
    std::string bytes;
    {
        const TemporaryPath killed;
        write_recording(killed.get(), false);
        bytes = killed.bytes();
    }
    for (const std::string& rest : {std::string(), bytes.substr(16, 1), bytes.substr(16, 20), bytes.substr(16, 60)}) {
        CAPTURE(rest.size());
        const TemporaryPath to;
        to.write(bytes + rest);
        append_counters(to.get(), from.get(), CountersOf::kRun);
        const Profile profile = read_profile(to.get());
        check_kernels(profile);
        CHECK_FALSE(profile.file.whole);
        CHECK(profile.counters.size() == 39);
    }
}

TEST_CASE("a recording that is damaged or still being written is left as it is") {
    const TemporaryPath from;
    write_counters(from.get(), 40);
    const TemporaryPath to;
    write_recording(to.get());
    const std::string whole = to.bytes();
    const auto refused = [&](const std::string& bytes, const char* part) {
        to.write(bytes);
        CHECK(message_of_append(to, from).find(part) != std::string::npos);
        CHECK(to.bytes() == bytes);
    };
    std::string damaged = whole;
    damaged[damaged.size() - 30] = static_cast<char>(damaged[damaged.size() - 30] ^ 1);  // of the last block of records
    refused(damaged, "is damaged");
    refused(whole + "more", "is damaged");
    const TemporaryPath written;
    write_recording(written.get(), false, getpid());
    refused(written.bytes(), "still writes it");
}

TEST_CASE("a recording for whose counters there is no room is as before") {
    const TemporaryPath to, from;
    write_recording(to.get());
    write_counters(from.get(), 1'000'000);
    const std::string before = to.bytes();
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const rlimit small{.rlim_cur = before.size() + 3'000'000, .rlim_max = limit.rlim_max};
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string message = message_of_append(to, from);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK(message.find("writing failed") != std::string::npos);
    CHECK(to.bytes() == before);
}

TEST_CASE("counters that cannot be read change nothing") {
    const TemporaryPath to, from;
    write_recording(to.get());
    const std::string before = to.bytes();
    CHECK(message_of_append(to, from).find("cannot be opened") != std::string::npos);
    from.write("no profile");
    CHECK(message_of_append(to, from).find("is no profile") != std::string::npos);
    CHECK(to.bytes() == before);
}

}  // namespace oomb::profiler
