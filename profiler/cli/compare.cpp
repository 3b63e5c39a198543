#include <fmt/format.h>

#include "profiler/cli/commands.hpp"
#include "profiler/cli/compared_steps.hpp"
#include "profiler/report/difference_report.hpp"
#include "profiler/report/report.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kDescription =
    "Holds a step against itself as it was predicted (--plan), as the executor's events have it (--trace) and as the\n"
    "GPU's own timestamps do (--profile), any two of them or all three: time and bytes by kind of operation and "
    "phase,\n"
    "copies that compute hid, errors in per cent against the last of them. Or two recordings, BEFORE and AFTER a "
    "change.";
constexpr const char* kFooter =
    "Of a run that step is taken which has median length among the complete ones but the first.\n"
    "Exit code: 0 shown; 1 failed, a file cannot be read, or they have no operation in common; 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  oomb-plan timeline --model models/qwen2.5-7b.json --context 128K --offload host --trace step.plan\n"
    "  oomb-train ... --device cuda --trace step.trace --profile step.profile\n"
    "  oomb-profile compare --plan step.plan --trace step.trace --profile step.profile\n"
    "  oomb-profile compare before.profile after.profile\n";

struct CompareFlags {
    std::vector<std::string> recordings;
    ComparedFiles files;
    std::optional<std::int64_t> step;
    std::size_t rows = 5;
    bool json = false;
};

void add_flags(CLI::App& app, CompareFlags& flags) {
    app.add_option("BEFORE AFTER", flags.recordings, "two recordings, held against each other")
        ->type_name("")
        ->expected(0, 2);
    app.add_option("--plan", flags.files.plan, "a predicted step, of oomb-plan timeline --trace")->type_name("FILE");
    app.add_option("--trace", flags.files.trace, "of oomb-train --trace")->type_name("FILE");
    app.add_option("--profile", flags.files.profile, "of the same run, of oomb-train --profile")->type_name("FILE");
    app.add_option("--step", flags.step, "the step of the trace, without one of the recording")
        ->type_name("N")
        ->default_str("of median length");
    app.add_flag("--json", flags.json, "print JSON instead of tables");
    app.add_option("--rows", flags.rows, "operations, or kernels, to list of those that differ most")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{0}, std::size_t{100'000}))
        ->capture_default_str();
}

void check(const CompareFlags& flags) {
    const ComparedFiles& files = flags.files;
    const int given = (files.plan.empty() ? 0 : 1) + (files.trace.empty() ? 0 : 1) + (files.profile.empty() ? 0 : 1);
    if (!flags.recordings.empty() && (given > 0 || flags.step)) {
        fail<UsageError>("{}: two recordings are compared alone; leave --plan, --trace, --profile and --step out",
                         flags.recordings.front());
    }
    if (flags.recordings.size() == 1) {
        fail<UsageError>("{}: found one recording; give two, BEFORE and AFTER, or --profile with --trace or --plan",
                         flags.recordings.front());
    }
    if (flags.recordings.empty() && given < 2) {
        fail<UsageError>("two of --plan, --trace and --profile are needed, found {}; or two recordings", given);
    }
}

std::string dump(const Json& json) {
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExitCode compare_recordings(const CompareFlags& flags, const Call& call) {
    const Profile before = read_profile(flags.recordings[0]), after = read_profile(flags.recordings[1]);
    const ProfileDifference difference = difference_of(before, after);
    std::vector<std::string> notes = notes_of(difference);
    for (const auto& [file, profile] : {std::pair{flags.recordings[0], &before}, {flags.recordings[1], &after}}) {
        for (const std::string& line : warnings_of(*profile)) {
            notes.push_back(fmt::format("{}: {}", file, line));
        }
    }
    if (flags.json) {
        Json json = difference_json(difference);
        json["notes"] = notes;
        call.out << dump(json);
    } else {
        call.out << fmt::format("before  {}: {}\nafter   {}: {}\n", flags.recordings[0], before.header.command,
                                flags.recordings[1], after.header.command);
        for (const std::string& note : notes) {
            call.out << fmt::format("note: {}\n", note);
        }
        call.out << difference_text(difference, flags.rows);
    }
    return ExitCode::kDone;
}

ExitCode compare_sources(const CompareFlags& flags, const Call& call) {
    ComparedSteps read = read_steps(flags.files, flags.step);
    const Comparison comparison = compare(read.steps, flags.rows);
    if (comparison.total.operations == 0) {
        fail<FileError>("{}: they have no operation in common: not of the same run",
                        fmt::join(std::vector{flags.files.plan, flags.files.trace, flags.files.profile}, " "));
    }
    for (std::string& note : notes_of(comparison)) {
        read.about.notes.push_back(std::move(note));
    }
    call.out << (flags.json ? dump(comparison_json(comparison, read.about)) : comparison_text(comparison, read.about));
    return ExitCode::kDone;
}

}  // namespace

ExitCode compare_files(const Call& call) {
    CLI::App app(kDescription, call.program);
    CompareFlags flags;
    prepare_command_line(app, kFooter);
    add_flags(app, flags);
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    check(flags);
    const ExitCode code = flags.recordings.empty() ? compare_sources(flags, call) : compare_recordings(flags, call);
    if (!call.out.flush()) {
        fail<FileError>("standard output: cannot be written");
    }
    return code;
}

}  // namespace oomb::profiler
