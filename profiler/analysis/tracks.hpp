#pragma once
// A profile as tracks of slices over time, of which none overlaps another: viewers draw one thing at a place.

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "timeline/condense.hpp"

namespace oomb::profiler {

// A range of NVTX; an instant begins and ends at once.
struct Range {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t thread = 0;
    StringId name = 0, domain = 0;
};
// By begin, the outer ones first. Begin and end of a range have one id; one whose other half is not in the file is left
// out.
std::vector<Range> ranges_of(const Profile& profile);

enum class Work : std::uint8_t { kKernel, kCopy, kMemset, kRange };

struct Slice {
    std::int64_t begin_ns = 0, end_ns = 0;
    Work work = Work::kKernel;
    std::size_t index = 0;  // in the profile's list of that work; of ranges, in Tracks::ranges
};

struct Track {
    bool host = false;         // ranges
    std::uint32_t device = 0;  // of the others
    std::uint64_t number = 0;  // tracks of one number are lanes of the same thing
    int lane = 0;
    std::string name;                // "stream 7", "stream 7, lane 2", "thread 12 oomb"
    std::vector<Slice> slices = {};  // by begin
};

enum class TracksBy : std::uint8_t {
    kStream,  // all work of a stream
    kEngine,  // kernels by stream; copies by direction, and memsets, of a device
};

struct Tracks {
    std::vector<Range> ranges = {};
    std::vector<Track> all = {};  // devices in order, then the host
    std::int64_t slices = 0;
};
Tracks tracks_of(const Profile& profile, TracksBy by);

// For each interval, in order of begin, the lowest lane that is free when it begins.
class Lanes {
  public:
    int place(std::int64_t begin_ns, std::int64_t end_ns);

  private:
    std::vector<std::int64_t> ends_;
};

}  // namespace oomb::profiler
