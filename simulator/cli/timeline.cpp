#include "timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/cli/simulated_timeline.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/limits.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"
#include "timeline/chrome_trace.hpp"
#include "timeline/html_report.hpp"
#include "timeline/overlap.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kDescription =
    "Shows a step: what each engine does when, memory in use over time, how much of the copies compute hides. "
    "Simulated\n"
    "under the flags of a run, or as a trace of oomb-train says it ran (--from).";
constexpr const char* kFooter =
    "Exit code: 0 shown; 1 failed, a file cannot be read or written; 2 wrong usage; 3 the run does not fit.\n"
    "\n"
    "Example: a page to look at, before a run and after it\n"
    "  oomb-plan timeline --model models/qwen2.5-7b.json --context 128K --offload host --html planned.html\n"
    "  oomb-plan timeline --from trace.jsonl --html measured.html\n";

struct TimelineFlags {
    PlanFlags plan;
    std::string from;
    std::optional<std::int64_t> step;
    std::string html, chrome, trace;  // files to write; empty: not given
};

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

std::string facts_of(const Timeline& timeline) {
    const JsonNode run = JsonNode(timeline.plan, "plan").at("run");
    return fmt::format("{}; step {}, {}; {} tokens, chunk {}, window {}, offload {}, keep {}; {} operations",
                       timeline.program, timeline.step, timeline.clock == "simulated" ? "simulated" : "measured",
                       format_count(run.at("context_tokens").as_integer()),
                       format_count(run.at("chunk_tokens").as_integer()),
                       format_count(run.at("window_tokens").as_integer()), run.at("offload").as_string(),
                       run.at("keep").as_string(), format_count(timeline.operations()));
}

ExitCode show(const Timeline& timeline, const std::string& title, const TimelineFlags& flags, std::ostream& out) {
    out << title << "\n" << facts_of(timeline) << "\n\n" << summary(timeline);
    if (!flags.html.empty()) {
        write(flags.html, html_report(timeline, {.title = title, .facts = facts_of(timeline)}), out);
    }
    if (!flags.chrome.empty()) {
        write(flags.chrome, chrome_trace(timeline), out);
    }
    if (!flags.trace.empty()) {
        write(flags.trace, trace_text(timeline), out);
    }
    finish(out);
    return ExitCode::kDone;
}

ExitCode show_simulated(const TimelineFlags& flags, const Call& call) {
    const RunConfiguration run = to_run_configuration(flags.plan.run);
    const HardwareProfile profile = profile_of(flags.plan, run.device);
    require_times(call.program, run, profile);
    const ListSource lists = list_source(flags.plan, run);
    const schedule::Plan plan = plan_for_time(read_model_shape(flags.plan.run.model), run, profile, lists.locality);
    print_remarks(call, plan);
    const Limits limits{free_memory_limit_bytes(flags.plan.run).value_or(0)};
    if (const auto excesses = excesses_of(plan, limits); !excesses.empty()) {
        call.err << fmt::format("{}: does not fit\n", call.program) << explain_excess(plan, excesses, limits, profile);
        return ExitCode::kDoesNotFit;
    }
    if (const auto reason = why_unpredictable(plan, profile, Layers::kAll)) {
        fail<UnsupportedError>("no timeline: {}", *reason);
    }
    const std::string title = fmt::format("{} on {}", model_name(flags.plan.run.model), profile.name);
    return show(simulated_timeline(plan, profile, lists), title, flags, call.out);
}

// --from says what ran, the flags of a run what would.
void check_source(const TimelineFlags& flags, const CLI::App& app) {
    if (flags.from.empty()) {
        if (flags.plan.run.model.empty() || flags.plan.run.context.empty()) {
            fail<UsageError>("--model and --context are needed, or --from with a trace");
        }
        if (flags.step) {
            fail<UsageError>("--step needs --from: a simulated timeline has one step");
        }
        return;
    }
    for (const CLI::Option* option : app.get_options()) {
        const std::string name = option->get_name();
        if (option->count() > 0 && (option->get_group() != "Output" || name == "--hardware")) {
            fail<UsageError>("--from and {}: a trace says itself what ran; leave {} out", name, name);
        }
    }
}

}  // namespace

ExitCode timeline(const Call& call) {
    CLI::App app(kDescription, call.program);
    TimelineFlags flags;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags.plan, "");
    add_page_trace_flag(app, flags.plan);
    app.remove_option(app.get_option("--json"));
    app.get_option("--model")->required(false);
    app.get_option("--context")->required(false);
    const auto file = [&](const char* name, std::string& path, const char* what) {
        app.add_option(name, path, what)->type_name("FILE")->group("Output");
    };
    file("--from", flags.from, "show a step of this trace (oomb-train --trace) instead of a simulated one");
    app.add_option("--step", flags.step, "which step of the trace (default: the last)")
        ->type_name("N")
        ->group("Output");
    file("--html", flags.html, "write one page that opens anywhere, without a network");
    file("--chrome", flags.chrome, "write the format that Perfetto and chrome://tracing read");
    file("--trace", flags.trace, "write the step as a trace (docs/trace-format.md)");
    if (const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    check_source(flags, app);
    if (flags.from.empty()) {
        return show_simulated(flags, call);
    }
    const Timeline recorded = timeline::read_timeline(flags.from, flags.step);
    return show(recorded, fmt::format("{} on {}", flags.from, recorded.device), flags, call.out);
}

}  // namespace oomb::simulator
