#include "profiler/analysis/comparison.hpp"

#include "profiler/cli/commands.hpp"
#include "profiler/report/report.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kDescription =
    "Holds a recording against the trace of the same run: time and bytes of each kind of operation as the executor's\n"
    "events have them, and as the GPU's own timestamps do.";
constexpr const char* kFooter =
    "Exit code: 0 shown; 1 failed, a file cannot be read, or they have no operation in common; 2 wrong usage.\n"
    "\n"
    "Example:\n"
    "  oomb-train ... --device cuda --trace step.trace --profile step.profile\n"
    "  oomb-profile compare --trace step.trace --profile step.profile\n";

std::string percent(std::int64_t found, std::int64_t expected) {
    return expected == 0 ? ""
                         : fmt::format("{:+.1f} %",
                                       100.0 * static_cast<double>(found - expected) / static_cast<double>(expected));
}

std::string row(std::string_view name, const TimePair& pair) {
    const auto time = [](std::int64_t ns) { return format_duration(static_cast<double>(ns) * 1e-9); };
    return fmt::format("  {:<34}{:>10}{:>12}{:>12}{:>10}{:>12}{:>12}\n", name, format_count(pair.operations),
                       time(pair.trace_ns), time(pair.profile_ns), percent(pair.trace_ns, pair.profile_ns),
                       format_bytes_short(pair.trace_bytes), format_bytes_short(pair.profile_bytes));
}

std::string text_of(const Comparison& comparison) {
    std::string text = fmt::format("  {:<34}{:>10}{:>12}{:>12}{:>10}{:>12}{:>12}\n", "", "number", "events", "CUPTI",
                                   "events by", "bytes", "CUPTI");
    for (const Comparison::KindPair& kind : comparison.kinds) {
        text += row(schedule::name_of(kind.kind), kind.pair);
    }
    text += row("total", comparison.total) + "\n";
    for (const Comparison::OperationPair& operation : comparison.differ) {
        text += row(fmt::format("step {}", operation.step), operation.pair);
        text += fmt::format("    {}\n", schedule::to_text(operation.id));
    }
    text += fmt::format("  in the trace alone: {} operations (those of the host give the device nothing to do)\n",
                        format_count(comparison.only_in_trace));
    return text + fmt::format("  in the recording alone: {}\n", format_count(comparison.only_in_profile));
}

Json pair_json(const TimePair& pair) {
    return {{"operations", pair.operations},
            {"trace_ns", pair.trace_ns},
            {"profile_ns", pair.profile_ns},
            {"trace_bytes", pair.trace_bytes},
            {"profile_bytes", pair.profile_bytes}};
}

Json json_of(const Comparison& comparison) {
    Json json = {{"total", pair_json(comparison.total)},
                 {"kinds", Json::object()},
                 {"differ", Json::array()},
                 {"only_in_trace", comparison.only_in_trace},
                 {"only_in_profile", comparison.only_in_profile}};
    for (const Comparison::KindPair& kind : comparison.kinds) {
        json["kinds"][std::string(schedule::name_of(kind.kind))] = pair_json(kind.pair);
    }
    for (const Comparison::OperationPair& operation : comparison.differ) {
        json["differ"].push_back(pair_json(operation.pair));
        json["differ"].back()["step"] = operation.step;
        json["differ"].back()["operation"] = schedule::to_text(operation.id);
    }
    return json;
}

void require_marks(const Profile& profile, const std::string& file) {
    if (profile.marks.empty()) {
        fail<FileError>(
            "{}: no work in it is attributed to operations; record with oomb-train --profile, or oomb-profile run "
            "--operations",
            file);
    }
    if (!profile.kinds_match) {
        fail<FileError>(
            "{}: its operations are numbered as another version of this program does; compare with that one", file);
    }
}

}  // namespace

ExitCode compare_files(const Call& call) {
    CLI::App app(kDescription, call.program);
    std::string trace_file, profile_file;
    bool json = false;
    std::size_t rows = 5;
    prepare_command_line(app, kFooter);
    app.add_option("--trace", trace_file, "of oomb-train --trace")->type_name("FILE")->required();
    app.add_option("--profile", profile_file, "of the same run")->type_name("FILE")->required();
    app.add_flag("--json", json, "print JSON instead of tables");
    app.add_option("--rows", rows, "operations to list of those that differ most")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{0}, std::size_t{100'000}))
        ->capture_default_str();
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    const Profile profile = read_profile(profile_file);
    require_marks(profile, profile_file);
    const Comparison comparison = compare(profile, trace::read_trace(trace_file).records, rows);
    if (comparison.total.operations == 0) {
        fail<FileError>("{}: none of its {} operations is in {}: not the trace of the same run", profile_file,
                        format_count(comparison.only_in_profile), trace_file);
    }
    for (const std::string& line : warnings_of(profile)) {
        call.err << fmt::format("note: {}\n", line);
    }
    call.out << (json ? json_of(comparison).dump(1) + "\n" : text_of(comparison)) << std::flush;
    return ExitCode::kDone;
}

}  // namespace oomb::profiler
