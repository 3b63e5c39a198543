#include "runtime/core/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "runtime/core/error.hpp"
#include "runtime/core/nearest.hpp"

namespace oomb {

namespace {

struct Unit {
    std::string_view suffix;
    std::int64_t size;
};

constexpr std::array<Unit, 9> kByteUnits{{{"", 1},
                                          {"KiB", kKiB},
                                          {"MiB", kMiB},
                                          {"GiB", kGiB},
                                          {"TiB", kTiB},
                                          {"KB", 1'000},
                                          {"MB", 1'000'000},
                                          {"GB", 1'000'000'000},
                                          {"TB", 1'000'000'000'000}}};
constexpr std::array<Unit, 3> kTokenUnits{{{"", 1}, {"K", kKiB}, {"M", kMiB}}};
constexpr std::string_view kBytesAllowed =
    "a whole number of bytes, alone or with KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (powers of 1000), "
    "such as 139GiB";
constexpr std::string_view kTokensAllowed =
    "a whole number of tokens, alone or with K (1,024) or M (1,048,576), such as 128K";

// "; did you mean 139GiB?" where "139G" was found.
std::string meant(std::string_view digits, std::string_view suffix, std::span<const Unit> units) {
    std::vector<std::string> names;
    for (const Unit& unit : units.subspan(1)) {
        names.emplace_back(unit.suffix);
    }
    std::string name = nearest(suffix, names);
    if (name.empty()) {
        name = nearest(suffix.substr(0, 1), names);
    }
    return name.empty() ? "" : fmt::format("; did you mean {}{}?", digits, name);
}

std::int64_t parse_size(std::string_view flag, std::string_view text, Zero zero, std::span<const Unit> units,
                        std::string_view allowed) {
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
        ++digits;
    }
    const std::string_view suffix = text.substr(digits);
    if (digits == 0) {
        fail<UsageError>("{}: found \"{}\", {}; allowed is {}", flag, text,
                         text.starts_with('-') ? "which is negative" : "which does not begin with a digit", allowed);
    }
    for (const Unit& unit : units) {
        if (unit.suffix != suffix) {
            continue;
        }
        std::int64_t count = 0;
        std::int64_t size = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + digits, count);
        if (error != std::errc{} || __builtin_mul_overflow(count, unit.size, &size)) {
            fail<UsageError>("{}: found \"{}\", which passes 2^63 - 1; allowed is {}", flag, text, allowed);
        }
        if (size == 0 && zero == Zero::kRefused) {
            fail<UsageError>("{}: found \"{}\", but zero makes no sense here; allowed is {}", flag, text, allowed);
        }
        return size;
    }
    const std::string hint = meant(text.substr(0, digits), suffix, units);
    fail<UsageError>("{}: found \"{}\", whose suffix \"{}\" is unknown{}{} allowed is {}", flag, text, suffix, hint,
                     hint.empty() ? ";" : "", allowed);
}

struct Scaled {
    double value;
    std::size_t unit;
};

// The largest unit in which the value, rounded to one decimal, is at least 1: 1,048,575 bytes are 1.0 MiB, not 1024.0
// KiB.
Scaled scale(double value, double base, std::size_t last_unit) {
    Scaled scaled{value, 0};
    while (scaled.unit < last_unit && std::abs(scaled.value) >= (scaled.unit == 0 ? base : base - 0.05)) {
        scaled = {scaled.value / base, scaled.unit + 1};
    }
    return scaled;
}

std::string format_short_duration(double seconds) {
    constexpr std::array<std::string_view, 4> kUnits{"ns", "us", "ms", "s"};
    double value = seconds * 1e9;
    std::size_t unit = 0;
    while (unit + 1 < kUnits.size() && std::round(value) >= 1000) {
        value /= 1000;
        ++unit;
    }
    const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

}  // namespace

std::int64_t parse_bytes(std::string_view flag, std::string_view text, Zero zero) {
    return parse_size(flag, text, zero, kByteUnits, kBytesAllowed);
}

std::int64_t parse_tokens(std::string_view flag, std::string_view text, Zero zero) {
    return parse_size(flag, text, zero, kTokenUnits, kTokensAllowed);
}

std::string format_count(std::int64_t count) {
    std::string text = std::to_string(count);
    const std::size_t first_digit = count < 0 ? 1 : 0;
    for (std::size_t at = text.size(); at > first_digit + 3;) {
        at -= 3;
        text.insert(at, 1, ',');
    }
    return text;
}

std::string format_bytes_short(std::int64_t bytes) {
    constexpr std::array<std::string_view, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
    const Scaled scaled = scale(static_cast<double>(bytes), 1024, kUnits.size() - 1);
    if (scaled.unit == 0) {
        return fmt::format("{} {}", bytes, bytes == 1 ? "byte" : "bytes");
    }
    return fmt::format("{:.1f} {}", scaled.value, kUnits[scaled.unit]);
}

std::string format_bytes(std::int64_t bytes) {
    const std::string shortened = format_bytes_short(bytes);
    return shortened.ends_with('B') ? fmt::format("{} ({} bytes)", shortened, format_count(bytes)) : shortened;
}

std::string format_tokens_short(std::int64_t tokens) {
    if (tokens != 0 && tokens % kMiB == 0) {
        return fmt::format("{}M", tokens / kMiB);
    }
    if (tokens != 0 && tokens % kKiB == 0) {
        return fmt::format("{}K", tokens / kKiB);
    }
    constexpr std::array<std::string_view, 3> kUnits{"", "K", "M"};
    const Scaled scaled = scale(static_cast<double>(tokens), 1024, kUnits.size() - 1);
    return scaled.unit == 0 ? std::to_string(tokens) : fmt::format("{:.1f}{}", scaled.value, kUnits[scaled.unit]);
}

std::string tokens_as_typed(std::int64_t tokens) {
    return tokens % kKiB == 0 ? format_tokens_short(tokens) : std::to_string(tokens);
}

std::string format_tokens(std::int64_t tokens) {
    const std::string shortened = format_tokens_short(tokens);
    const bool is_exact = shortened.find_first_of("KM") == std::string::npos;
    return is_exact ? shortened : fmt::format("{} ({})", shortened, format_count(tokens));
}

std::string format_bytes_per_second(double per_second) {
    constexpr std::array<std::string_view, 5> kUnits{"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
    const Scaled scaled = scale(per_second, 1000, kUnits.size() - 1);
    return fmt::format("{:.1f} {}", scaled.value, kUnits[scaled.unit]);
}

std::string format_duration(double seconds) {
    if (!std::isfinite(seconds) || std::abs(seconds) > 1e15) {
        return "unknown";
    }
    if (seconds < 0) {
        return fmt::format("-{}", format_duration(-seconds));
    }
    if (seconds < 59.95) {
        return format_short_duration(seconds);
    }
    const std::int64_t whole = std::llround(seconds);
    if (whole < 3600) {
        return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    }
    const std::int64_t minutes = (whole + 30) / 60;
    if (minutes < std::int64_t{24} * 60) {
        return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
    }
    const std::int64_t hours = (minutes + 30) / 60;
    return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

}  // namespace oomb
