#pragma once
// timeline/report.html, built into the program.

#include <string_view>

namespace oomb::timeline {

extern const std::string_view kReportTemplate;

}  // namespace oomb::timeline
