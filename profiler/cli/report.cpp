#include "profiler/report/report.hpp"

#include "profiler/cli/commands.hpp"
#include "profiler/cli/issued_step.hpp"
#include "profiler/cli/report_files.hpp"
#include "profiler/cli/roofline_flags.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kDescription =
    "Shows a recording: compute, copies that compute hid and copies that it did not, idle time, the longest times\n"
    "without compute, and time by kernel and by operation of oomb-train.";
constexpr const char* kFooter =
    "Exit code: 0 shown; 1 failed, the file is no profile or cannot be read; 2 wrong usage.\n"
    "\n"
    "Example: a page to look at, and two seconds of the recording for ui.perfetto.dev\n"
    "  oomb-profile report step.profile --html step.html\n"
    "  oomb-profile report step.profile --from 4 --to 6 --chrome step.json\n";

// Where it cannot be told (no step is complete, lists of pages), all else is.
std::optional<PathFindings> path_of(const Profile& profile, const std::string& file, const std::string& trace,
                                    std::optional<std::int64_t> step, std::size_t most, std::ostream& err) {
    if (trace.empty()) {
        return std::nullopt;
    }
    try {
        return find_path(profile, file, trace, step, most);
    } catch (const UnsupportedError& error) {
        if (step) {
            throw;
        }
        err << fmt::format("note: no critical path: {}\n", error.what());
        return std::nullopt;
    }
}

}  // namespace

ExitCode report(const Call& call) {
    CLI::App app(kDescription, call.program);
    std::string file;
    std::optional<std::int64_t> number;
    bool json = false;
    ReportFiles files;
    RooflineFlags against;
    ReportOptions options;
    prepare_command_line(app, kFooter);
    app.add_option("FILE", file, "a recording of oomb-profile run or oomb-train --profile")->type_name("")->required();
    app.add_flag("--json", json, "print JSON instead of tables; all kernels are in it");
    app.add_option("--rows", options.rows, "kernels to list; of gaps half as many")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{2}, std::size_t{100'000}))
        ->capture_default_str();
    app.add_option("--step", number, "with --trace, the step whose critical path is shown")
        ->type_name("N")
        ->default_str("of median length");
    add_report_files(app, files);
    add_roofline_flags(app, against);
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    if (number && against.trace.empty()) {
        fail<UsageError>("--step {}: needs --trace", *number);
    }
    check_report_files(files);
    Profile profile = read_profile(file);
    const auto path = path_of(profile, file, against.trace, number, options.rows / 2, call.err);
    const ShownTime shown = keep_shown(profile, files);
    const auto hardware = recorded_hardware(against, profile);
    const auto step = recorded_step(against, profile);
    options.hardware = hardware ? &*hardware : nullptr;
    options.step = step ? &*step : nullptr;
    const Findings findings = find(profile, options);
    if (json) {
        Json all = report_json(findings);
        if (path) {
            all["critical_path"] = path_json(*path);
        }
        call.out << all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    } else {
        call.out << report_text(findings, options) + (path ? path_text(*path) : "");
    }
    write_report_files(call, findings, shown, files);
    if (!call.out.flush()) {
        fail<FileError>("standard output: cannot be written");
    }
    return ExitCode::kDone;
}

}  // namespace oomb::profiler
