#pragma once
// A part of a recording.

#include "profiler/analysis/profile.hpp"
#include "timeline/intervals.hpp"

namespace oomb::profiler {

// From the first begin to the last end of kernels, copies, memsets and NVTX markers; seconds of a recording are counted
// from its begin. Empty where there is nothing.
timeline::Interval recorded_time(const Profile& profile);

// Keeps what begins within the window, whole; of memory all that was before its end, for that is in use then.
void keep_window(Profile& profile, const timeline::Interval& window);

}  // namespace oomb::profiler
