#include <filesystem>
#include <optional>

#include "profiler/cli/commands.hpp"
#include "profiler/cli/launch.hpp"
#include "profiler/cli/sampled_counters.hpp"
#include "profiler/report/report.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kDescription =
    "Runs COMMAND, any CUDA program, and records what the GPU does meanwhile: kernels, copies, memsets, allocations,\n"
    "synchronisation, NVTX ranges. The program is not changed; the CUDA driver loads the recorder into it.";
constexpr const char* kFooter =
    "Each process that uses CUDA writes a file: the first FILE, others FILE.<process>.\n"
    "With --seconds or --steps recording ends before the program does; the file is whole within seconds after that.\n"
    "Exit code: that of COMMAND, 128 + N when signal N ended it; 1 when COMMAND did well but nothing was recorded; 2 "
    "wrong\n"
    "usage; 126, 127 COMMAND cannot be run.\n"
    "\n"
    "Example:\n"
    "  oomb-profile run --out step.profile -- python train.py --steps 3\n"
    "  oomb-profile run --steps 3:4 --step-range step -- python train.py    # torch.cuda.nvtx.range_push(\"step\")\n";

// FILE.<process> of further processes.
std::vector<std::filesystem::path> further_files(const std::filesystem::path& out) {
    std::vector<std::filesystem::path> found;
    const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : ".";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string(), prefix = out.filename().string() + ".";
        if (name.starts_with(prefix) && name.size() > prefix.size() &&
            name.find_first_not_of("0123456789", prefix.size()) == std::string::npos) {
            found.push_back(entry.path());
        }
    }
    return found;
}

void require_free(const std::filesystem::path& out) {
    if (std::filesystem::exists(out)) {
        fail<FileError>("{}: exists already; name another file with --out, or remove it", out.string());
    }
    if (out.has_parent_path() && !std::filesystem::is_directory(out.parent_path())) {
        fail<FileError>("{}: there is no folder {} to write it to; make it, or name another file with --out",
                        out.string(), out.parent_path().string());
    }
    if (const auto others = further_files(out); !others.empty()) {
        fail<FileError>(
            "{}: exists already, and would be taken for a recording of this run; name another file with --out, or "
            "remove it",
            others.front().string());
    }
}

struct Outcome {
    std::string text;
    bool recorded = false;  // the recorder was at work, in the window too
};

Outcome outcome_of(const std::filesystem::path& path, const RecordingWindow& window) try {
    const Profile profile = read_profile(path);
    std::string text = fmt::format("oomb-profile: {}: {} kernels, {} copies, {}\n", path.string(),
                                   format_count(std::ssize(profile.kernels)), format_count(std::ssize(profile.copies)),
                                   format_bytes_short(static_cast<std::int64_t>(std::filesystem::file_size(path))));
    for (const std::string& line : warnings_of(profile)) {
        text += fmt::format("oomb-profile: note: {}\n", line);
    }
    // Where the recorder could not begin, it leaves its reason and no time of beginning.
    const bool has_work = !profile.kernels.empty() || !profile.copies.empty() || !profile.memsets.empty();
    return {text, profile.header.begin_ns != 0 && (has_work || window.everything())};
} catch (const Error& error) {
    return {fmt::format("oomb-profile: {}\n", error.what())};
}

// Tells of every file of the run; whether any holds a recording.
bool tell_outcomes(const std::filesystem::path& out, const RecordingWindow& window, std::ostream& err) {
    std::vector<std::filesystem::path> files = further_files(out);
    files.insert(files.begin(), out);
    bool recorded = false;
    for (const std::filesystem::path& file : files) {
        const Outcome outcome = outcome_of(file, window);
        err << outcome.text;
        recorded = recorded || outcome.recorded;
    }
    return recorded;
}

void add_request_flags(CLI::App& app, RecordingRequest& request, std::string& steps) {
    RecordingWindow& window = request.window;
    app.add_option("--seconds", window.seconds, "record for so long, from CUDA's start or --start-after on")
        ->type_name("S");
    app.add_option("--start-after", window.start_after_seconds, "begin so many seconds after CUDA's start")
        ->type_name("S");
    app.add_option("--steps", steps, "record from the begin of step A to the end of step B, counted from 1")
        ->type_name("A:B");
    app.add_option(
           "--step-range", window.step_range,
           "steps are the NVTX ranges of this name, counted from CUDA's start on; without it those of oomb-train")
        ->type_name("NAME");
    app.add_flag("--operations", request.operations,
                 "for oomb-train: also say which operation of the schedule each kernel and copy belongs to; CUDA calls "
                 "are recorded for that");
    app.add_flag("--api", request.calls, "also record every call of CUDA's runtime and driver");
}

}  // namespace

ExitCode run(const Call& call) {
    CLI::App app(kDescription, call.program);
    std::string out = "oomb.profile";
    RecordingRequest request;
    std::string steps;
    bool with_counters = false;
    std::vector<std::string> command;
    prepare_command_line(app, kFooter);
    app.add_option("--out", out, "the recording; must not exist")->type_name("FILE")->capture_default_str();
    add_request_flags(app, request, steps);
    app.add_flag("--counters", with_counters,
                 "also sample bytes over PCIe and of GPU memory every millisecond, of all GPUs; needs permission");
    app.add_option("COMMAND", command, "the program and its arguments, after --")->type_name("")->required();
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    if (!steps.empty()) {
        request.window.steps = parse_steps("--steps", steps);
    }
    check_request(request);
    require_free(out);
    const Recorder recorder = find_recorder();
    std::optional<SampledCounters> counters;
    if (with_counters) {
        counters.emplace(recorder, out);
    }
    const int code = run_command(command, recorder_environment(recorder, out, request));
    if (code == 126 || code == 127) {
        call.err << fmt::format("{}: {}: {}\n", call.program, command[0],
                                code == 127 ? "no such program" : "cannot be run");
    }
    if (!std::filesystem::exists(out)) {
        call.err << fmt::format(
            "{}: nothing was recorded: {} ended without touching CUDA (or before the driver loaded "
            "the recorder)\n",
            call.program, command[0]);
        return code == 0 ? ExitCode::kFailed : static_cast<ExitCode>(code);
    }
    if (counters) {
        counters->add_to_recording(request.window, call.err);
    }
    const bool recorded = tell_outcomes(out, request.window, call.err);
    return code == 0 && !recorded ? ExitCode::kFailed : static_cast<ExitCode>(code);
}

}  // namespace oomb::profiler
