#pragma once
// Writes a profile while a program runs: at most one block is held in memory, and what a killed program leaves is
// readable up to the last flush.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "profiler/file/wire.hpp"

namespace oomb::profiler {

// What the first block says (as JSON). Unknown numbers are 0.
struct SessionHeader {
    std::string program;  // who recorded: "oomb-profile 0.1.0 (commit)"
    std::string command;  // what was recorded
    std::int64_t process = 0;
    std::int64_t begin_ns = 0;                      // of the recording
    std::int64_t cupti_version = 0;                 // 130001
    std::int64_t driver_version = 0;                // 13000: CUDA 13.0
    std::vector<std::string> operation_kinds = {};  // names of the numbers in OperationMark

    bool operator==(const SessionHeader&) const = default;
};

// Where a file without damage goes on: behind its last block of records.
struct ProfileEnd {
    std::int64_t at_byte = 0;
    std::int64_t records = 0;  // before
    StringId last_string = 0;
};

class ProfileWriter {
  public:
    // Throws FileError when the file exists or cannot be created. Writes the header at once; no file
    // is left where that fails.
    ProfileWriter(const std::filesystem::path& path, const SessionHeader& header);
    // Goes on with a file that nobody else writes; what it has from `end` on is cut off at once. Texts of before are
    // not known: intern() writes them again.
    ProfileWriter(const std::filesystem::path& path, const ProfileEnd& end);
    ProfileWriter(const ProfileWriter&) = delete;
    ProfileWriter& operator=(const ProfileWriter&) = delete;
    ~ProfileWriter();  // closes the file as it is: only `close` says that it is whole

    // The number that stands for a text, from 1 on; writes its record when it is new. After kMostStrings texts all new
    // ones are one, "(more names than a profile holds)": a program that makes up names may not grow memory for ever.
    StringId intern(std::string_view text);
    // Of any kind but StringRecord. Throws FileError when the disk is full, as all of these do.
    void add(const Record& record);
    void flush();
    void close();  // with the block that says "whole"; syncs

    std::int64_t written_bytes() const { return written_bytes_; }

    static constexpr std::int64_t kMostStrings = 100'000;

  private:
    template <class R>
    void append(const R& record);
    void write_block(BlockKind kind, std::string_view payload, std::uint32_t records);
    void write(std::string_view bytes);

    std::filesystem::path path_;
    int fd_ = -1;
    std::int64_t written_bytes_ = 0;
    std::int64_t total_records_ = 0;
    std::string block_;
    std::uint32_t block_records_ = 0;
    Previous previous_{};
    StringId last_string_ = 0;  // of before
    std::unordered_map<std::string, StringId> strings_;
};

}  // namespace oomb::profiler
