#pragma once
// timeline/page.html with its style and script, built into the programs.

#include <string_view>

namespace oomb::timeline {

extern const std::string_view kPageTemplate;

}  // namespace oomb::timeline
