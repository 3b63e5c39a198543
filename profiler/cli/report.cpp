#include "profiler/report/report.hpp"

#include "profiler/cli/commands.hpp"
#include "profiler/cli/issued_step.hpp"
#include "profiler/report/chrome_trace.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kDescription =
    "Shows a recording: compute, copies that compute hid and copies that it did not, idle time, the longest times\n"
    "without compute, and time by kernel and by operation of oomb-train.";
constexpr const char* kFooter =
    "Exit code: 0 shown; 1 failed, the file is no profile or cannot be read; 2 wrong usage.\n"
    "\n"
    "Example:\n"
    "  oomb-profile report step.profile --chrome step.json    # then open step.json in ui.perfetto.dev\n";

}  // namespace

ExitCode report(const Call& call) {
    CLI::App app(kDescription, call.program);
    std::string file, chrome, trace;
    std::optional<std::int64_t> step;
    bool json = false;
    ReportOptions options;
    prepare_command_line(app, kFooter);
    app.add_option("FILE", file, "a recording of oomb-profile run or oomb-train --profile")->type_name("")->required();
    app.add_flag("--json", json, "print JSON instead of tables; all kernels are in it");
    app.add_option("--rows", options.rows, "kernels to list; of gaps half as many")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{2}, std::size_t{100'000}))
        ->capture_default_str();
    app.add_option("--chrome", chrome, "write every kernel, copy and NVTX range for Perfetto or chrome://tracing")
        ->type_name("FILE");
    app.add_option("--trace", trace, "of the same run, of oomb-train --trace: also show the critical path of a step")
        ->type_name("FILE");
    app.add_option("--step", step, "the step of the trace")->type_name("N")->default_str("of median length");
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    if (step && trace.empty()) {
        fail<UsageError>("--step {}: needs --trace", *step);
    }
    const Profile profile = read_profile(file);
    const Findings findings = find(profile, options);
    std::optional<PathFindings> path;
    if (!trace.empty()) {
        path = find_path(profile, file, trace, step, options.rows / 2);
    }
    if (json) {
        Json all = report_json(findings);
        if (path) {
            all["critical_path"] = path_json(*path);
        }
        call.out << all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    } else {
        call.out << report_text(findings, options) + (path ? path_text(*path) : "");
    }
    if (!chrome.empty()) {
        const std::string text = chrome_trace(profile);
        write_text_file(chrome, text);
        call.err << fmt::format("wrote {} ({})\n", chrome, format_bytes_short(std::ssize(text)));
    }
    if (!call.out.flush()) {
        fail<FileError>("standard output: cannot be written");
    }
    return ExitCode::kDone;
}

}  // namespace oomb::profiler
