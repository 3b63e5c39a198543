#pragma once
// A timeline as one HTML page that needs nothing else: no network, no other file.

#include <cstdint>
#include <string>

#include "timeline/timeline.hpp"

namespace oomb::timeline {

struct ReportText {
    std::string title;  // "Qwen2.5-7B, 128K tokens"
    std::string facts;  // a line on what was run
};

inline constexpr std::int64_t kMostDrawnSlices = 40'000;  // some 2 MB of page

std::string html_report(const Timeline& timeline, const ReportText& text);

}  // namespace oomb::timeline
