#pragma once
// A profile as the trace event format that Perfetto and chrome://tracing read.

#include <cstdint>
#include <string>

#include "profiler/analysis/profile.hpp"

namespace oomb::profiler {

inline constexpr std::int64_t kMostChromeSlices = 200'000;  // some 50 MB

struct ChromeTrace {
    std::string text;  // JSON
    std::int64_t slices = 0, written = 0;
    std::int64_t resolution_ns = 0;  // what is shorter was joined; 0: every slice is there
};

// A process per device, a track per stream; slices that overlap on one stream (graphs) get tracks of their own, for
// viewers drop what overlaps. Kernels carry the operation that launched them. NVTX ranges are a process of threads, and
// so are calls of CUDA's API; counters are those of their device. Times are counted from `zero_ns`. Where there are
// more than about `most` slices, neighbours on a track that are shorter than the resolution are joined to "12 slices",
// with the time that they were busy, and shorter calls are left out; the metadata say so.
ChromeTrace chrome_trace(const Profile& profile, std::int64_t zero_ns, std::int64_t most);

}  // namespace oomb::profiler
