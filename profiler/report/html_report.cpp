#include "profiler/report/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/report/page_lanes.hpp"
#include "runtime/core/units.hpp"
#include "timeline/page.hpp"

namespace oomb::profiler {
namespace {

using timeline::Bar;
using timeline::Cell;
using timeline::Color;
using timeline::Page;
using timeline::Table;
using timeline::text_of_ns;
using timeline::text_of_share;

constexpr std::size_t kMostKernelRows = 30;

std::string rate_of(std::int64_t bytes, std::int64_t ns) {
    return ns > 0 ? format_bytes_per_second(static_cast<double>(bytes) * 1e9 / static_cast<double>(ns)) : "";
}

void add_device(Page& page, const Findings& findings, const DeviceOverlap& overlap) {
    page.heading(findings.device_name(overlap.device),
                 fmt::format("{}: {} kernels, {} memsets", text_of_ns(overlap.span_ns()), format_count(overlap.kernels),
                             format_count(overlap.memsets)));
    page.bar({{{"compute", overlap.compute_ns, Color::kBlue},
               {"copies that nothing hides", overlap.exposed_ns, Color::kExposed},
               {"idle", overlap.idle_ns, Color::kIdle}},
              overlap.span_ns()});
    Table table{{"<copies", "number", "bytes", "busy", "rate", "hidden", "", "exposed", "idle", ""}, {}};
    for (std::size_t kind = 0; kind < overlap.directions.size(); ++kind) {
        const DirectionTime& d = overlap.directions[kind];
        if (d.copies > 0) {
            table.rows.push_back({std::string(name_of(static_cast<CopyKind>(kind))), format_count(d.copies),
                                  format_bytes_short(d.bytes), text_of_ns(d.busy_ns), rate_of(d.bytes, d.busy_ns),
                                  text_of_ns(d.hidden_ns), text_of_share(d.hidden_ns, d.busy_ns),
                                  text_of_ns(d.exposed_ns), text_of_ns(d.idle_ns),
                                  Bar{{{"hidden", d.hidden_ns, Color::kBlue},
                                       {"exposed", d.exposed_ns, Color::kExposed},
                                       {"idle", d.idle_ns, Color::kIdle}},
                                      overlap.span_ns()}});
        }
    }
    if (!table.rows.empty()) {
        page.table(table);
    }
}

void add_timeline(Page& page, const Findings& findings, std::int64_t zero_ns) {
    const DrawnTracks drawn = page_lanes(findings, zero_ns);
    page.heading("Timeline",
                 drawn.left_out == 0
                     ? ""
                     : fmt::format("{} more lanes, those with the fewest slices, are not drawn.", drawn.left_out));
    page.lanes(drawn.lanes);
}

// Kinds of memory that are drawn as one.
std::string tier_of(const MemoryUse& use) {
    if (of_device(use.kind)) {
        return fmt::format("device {}", use.device);
    }
    return use.kind == MemoryKind::kPinned || use.kind == MemoryKind::kPageable ? "host" : "managed";
}

// The kinds one above the other, a point wherever one of them changes.
timeline::MemoryTrack track_of(const std::string& tier, const std::vector<const MemoryUse*>& uses,
                               const timeline::Interval& time, std::int64_t zero_ns) {
    timeline::MemoryTrack track{.tier = tier};
    struct Change {
        std::int64_t at_ns;
        std::size_t part;
        std::int64_t bytes;
    };
    std::vector<Change> changes;
    for (std::size_t part = 0; part < uses.size(); ++part) {
        track.parts.emplace_back(name_of(uses[part]->kind));
        for (const MemoryUse::Point& point : uses[part]->points) {
            changes.push_back({std::max(time.begin, point.at_ns - zero_ns), part, point.bytes});
        }
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
    track.points.push_back({time.begin, std::vector<std::int64_t>(uses.size(), 0)});
    for (const Change& change : changes) {
        if (change.at_ns != track.points.back().at_ns) {
            track.points.push_back({change.at_ns, track.points.back().bytes});
        }
        track.points.back().bytes[change.part] = change.bytes;
    }
    return track;
}

void add_memory(Page& page, const Findings& findings, const timeline::Interval& time, std::int64_t zero_ns) {
    std::vector<std::pair<std::string, std::vector<const MemoryUse*>>> tiers;
    for (const MemoryUse& use : findings.memory.kinds) {
        const std::string tier = tier_of(use);
        auto found = std::find_if(tiers.begin(), tiers.end(), [&](const auto& t) { return t.first == tier; });
        found = found == tiers.end() ? tiers.insert(found, {tier, {}}) : found;
        found->second.push_back(&use);
    }
    if (tiers.empty()) {
        return;
    }
    page.heading("Memory in use", findings.memory.unknown_releases == 0
                                      ? "Allocations that the recorder saw, less releases."
                                      : fmt::format("Allocations that the recorder saw, less releases; {} releases are "
                                                    "of memory from before it began, which is not counted.",
                                                    format_count(findings.memory.unknown_releases)));
    for (const auto& [tier, uses] : tiers) {
        page.memory(track_of(tier, uses, time, zero_ns));
    }
}

timeline::RooflineChart chart_of(const Roofline& roofline) {
    timeline::RooflineChart chart;
    chart.roofs = {{"matrix products", roofline.roofs.flops, false}, {"memory", roofline.roofs.memory_bytes, true}};
    for (const RooflineRow& row : roofline.rows) {
        if (row.flops > 0 && row.bytes > 0 && row.busy_ns > 0) {
            const timeline::Group group = timeline::group_of(*row.kind);
            chart.points.push_back(
                {row.name,
                 fmt::format("{:.3g} TFLOP/s, {:.0f} FLOPs per byte; {:.1f} % of the roof",
                             row.flops_per_second() * 1e-12, row.flops / row.bytes, 100 * row.share_of_roof()),
                 std::string(timeline::name_of(group)), row.flops, row.bytes, static_cast<double>(row.busy_ns) * 1e-9,
                 static_cast<Color>(group)});
        }
    }
    return chart;
}

void add_roofline(Page& page, const Roofline& roofline) {
    page.heading("Roofline",
                 fmt::format("Against what {} can do. Bytes are those of memory, every operand once; of copies between "
                             "host and device, those on the bus.",
                             roofline.hardware));
    if (const timeline::RooflineChart chart = chart_of(roofline); !chart.points.empty() && roofline.roofs.flops > 0) {
        page.roofline(chart);
    }
    Table table{{"<work", "number", "time", "TFLOP/s", "rate", "of the roof", "<against", ""}, {}};
    for (const RooflineRow& row : roofline.rows) {
        const Color color = row.kind ? static_cast<Color>(timeline::group_of(*row.kind)) : Color::kTeal;
        const std::int64_t least_ns = std::min(row.busy_ns, static_cast<std::int64_t>(row.least_ns));
        table.rows.push_back({row.name, format_count(row.count), text_of_ns(row.busy_ns),
                              row.flops > 0 ? fmt::format("{:.3g}", row.flops_per_second() * 1e-12) : "",
                              row.bytes > 0 ? format_bytes_per_second(row.bytes_per_second()) : "",
                              row.least_ns > 0 ? fmt::format("{:.1f} %", 100 * row.share_of_roof()) : "",
                              std::string(row.least_ns > 0 ? name_of(row.bound) : ""),
                              Bar{{{"that the machine needs", least_ns, color}}, row.busy_ns}});
    }
    page.table(table);
}

void add_kernels(Page& page, const Findings& findings) {
    if (findings.kernels.empty()) {
        return;
    }
    std::int64_t whole_ns = 0;
    for (const NameSum& sum : findings.kernels) {
        whole_ns = add_clamped(whole_ns, sum.total_ns);
    }
    Table table{{"<kernel", "time", "", "launches", "mean", "shortest", "longest", ""}, {}};
    const std::size_t rows = std::min(kMostKernelRows, findings.kernels.size());
    for (const NameSum& sum :
         std::vector(findings.kernels.begin(), findings.kernels.begin() + static_cast<std::ptrdiff_t>(rows))) {
        table.rows.push_back({sum.name, text_of_ns(sum.total_ns), text_of_share(sum.total_ns, whole_ns),
                              format_count(sum.count), text_of_ns(sum.total_ns / sum.count), text_of_ns(sum.least_ns),
                              text_of_ns(sum.most_ns), Bar{{{sum.name, sum.total_ns, Color::kBlue}}, whole_ns}});
    }
    page.heading("Kernels", findings.kernels.size() > rows ? fmt::format("The {} names that take longest, of {}.", rows,
                                                                         format_count(std::ssize(findings.kernels)))
                                                           : "");
    page.table(table);
}

void add_operations(Page& page, const Findings& findings) {
    if (!findings.has_operations()) {
        return;
    }
    const OperationSums& sums = *findings.operations;
    std::int64_t whole_ns = 1;
    for (const OperationSum* sum : {&sums.marked, &sums.unmarked}) {
        whole_ns = add_clamped(whole_ns, sum->kernel_ns);
    }
    Table table{{"<operation", "kernels", "time", "", "copies", "time", "bytes", "rate", ""}, {}};
    const auto add = [&](const std::string& name, const OperationSum& sum, Color color) {
        table.rows.push_back({name, format_count(sum.kernels), text_of_ns(sum.kernel_ns),
                              text_of_share(sum.kernel_ns, whole_ns), format_count(sum.copies), text_of_ns(sum.copy_ns),
                              format_bytes_short(sum.copy_bytes), rate_of(sum.copy_bytes, sum.copy_ns),
                              Bar{{{name, sum.kernel_ns, color}}, whole_ns}});
    };
    for (const auto& [kind, sum] : sums.by_kind) {
        add(std::string(schedule::name_of(kind)), sum, static_cast<Color>(timeline::group_of(kind)));
    }
    add("outside of operations", sums.unmarked, Color::kGrey);
    page.heading("Operations of oomb-train");
    page.table(table);
}

void add_gaps(Page& page, const Findings& findings, std::size_t device, std::int64_t zero_ns) {
    const std::vector<Gap>& gaps = findings.gaps[device];
    if (gaps.empty()) {
        return;
    }
    const auto name = [&](StringId id) {
        return id == 0 ? std::string("a memset") : short_name(demangled(findings.profile.text(id)));
    };
    Table table{{"at", "length", "to device", "to host", "waited for", "<after", "<before"}, {}};
    for (const Gap& gap : gaps) {
        table.rows.push_back({text_of_ns(gap.time.begin - zero_ns), text_of_ns(gap.time.end - gap.time.begin),
                              text_of_ns(gap.host_to_device_ns), text_of_ns(gap.device_to_host_ns),
                              text_of_ns(gap.synchronization_ns), name(gap.after), name(gap.before)});
    }
    page.heading(findings.devices.size() > 1
                     ? fmt::format("Longest times without compute, device {}", findings.devices[device].device)
                     : "Longest times without compute",
                 "With the time of copies in them, and of threads that waited for the device meanwhile.");
    page.table(table);
}

}  // namespace

std::string html_report(const Findings& findings, const timeline::Interval& shown, std::int64_t zero_ns) {
    const Profile& profile = findings.profile;
    const timeline::Interval time{shown.begin - zero_ns, shown.end - zero_ns};
    Page page(profile.header.command,
              fmt::format("recorded by {}, CUPTI {}, driver for CUDA {}.{}; {}{}", profile.header.program,
                          profile.header.cupti_version, profile.header.driver_version / 1000,
                          profile.header.driver_version % 1000 / 10, text_of_ns(time.end - time.begin),
                          time.begin > 0 ? fmt::format(" from {} on", text_of_ns(time.begin)) : ""),
              time);
    page.notes(warnings_of(profile));
    for (const DeviceOverlap& overlap : findings.devices) {
        add_device(page, findings, overlap);
    }
    add_timeline(page, findings, zero_ns);
    add_memory(page, findings, time, zero_ns);
    if (findings.roofline) {
        add_roofline(page, *findings.roofline);
    }
    add_kernels(page, findings);
    add_operations(page, findings);
    for (std::size_t device = 0; device < findings.devices.size(); ++device) {
        add_gaps(page, findings, device, zero_ns);
    }
    return page.html();
}

}  // namespace oomb::profiler
