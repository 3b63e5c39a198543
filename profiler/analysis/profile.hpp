#pragma once
// A profile in memory, ready to be looked at: records by kind and in order of time, names resolved, and what was odd
// about them counted.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/file/profile_reader.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::profiler {

// Counted over kernels, copies and memsets. Those without a usable time are in no list and no sum.
struct RecordFaults {
    std::int64_t without_time = 0;  // begin or end not known: had not ended when recording did
    std::int64_t reversed = 0;      // ends before it begins
    std::int64_t zero_length = 0;   // kept; takes no time
    std::int64_t out_of_order = 0;  // kept; begins before the one that the file has before it, on the same stream
    std::int64_t unnamed = 0;       // kernels whose name the file does not hold
};

struct Profile {
    SessionHeader header;
    FileFaults file;
    RecordFaults faults;
    Losses losses;
    std::vector<Device> devices;
    std::vector<Kernel> kernels;  // each list by begin
    std::vector<Copy> copies;
    std::vector<Memset> memsets;
    std::vector<Memory> memory;
    std::vector<Marker> markers;
    std::vector<Synchronization> synchronizations;
    std::vector<Overhead> overheads;
    std::vector<ApiCall> calls;        // that ended
    std::vector<Counter> counters;     // samples that cover a time
    std::vector<OperationMark> marks;  // by correlation, each once
    std::vector<std::string> strings;  // by StringId; 0 is empty
    std::vector<std::string> notes;
    bool kinds_match = true;  // the file's operations are numbered as this program numbers them

    std::string_view text(StringId id) const { return id < strings.size() ? strings[id] : std::string_view(); }
    // The operation of oomb-train that made the call; none outside of all, and where kinds do not match.
    std::optional<schedule::OperationId> operation_of(std::uint32_t correlation) const;
};

// Collects records in file order; `finish` sorts. For files use read_profile.
class ProfileBuilder {
  public:
    void add(Record record);
    Profile finish(SessionHeader header, const FileFaults& file);

  private:
    Profile profile_;
};

// Throws FileError where nothing can be told (ProfileReader says when).
Profile read_profile(const std::filesystem::path& path);

}  // namespace oomb::profiler
