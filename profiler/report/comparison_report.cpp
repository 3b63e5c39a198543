#include "profiler/report/comparison_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/core/units.hpp"

namespace oomb::profiler {
namespace {

using timeline::CopyTime, timeline::Overlap;

constexpr BySource<const char*> kNames = {"predicted", "events", "CUPTI"};
constexpr BySource<const char*> kKeys = {"predicted", "events", "cupti"};

std::string time_text(double ns) {
    return format_duration(ns * 1e-9);
}
std::string bytes_text(double count) {
    return format_bytes_short(static_cast<std::int64_t>(count));
}
std::string percent(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

std::optional<double> error_of(double found, double expected) {
    return expected == 0 ? std::nullopt : std::optional(found / expected - 1);
}

double hidden_share(const CopyTime& copy) {
    return copy.busy_ns == 0 ? 0 : static_cast<double>(copy.hidden_ns) / static_cast<double>(copy.busy_ns);
}

// A column per source given, then one per error against the last of them.
class Table {
  public:
    explicit Table(const Comparison& comparison) : reference_(static_cast<std::size_t>(comparison.reference())) {
        for (std::size_t source = 0; source < kSources; ++source) {
            given_[source] = comparison.overlaps[source].has_value();
        }
    }

    void header(std::string_view name, std::string_view count) {
        BySource<std::string> names, errors;
        for (std::size_t source = 0; source < kSources; ++source) {
            names[source] = kNames[source];
            errors[source] = fmt::format("{} by", kNames[source]);
        }
        line(name, count, names, errors);
    }
    void amounts(std::string_view name, std::string_view count, const BySource<double>& values,
                 std::string (*show)(double)) {
        BySource<std::string> texts, errors;
        for (std::size_t source = 0; source < kSources; ++source) {
            const std::optional<double> error = error_of(values[source], values[reference_]);
            texts[source] = show(values[source]);
            errors[source] = error ? fmt::format("{:+.1f} %", 100 * *error) : "";
        }
        line(name, count, texts, errors);
    }
    void shares(std::string_view name, const BySource<double>& values) {
        BySource<std::string> texts, errors;
        for (std::size_t source = 0; source < kSources; ++source) {
            texts[source] = percent(values[source]);
            errors[source] = fmt::format("{:+.1f} pts", 100 * (values[source] - values[reference_]));
        }
        line(name, "", texts, errors);
    }
    void sum(std::string_view name, const ComparedSum& sum) {
        BySource<double> values{};
        for (std::size_t source = 0; source < kSources; ++source) {
            values[source] = static_cast<double>(sum.of[source].ns);
        }
        amounts(name, format_count(sum.operations), values, time_text);
    }

    std::string text;

  private:
    void line(std::string_view name, std::string_view count, const BySource<std::string>& values,
              const BySource<std::string>& errors) {
        std::string row = fmt::format("  {:<32}{:>10}", name, count);
        for (std::size_t source = 0; source < kSources; ++source) {
            row += given_[source] ? fmt::format("{:>12}", values[source]) : "";
        }
        for (std::size_t source = 0; source < reference_; ++source) {
            row += given_[source] ? fmt::format("{:>14}", errors[source]) : "";
        }
        text += row.erase(row.find_last_not_of(' ') + 1) + "\n";
    }

    std::size_t reference_;
    BySource<bool> given_{};
};

BySource<double> of_step(const Comparison& comparison, const std::function<double(const Overlap&)>& of) {
    BySource<double> values{};
    for (std::size_t source = 0; source < kSources; ++source) {
        values[source] = comparison.overlaps[source] ? of(*comparison.overlaps[source]) : 0;
    }
    return values;
}

void add_direction(Table& table, const Comparison& comparison, std::string_view name, CopyTime Overlap::*direction) {
    const auto of = [&](std::int64_t CopyTime::*part) {
        return of_step(comparison, [=](const Overlap& o) { return static_cast<double>(o.*direction.*part); });
    };
    table.amounts(name, "", of(&CopyTime::bytes), bytes_text);
    table.amounts("  busy", "", of(&CopyTime::busy_ns), time_text);
    table.shares("  hidden", of_step(comparison, [=](const Overlap& o) { return hidden_share(o.*direction); }));
}

void add_step(Table& table, const Comparison& comparison) {
    table.header("", "");
    for (const auto& [name, part] : {std::pair{"step", &Overlap::total_ns},
                                     {"compute", &Overlap::compute_ns},
                                     {"copies that nothing hides", &Overlap::exposed_ns},
                                     {"idle", &Overlap::idle_ns}}) {
        table.amounts(name, "",
                      of_step(comparison, [&, p = part](const Overlap& o) { return static_cast<double>(o.*p); }),
                      time_text);
    }
    add_direction(table, comparison, "host to device", &Overlap::host_to_device);
    add_direction(table, comparison, "device to host", &Overlap::device_to_host);
}

Json errors_json(const BySource<double>& values, const Comparison& comparison) {
    const auto reference = static_cast<std::size_t>(comparison.reference());
    Json errors = Json::object();
    for (std::size_t source = 0; source < reference; ++source) {
        if (comparison.overlaps[source]) {
            const std::optional<double> error = error_of(values[source], values[reference]);
            errors[kKeys[source]] = error ? Json(*error) : Json(nullptr);
        }
    }
    return errors;
}

Json sum_json(const ComparedSum& sum, const Comparison& comparison) {
    Json json = {{"operations", sum.operations}};
    BySource<double> times{};
    for (std::size_t source = 0; source < kSources; ++source) {
        if (comparison.overlaps[source]) {
            json[kKeys[source]] = {{"ns", sum.of[source].ns}, {"bytes", sum.of[source].bytes}};
            times[source] = static_cast<double>(sum.of[source].ns);
        }
    }
    json["errors"] = errors_json(times, comparison);
    return json;
}

Json direction_json(const CopyTime& copy) {
    return {{"bytes", copy.bytes},
            {"busy_ns", copy.busy_ns},
            {"hidden_ns", copy.hidden_ns},
            {"exposed_ns", copy.exposed_ns},
            {"hidden_share", copy.busy_ns == 0 ? Json(nullptr) : Json(hidden_share(copy))}};
}

Json step_json(const Overlap& overlap) {
    return {{"step_ns", overlap.total_ns},
            {"compute_ns", overlap.compute_ns},
            {"exposed_ns", overlap.exposed_ns},
            {"idle_ns", overlap.idle_ns},
            {"host_to_device", direction_json(overlap.host_to_device)},
            {"device_to_host", direction_json(overlap.device_to_host)}};
}

std::string kinds_text(const std::map<schedule::Kind, std::int64_t>& kinds) {
    constexpr std::size_t kMostNamed = 5;
    std::vector<std::pair<std::int64_t, schedule::Kind>> most;
    for (const auto& [kind, count] : kinds) {
        most.emplace_back(-count, kind);
    }
    std::sort(most.begin(), most.end());
    std::string text;
    for (std::size_t i = 0; i < std::min(kMostNamed, most.size()); ++i) {
        text += fmt::format("{}{} {}", i == 0 ? "" : ", ", name_of(most[i].second), format_count(-most[i].first));
    }
    return most.size() > kMostNamed ? text + ", ..." : text;
}

}  // namespace

std::vector<std::string> notes_of(const Comparison& comparison) {
    std::vector<std::string> notes;
    for (std::size_t source = 0; source < kSources; ++source) {
        std::int64_t count = 0;
        for (const auto& [kind, missing] : comparison.missing[source]) {
            count += missing;
        }
        if (count > 0) {
            notes.push_back(
                fmt::format("{}: lacks {} operations that another has ({}); sums are over those that all have",
                            kNames[source], format_count(count), kinds_text(comparison.missing[source])));
        }
    }
    if (comparison.other_bytes > 0) {
        notes.push_back(fmt::format("{} of {} operations move other bytes in one than in another: not the same run",
                                    format_count(comparison.other_bytes), format_count(comparison.total.operations)));
    }
    return notes;
}

std::string comparison_text(const Comparison& comparison, const ComparisonText& about) {
    std::string text;
    for (std::size_t source = 0; source < kSources; ++source) {
        text += comparison.overlaps[source] ? fmt::format("{:<11}{}\n", kNames[source], about.captions[source]) : "";
    }
    for (const std::string& note : about.notes) {
        text += fmt::format("note: {}\n", note);
    }
    text += "\n";
    Table table(comparison);
    add_step(table, comparison);
    table.text += "\n";
    table.header("operations", "number");
    for (const auto& [kind, sum] : comparison.kinds) {
        table.sum(schedule::name_of(kind), sum);
    }
    for (const auto& [phase, sum] : comparison.phases) {
        table.sum(fmt::format("phase {}", schedule::name_of(phase)), sum);
    }
    table.sum("total", comparison.total);
    if (!comparison.differ.empty()) {
        table.text += "\n";
        table.header("those that differ most", "");
    }
    for (const Comparison::Operation& operation : comparison.differ) {
        table.sum(schedule::name_of(operation.id.kind), operation.times);
        table.text += fmt::format("    {}\n", schedule::to_text(operation.id));
    }
    return text + table.text;
}

Json comparison_json(const Comparison& comparison, const ComparisonText& about) {
    Json json = {{"sources", Json::object()}, {"notes", about.notes},
                 {"step", Json::object()},    {"kinds", Json::object()},
                 {"phases", Json::object()},  {"total", sum_json(comparison.total, comparison)},
                 {"differ", Json::array()},   {"missing", Json::object()}};
    BySource<double> lengths{};
    for (std::size_t source = 0; source < kSources; ++source) {
        if (!comparison.overlaps[source]) {
            continue;
        }
        json["sources"][kKeys[source]] = about.captions[source];
        json["step"][kKeys[source]] = step_json(*comparison.overlaps[source]);
        lengths[source] = static_cast<double>(comparison.overlaps[source]->total_ns);
        json["missing"][kKeys[source]] = Json::object();
        for (const auto& [kind, count] : comparison.missing[source]) {
            json["missing"][kKeys[source]][std::string(name_of(kind))] = count;
        }
    }
    json["step"]["errors"] = errors_json(lengths, comparison);
    json["without_device_work"] = comparison.without_device_work;
    json["other_bytes"] = comparison.other_bytes;
    for (const auto& [kind, sum] : comparison.kinds) {
        json["kinds"][std::string(name_of(kind))] = sum_json(sum, comparison);
    }
    for (const auto& [phase, sum] : comparison.phases) {
        json["phases"][std::string(name_of(phase))] = sum_json(sum, comparison);
    }
    for (const Comparison::Operation& operation : comparison.differ) {
        json["differ"].push_back(sum_json(operation.times, comparison));
        json["differ"].back()["operation"] = schedule::to_text(operation.id);
    }
    return json;
}

}  // namespace oomb::profiler
