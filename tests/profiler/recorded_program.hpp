#pragma once
// profiled_program, unchanged, recorded by `oomb-profile run`. OOMB_BIN says where the programs are.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "runtime/core/json.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {

inline std::string folder_of_tests() {
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
inline Recorded record(const std::string& mode, const std::string& flags = "") {
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

inline Sums sums_of(const Profile& profile) {
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

inline void check_counts(const Recorded& recorded) {
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

inline bool has_note(const Profile& profile, const std::string& part) {
    return std::any_of(profile.notes.begin(), profile.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace oomb::profiler
