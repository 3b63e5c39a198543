#pragma once
// The files that `oomb-profile report` writes, and the part of the recording that it shows.

#include <optional>
#include <string>

#include "profiler/cli/commands.hpp"
#include "profiler/report/report.hpp"
#include "runtime/flags/command_line.hpp"
#include "timeline/intervals.hpp"

namespace oomb::profiler {

struct ReportFiles {
    std::string html, chrome, sqlite;  // empty: not asked for
    bool all_slices = false;
    std::optional<double> from, to;  // seconds of the recording
};
void add_report_files(CLI::App& app, ReportFiles& files);
// What can be known before a recording is read. Throws FileError.
void check_report_files(const ReportFiles& files);

struct ShownTime {
    timeline::Interval time;
    std::int64_t zero_ns = 0;  // the recording's begin
};
// Leaves in `profile` what --from and --to ask for. Throws UsageError where nothing is left of it.
ShownTime keep_shown(Profile& profile, const ReportFiles& files);

void write_report_files(const Call& call, const Findings& findings, const ShownTime& shown, const ReportFiles& files);

}  // namespace oomb::profiler
