#pragma once
// A profile as the trace event format that Perfetto and chrome://tracing read.

#include <string>

#include "profiler/analysis/profile.hpp"

namespace oomb::profiler {

// A process per device, a track per stream; slices that overlap on one stream (graphs) get tracks of their own, for
// viewers drop what overlaps. Kernels carry the operation that launched them. NVTX ranges are a process of threads.
std::string chrome_trace(const Profile& profile);

// For each interval, in order of begin, the lowest lane that is free when it begins.
class Lanes {
  public:
    int place(std::int64_t begin_ns, std::int64_t end_ns);

  private:
    std::vector<std::int64_t> ends_;
};

}  // namespace oomb::profiler
