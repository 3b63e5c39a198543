#pragma once
// A timeline as one HTML page (page.hpp).

#include <string>

#include "timeline/timeline.hpp"

namespace oomb::timeline {

struct ReportText {
    std::string title;  // "Qwen2.5-7B, 128K tokens"
    std::string facts;  // a line on what was run
};

std::string html_report(const Timeline& timeline, const ReportText& text);

}  // namespace oomb::timeline
