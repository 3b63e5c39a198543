#include "profiler/report/call_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/units.hpp"

namespace oomb::profiler {
namespace {

std::string duration(std::int64_t ns) {
    return format_duration(static_cast<double>(ns) * 1e-9);
}

}  // namespace

std::string calls_text(const std::vector<NameSum>& calls, std::size_t rows) {
    if (calls.empty()) {
        return "";
    }
    std::string text =
        fmt::format("\n  {:>12}{:>11}{:>12}{:>12}{:>12}  call\n", "time", "calls", "mean", "shortest", "longest");
    for (std::size_t i = 0; i < std::min(rows, calls.size()); ++i) {
        const NameSum& sum = calls[i];
        text +=
            fmt::format("  {:>12}{:>11}{:>12}{:>12}{:>12}  {}\n", duration(sum.total_ns), format_count(sum.count),
                        duration(sum.total_ns / sum.count), duration(sum.least_ns), duration(sum.most_ns), sum.name);
    }
    return calls.size() > rows ? text + fmt::format("  and {} more names\n", calls.size() - rows) : text;
}

std::string counters_text(const std::vector<CounterSum>& counters) {
    if (counters.empty()) {
        return "";
    }
    std::string text = fmt::format("\n  {:<28}{:>8}{:>12}{:>14}{:>14}{:>12}\n", "hardware counters", "device", "bytes",
                                   "mean", "most", "sampled");
    for (const CounterSum& sum : counters) {
        text += fmt::format("  {:<28}{:>8}{:>12}{:>14}{:>14}{:>12}\n", counter_title(sum.name), sum.device,
                            format_bytes_short(sum.bytes), format_bytes_per_second(sum.bytes_per_second()),
                            format_bytes_per_second(sum.most_per_second), duration(sum.sampled_ns));
    }
    return text;
}

Json calls_json(const std::vector<NameSum>& calls) {
    Json json = Json::array();
    for (const NameSum& sum : calls) {
        json.push_back({{"name", sum.name},
                        {"count", sum.count},
                        {"total_ns", sum.total_ns},
                        {"least_ns", sum.least_ns},
                        {"most_ns", sum.most_ns}});
    }
    return json;
}

Json counters_json(const std::vector<CounterSum>& counters) {
    Json json = Json::array();
    for (const CounterSum& sum : counters) {
        json.push_back({{"device", sum.device},
                        {"name", sum.name},
                        {"title", counter_title(sum.name)},
                        {"samples", sum.samples},
                        {"bytes", sum.bytes},
                        {"sampled_ns", sum.sampled_ns},
                        {"mean_bytes_per_second", sum.bytes_per_second()},
                        {"most_bytes_per_second", sum.most_per_second}});
    }
    return json;
}

}  // namespace oomb::profiler
