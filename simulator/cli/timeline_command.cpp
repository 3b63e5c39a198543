#include "simulator/cli/timeline_command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "timeline/chrome_trace.hpp"
#include "timeline/html_report.hpp"
#include "timeline/overlap.hpp"

namespace oomb::simulator {
namespace {

using timeline::CopyTime;
using timeline::Overlap;
using timeline::Timeline;

std::string duration(std::int64_t ns) {
    return format_duration(static_cast<double>(ns) * 1e-9);
}

std::string share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "";
}

std::string direction(std::string_view name, const CopyTime& copy) {
    return copy.busy_ns == 0 ? fmt::format("  {:<26}{:>12}\n", name, "nothing")
                             : fmt::format("  {:<26}{:>12} {:>10} busy {:>10}, hidden {:>8}, exposed {}\n", name,
                                           format_bytes_short(copy.bytes), "", duration(copy.busy_ns),
                                           share(copy.hidden_ns, copy.busy_ns), duration(copy.exposed_ns));
}

std::string summary(const Timeline& timeline) {
    const Overlap step = overlap_within(timeline, 0, timeline.end_ns());
    std::string text;
    const auto row = [&](std::string_view name, std::int64_t ns) {
        text += fmt::format("  {:<26}{:>12} {:>10}\n", name, duration(ns), share(ns, step.total_ns));
    };
    row("step", step.total_ns);
    row("compute", step.compute_ns);
    row("copies that nothing hides", step.exposed_ns);
    row("idle", step.idle_ns);
    for (int group = 0; group < timeline::kGroups; ++group) {
        if (step.group_ns[static_cast<std::size_t>(group)] > 0) {
            row(fmt::format("  {}", name_of(static_cast<timeline::Group>(group))),
                step.group_ns[static_cast<std::size_t>(group)]);
        }
    }
    return text + direction("host to device", step.host_to_device) + direction("device to host", step.device_to_host);
}

// By the ends of operations, as a device reports them.
std::string trace_text(const Timeline& timeline) {
    std::vector<trace::TraceRecord> records;
    for (std::size_t engine = 0; engine < timeline.lanes.size(); ++engine) {
        for (const timeline::Slice& slice : timeline.lanes[engine]) {
            records.push_back({timeline.step, slice.id, static_cast<schedule::Engine>(engine), slice.begin_ns,
                               slice.end_ns, slice.bytes, slice.pages});
        }
    }
    std::stable_sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
    std::string lines = trace::header_line({timeline.program, timeline.device, timeline.clock, timeline.plan});
    lines += trace::step_line(timeline.step);
    for (const trace::TraceRecord& record : records) {
        trace::append_record_line(record, lines);
    }
    return lines;
}

void write(const std::string& path, const std::string& text, std::ostream& out) {
    write_text_file(path, text);
    out << fmt::format("  wrote {} ({})\n", path, format_bytes_short(std::ssize(text)));
}

}  // namespace

std::string title_of(const Timeline& timeline, const std::string& model) {
    const JsonNode run = JsonNode(timeline.plan, "plan").at("run");
    return fmt::format("{}, {} tokens on {}", model, format_count(run.at("context_tokens").as_integer()),
                       timeline.device);
}

std::string facts_of(const Timeline& timeline) {
    const JsonNode run = JsonNode(timeline.plan, "plan").at("run");
    return fmt::format("{}; step {}, {}; chunk {}, window {}, offload {}, keep {}, {} operations", timeline.program,
                       timeline.step, timeline.clock == "simulated" ? "simulated" : "measured",
                       format_count(run.at("chunk_tokens").as_integer()),
                       format_count(run.at("window_tokens").as_integer()), run.at("offload").as_string(),
                       run.at("keep").as_string(), format_count(timeline.operations()));
}

void write_timeline(const Timeline& timeline, const std::string& what, const TimelineFiles& files, std::ostream& out) {
    out << what << "\n" << facts_of(timeline) << "\n\n" << summary(timeline);
    if (!files.html.empty()) {
        write(files.html, html_report(timeline, {.title = what, .facts = facts_of(timeline)}), out);
    }
    if (!files.chrome.empty()) {
        write(files.chrome, chrome_trace(timeline), out);
    }
    if (!files.trace.empty()) {
        write(files.trace, trace_text(timeline), out);
    }
}

}  // namespace oomb::simulator
