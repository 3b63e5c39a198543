#pragma once
// A profile as one HTML page (timeline/page.hpp): overlap per device, the timeline, memory in use, kernels, operations,
// gaps.

#include <string>

#include "profiler/report/report.hpp"
#include "timeline/intervals.hpp"

namespace oomb::profiler {

// `shown` is the time that the page covers; times are counted from `zero_ns`.
std::string html_report(const Findings& findings, const timeline::Interval& shown, std::int64_t zero_ns);

}  // namespace oomb::profiler
