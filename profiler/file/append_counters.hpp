#pragma once
// Counters that were sampled beside a program, put into the recording of it.

#include <filesystem>

namespace oomb::profiler {

enum class CountersOf : std::uint8_t {
    kRun,     // from the begin of the recording on
    kWindow,  // from the first kernel, copy or memset of the recording to the end of the last
};

// Writes the counters and notes of the profile `from` behind the records of the profile `to`, in place: `to` can be
// read at every moment, what it had stays, and it is whole afterwards if it was before. Where it fails `to` is as
// before. Throws FileError: one of them cannot be read, `to` is damaged or still being written, or the disk is full.
void append_counters(const std::filesystem::path& to, const std::filesystem::path& from, CountersOf part);

}  // namespace oomb::profiler
