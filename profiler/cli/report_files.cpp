#include "profiler/cli/report_files.hpp"

#include <filesystem>
#include <limits>

#include "profiler/analysis/window.hpp"
#include "profiler/export/sqlite_export.hpp"
#include "profiler/report/chrome_trace.hpp"
#include "profiler/report/html_report.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"

namespace oomb::profiler {
namespace {

constexpr double kMostSeconds = 1e9;  // 30 years; in nanoseconds far from 2^63

std::int64_t nanoseconds(double seconds) {
    return static_cast<std::int64_t>(seconds * 1e9);
}

void say_written(const Call& call, const std::string& path) {
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    call.err << fmt::format("wrote {} ({})\n", path, format_bytes_short(bytes));
}

void write(const Call& call, const std::string& path, const std::string& text) {
    write_text_file(path, text);
    say_written(call, path);
}

}  // namespace

void add_report_files(CLI::App& app, ReportFiles& files) {
    const auto seconds = [&](const char* name, std::optional<double>& value, const char* what, const char* otherwise) {
        app.add_option(name, value, what)
            ->type_name("SECONDS")
            ->check(CLI::Range(0.0, kMostSeconds))
            ->default_str(otherwise);
    };
    seconds("--from", files.from, "leave out what begins earlier in the recording", "its begin");
    seconds("--to", files.to, "leave out what begins then or later", "its end");
    app.add_option("--html", files.html, "write one page that opens anywhere, without a network")->type_name("FILE");
    app.add_option("--chrome", files.chrome, "write kernels, copies and NVTX ranges for Perfetto or chrome://tracing")
        ->type_name("FILE");
    app.add_flag("--all-slices", files.all_slices,
                 fmt::format("in --chrome, join nothing; otherwise of more than {} slices the shortest are joined",
                             format_count(kMostChromeSlices)));
    app.add_option("--sqlite", files.sqlite,
                   "write a new SQLite database with the tables of Nsight Systems (docs/profile-sqlite.md)")
        ->type_name("FILE");
}

void check_report_files(const ReportFiles& files) {
    if (!files.sqlite.empty()) {
        require_free(files.sqlite);
    }
}

ShownTime keep_shown(Profile& profile, const ReportFiles& files) {
    const timeline::Interval recorded = recorded_time(profile);
    ShownTime shown{recorded, recorded.begin};
    if (!files.from && !files.to) {
        return shown;
    }
    shown.time.begin = recorded.begin + nanoseconds(files.from.value_or(0));
    shown.time.end = files.to ? recorded.begin + nanoseconds(*files.to) : recorded.end + 1;  // the end is kept
    keep_window(profile, shown.time);
    if (profile.kernels.empty() && profile.copies.empty() && profile.memsets.empty()) {
        fail<UsageError>("--from {} --to {}: no kernel, copy or memset begins then; the recording lasts {}",
                         files.from.value_or(0), files.to ? fmt::format("{}", *files.to) : "(its end)",
                         format_duration(static_cast<double>(recorded.end - recorded.begin) * 1e-9));
    }
    shown.time.end = std::max(shown.time.begin + 1, std::min(shown.time.end, recorded.end));
    return shown;
}

void write_report_files(const Call& call, const Findings& findings, const ShownTime& shown, const ReportFiles& files) {
    if (!files.html.empty()) {
        write(call, files.html, html_report(findings, shown.time, shown.zero_ns));
    }
    if (!files.chrome.empty()) {
        const std::int64_t most = files.all_slices ? std::numeric_limits<std::int64_t>::max() : kMostChromeSlices;
        const ChromeTrace trace = chrome_trace(findings.profile, shown.zero_ns, most);
        write(call, files.chrome, trace.text);
        if (trace.resolution_ns > 0) {
            call.err << fmt::format(
                "note: of {} slices those shorter than {} are joined with their neighbours, which leaves {}; "
                "--all-slices writes each, --from and --to a part of the time\n",
                format_count(trace.slices), format_duration(static_cast<double>(trace.resolution_ns) * 1e-9),
                format_count(trace.written));
        }
    }
    if (!files.sqlite.empty()) {
        export_sqlite(findings.profile, files.sqlite);
        say_written(call, files.sqlite);
    }
}

}  // namespace oomb::profiler
