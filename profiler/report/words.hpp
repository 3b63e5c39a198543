#pragma once
// Numbers as the tables of oomb-profile show them.

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/core/units.hpp"

namespace oomb::profiler {

inline constexpr std::size_t kNameWidth = 64;

inline std::string duration(std::int64_t ns) {
    return format_duration(static_cast<double>(ns) * 1e-9);
}

// "12.5 %"; empty where there is no whole.
inline std::string share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "";
}

// "+12.5 %"; empty where nothing was before.
inline std::string change(std::int64_t before, std::int64_t after) {
    return before == 0
               ? ""
               : fmt::format("{:+.1f} %", 100.0 * static_cast<double>(after - before) / static_cast<double>(before));
}

// Of a kernel: as much of its name as a line has room for.
inline std::string shortened(std::string_view name) {
    return name.size() <= kNameWidth ? std::string(name) : std::string(name.substr(0, kNameWidth - 3)) + "...";
}

}  // namespace oomb::profiler
