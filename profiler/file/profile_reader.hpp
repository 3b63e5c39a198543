#pragma once
// Reads a profile from begin to end in the memory of one block. The file is distrusted: every number is checked before
// it is used.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "profiler/file/profile_writer.hpp"

namespace oomb::profiler {

// What was wrong with a file that could be read all the same.
struct FileFaults {
    bool whole = false;                // the end block is there
    std::int64_t cut_bytes = 0;        // after the last whole block
    std::int64_t damaged_blocks = 0;   // a wrong checksum, or a record that cannot be: left out
    std::int64_t missing_records = 0;  // of those that the end block counts
    std::int64_t trailing_bytes = 0;   // after the end block
};

class ProfileReader {
  public:
    // Reads the header. Throws FileError: cannot be opened, is empty, is no profile, is of a newer version, or was cut
    // before its header ended.
    explicit ProfileReader(const std::filesystem::path& path);

    const SessionHeader& header() const { return header_; }
    // False at the end. Damaged blocks are left out and a cut end is dropped: faults() says so, and is complete only
    // after the end.
    bool next(Record& record);
    const FileFaults& faults() const { return faults_; }
    // Where the blocks of records end: begin of the end block, or of what was cut. Complete only after the end, as is
    // the number of records before.
    std::int64_t blocks_end() const { return blocks_end_; }
    std::int64_t records() const { return total_records_; }

  private:
    struct BlockHeader {
        BlockKind kind = BlockKind::kRecords;
        std::uint32_t payload_bytes = 0, records = 0, sum = 0;
    };
    enum class Block : std::uint8_t { kRead, kDamaged, kNone };

    std::size_t read(char* to, std::size_t bytes);
    Block read_block(BlockHeader& header);
    bool next_records();
    bool decode_block(std::uint32_t records);
    void read_header();
    void finish();

    std::filesystem::path path_;
    std::ifstream file_;
    SessionHeader header_;
    std::string payload_;
    std::vector<Record> records_;  // of the block
    std::size_t given_ = 0;
    std::int64_t total_records_ = 0;
    std::int64_t position_ = 0, blocks_end_ = 0;
    FileFaults faults_;
    bool ended_ = false;
};

}  // namespace oomb::profiler
