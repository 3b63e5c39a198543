#include "profiler/report/difference_report.hpp"

#include <algorithm>

#include "profiler/report/words.hpp"

namespace oomb::profiler {
namespace {

// "+1.2 ms", "-850 ns"
std::string signed_duration(std::int64_t ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "+", duration(std::abs(ns)));
}

std::string line(std::string_view name, std::string_view before, std::string_view after, std::string_view by) {
    std::string row = fmt::format("  {:<32}{:>14}{:>14}{:>12}", name, before, after, by);
    return row.erase(row.find_last_not_of(' ') + 1) + "\n";
}

std::string time_line(std::string_view name, std::int64_t before, std::int64_t after) {
    return line(name, duration(before), duration(after), change(before, after));
}

double hidden_share(const DirectionTime& direction) {
    return direction.busy_ns == 0 ? 0
                                  : static_cast<double>(direction.hidden_ns) / static_cast<double>(direction.busy_ns);
}

std::string device_text(std::uint32_t device, const BeforeAfter<DeviceOverlap>& overlap) {
    const auto& [before, after] = overlap;
    std::string text = fmt::format("\n{}", line(fmt::format("device {}", device), "before", "after", "change"));
    text += time_line("span", before.span_ns(), after.span_ns());
    text += time_line("compute", before.compute_ns, after.compute_ns);
    text += time_line("copies that nothing hides", before.exposed_ns, after.exposed_ns);
    text += time_line("idle", before.idle_ns, after.idle_ns);
    for (std::size_t kind = 0; kind < kCopyKinds; ++kind) {
        const DirectionTime &a = before.directions[kind], &b = after.directions[kind];
        if (a.copies + b.copies == 0) {
            continue;
        }
        text += line(name_of(static_cast<CopyKind>(kind)), format_bytes_short(a.bytes), format_bytes_short(b.bytes),
                     change(a.bytes, b.bytes));
        text += time_line("  busy", a.busy_ns, b.busy_ns);
        text += time_line("  exposed", a.exposed_ns, b.exposed_ns);
        text += line("  hidden", share(a.hidden_ns, a.busy_ns), share(b.hidden_ns, b.busy_ns),
                     fmt::format("{:+.1f} pts", 100 * (hidden_share(b) - hidden_share(a))));
    }
    return text;
}

// "new" and "gone" where only one side has it.
std::string change_of(std::int64_t count_before, std::int64_t count_after, std::int64_t before, std::int64_t after) {
    return count_before == 0 ? "new" : count_after == 0 ? "gone" : change(before, after);
}

std::string change_row(std::int64_t count_before, std::int64_t count_after, std::int64_t before, std::int64_t after,
                       std::string_view name) {
    return fmt::format("  {:>11}{:>12}{:>11}{:>12}{:>10}{:>12}  {}\n", format_count(count_before), duration(before),
                       format_count(count_after), duration(after), change_of(count_before, count_after, before, after),
                       signed_duration(after - before), name);
}

std::string header(std::string_view name) {
    return fmt::format("\n  {:>11}{:>12}{:>11}{:>12}{:>10}{:>12}  {}\n", "before", "time", "after", "time", "change",
                       "", name);
}

std::string kernels_text(const std::vector<BeforeAfter<NameSum>>& kernels, std::size_t rows) {
    std::string text = header("kernel");
    for (std::size_t i = 0; i < std::min(rows, kernels.size()); ++i) {
        const auto& [before, after] = kernels[i];
        text += change_row(before.count, after.count, before.total_ns, after.total_ns, shortened(before.name));
    }
    if (kernels.size() > rows) {
        text += fmt::format("  and {} more names, which changed less\n", kernels.size() - rows);
    }
    return kernels.empty() ? "" : text;
}

std::int64_t pieces(const OperationSum& sum) {
    return sum.kernels + sum.copies;
}
std::int64_t time_of(const OperationSum& sum) {
    return add_clamped(sum.kernel_ns, sum.copy_ns);
}

Json sum_json(const NameSum& sum) {
    return {{"count", sum.count}, {"total_ns", sum.total_ns}};
}

Json sum_json(const OperationSum& sum) {
    return {{"kernels", sum.kernels},
            {"kernel_ns", sum.kernel_ns},
            {"copies", sum.copies},
            {"copy_ns", sum.copy_ns},
            {"copy_bytes", sum.copy_bytes}};
}

Json sum_json(const DeviceOverlap& overlap) {
    Json json = {{"span_ns", overlap.span_ns()},
                 {"compute_ns", overlap.compute_ns},
                 {"exposed_ns", overlap.exposed_ns},
                 {"idle_ns", overlap.idle_ns},
                 {"copies", Json::object()}};
    for (std::size_t kind = 0; kind < kCopyKinds; ++kind) {
        if (const DirectionTime& d = overlap.directions[kind]; d.copies > 0) {
            json["copies"][std::string(name_of(static_cast<CopyKind>(kind)))] = {{"copies", d.copies},
                                                                                 {"bytes", d.bytes},
                                                                                 {"busy_ns", d.busy_ns},
                                                                                 {"hidden_ns", d.hidden_ns},
                                                                                 {"exposed_ns", d.exposed_ns}};
        }
    }
    return json;
}

template <class T>
Json both_json(const BeforeAfter<T>& both) {
    return {{"before", sum_json(both.before)}, {"after", sum_json(both.after)}};
}

}  // namespace

std::vector<std::string> notes_of(const ProfileDifference& difference) {
    std::vector<std::string> notes;
    const auto& [before, after] = difference.steps;
    if (before != after) {
        notes.push_back(fmt::format("one has {} steps of oomb-train, the other {}; sums are over whole recordings",
                                    format_count(before), format_count(after)));
    }
    const bool common = std::any_of(difference.kernels.begin(), difference.kernels.end(), [](const auto& kernel) {
        return kernel.before.count > 0 && kernel.after.count > 0;
    });
    if (!common) {
        notes.emplace_back("they have no kernel in common: recordings of two programs?");
    }
    return notes;
}

std::string difference_text(const ProfileDifference& difference, std::size_t rows) {
    std::string text = difference.devices.empty() ? "neither has work of a device\n" : "";
    for (const auto& [device, overlap] : difference.devices) {
        text += device_text(device, overlap);
    }
    text += kernels_text(difference.kernels, rows);
    if (!difference.kinds.empty()) {
        text += header("operations");
    }
    for (const auto& [kind, sums] : difference.kinds) {
        text += change_row(pieces(sums.before), pieces(sums.after), time_of(sums.before), time_of(sums.after),
                           name_of(kind));
    }
    return text;
}

Json difference_json(const ProfileDifference& difference) {
    Json json = {{"steps", {{"before", difference.steps.before}, {"after", difference.steps.after}}},
                 {"devices", Json::array()},
                 {"kernels", Json::array()},
                 {"kinds", Json::object()}};
    for (const auto& [device, overlap] : difference.devices) {
        json["devices"].push_back(both_json(overlap));
        json["devices"].back()["device"] = device;
    }
    for (const BeforeAfter<NameSum>& kernel : difference.kernels) {
        json["kernels"].push_back(both_json(kernel));
        json["kernels"].back()["name"] = kernel.before.name;
        json["kernels"].back()["difference_ns"] = kernel.after.total_ns - kernel.before.total_ns;
    }
    for (const auto& [kind, sums] : difference.kinds) {
        json["kinds"][std::string(name_of(kind))] = both_json(sums);
    }
    return json;
}

}  // namespace oomb::profiler
