#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "runtime/core/known_hardware.hpp"
#include "runtime/core/memory_info.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "runtime/core/version.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/calibration/rate_fit.hpp"
#include "simulator/calibration/submit_fit.hpp"
#include "simulator/cli/calibration_steps.hpp"
#include "simulator/cli/child_process.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/cli/machine_facts.hpp"
#include "simulator/cli/recorded_plan.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kDescription =
    "Measures the machine it runs on and writes its hardware profile, for --hardware: runs short steps of made-up\n"
    "models with oomb-train --synthetic --trace, and fits the profile's numbers to what their operations took.";
constexpr const char* kFooter =
    "Nothing else should run on the GPU. An H200 takes some five minutes and 60 GB of its memory, 30 GB of the "
    "host's.\n"
    "Of what the steps do not show (memory, peak, number of multiprocessors) --base has the numbers.\n"
    "\n"
    "Exit code: 0 written; 1 failed, a step failed or a file cannot be read or written; 2 wrong usage.\n"
    "\n"
    "Example\n"
    "  oomb-plan calibrate --out my_h200.json\n"
    "  oomb-plan --model models/qwen2.5-7b.json --context 128K --offload host --hardware my_h200.json\n";

struct CalibrateFlags {
    std::string out;
    std::string device = "cuda";
    std::string train;  // empty: beside this program
    std::vector<std::string> from;
    std::string base;               // empty: the known machine of the device's name
    std::string name;               // empty: the device's
    std::vector<std::string> only;  // begins of keys; empty: all
};

// Removed with all that is in it, however the command ends.
class ScratchFolder {
  public:
    ScratchFolder() : path_(std::filesystem::temp_directory_path() / fmt::format("oomb-calibrate-{}", getpid())) {
        std::filesystem::create_directories(path_);
    }
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

// oomb-train in the folder of this program, else wherever the search path has it.
std::string trainer_beside_this_program() {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    const std::filesystem::path beside = self.parent_path() / "oomb-train";
    return !error && std::filesystem::exists(beside) ? beside.string() : "oomb-train";
}

// What runs are fitted to, and the device that they name.
struct Recorded {
    std::vector<RecordedRun> runs;
    std::optional<UntracedStep> untraced;
    std::string device;
    std::vector<std::string> notes;
};

void add_trace(const std::filesystem::path& path, Recorded& recorded) {
    trace::TraceReader reader(path);
    const schedule::Plan plan = recorded_plan(JsonNode(reader.header().plan, path.string() + ": plan")).plan;
    const schedule::StepShape step(plan.model, plan.run);
    if (!recorded.device.empty() && reader.header().device != recorded.device) {
        fail<FileError>("{}: recorded on \"{}\", the traces before on \"{}\"; a profile is of one machine",
                        path.string(), reader.header().device, recorded.device);
    }
    recorded.device = reader.header().device;
    RecordedShapes shapes = shape_times(reader, step);
    recorded.runs.push_back({step.run(), std::move(shapes.times)});
    for (const std::string& note : shapes.notes) {
        recorded.notes.push_back(fmt::format("{}: {}", path.string(), note));
    }
}

std::vector<std::string> run_flags_of(const CalibrationStep& step, const std::string& device,
                                      const std::filesystem::path& config) {
    std::vector<std::string> flags = {"--device", device, "--model", config.string()};
    std::istringstream words(step.flags);
    for (std::string word; words >> word;) {
        flags.push_back(word);
    }
    return flags;
}

// What the step's plan is, without running it.
schedule::Plan plan_of(std::vector<std::string> run_flags) {
    CLI::App app;
    RunFlags flags;
    add_run_flags(app, flags);
    std::ranges::reverse(run_flags);  // as the library takes them
    app.parse(run_flags);
    return schedule::make_plan(read_model_shape(flags.model), to_run_configuration(flags));
}

// Median of the steps after the first.
double seconds_of(const std::filesystem::path& metrics) {
    std::istringstream lines(read_text_file(metrics, kMiB));
    std::vector<double> seconds;
    for (std::string line; std::getline(lines, line);) {
        const Json json = parse_json(line, metrics.string());
        seconds.push_back(JsonNode(json, metrics.string()).at("seconds").at("total").as_number(0));
    }
    if (seconds.size() < 2) {
        fail<FileError>("{}: {} steps, expected at least 2", metrics.string(), seconds.size());
    }
    std::sort(seconds.begin() + 1, seconds.end());
    return seconds[1 + (seconds.size() - 1) / 2];
}

std::string as_line(const std::vector<std::string>& command) {
    std::string line;
    for (const std::string& word : command) {
        line += (line.empty() ? "" : " ") + quoted_for_shell(word);
    }
    return line;
}

void run_step(const CalibrationStep& step, const std::vector<std::string>& command, const ScratchFolder& scratch,
              const PassSignalsOn& signals) {
    const ChildResult result = run_child(command, scratch.path());
    if (signals.interrupted()) {
        fail<UnsupportedError>("interrupted; nothing was written");
    }
    if (result.exit_code != 0) {
        fail<FileError>("the step \"{}\" failed, exit code {} of\n  {}\n{}", step.name, result.exit_code,
                        as_line(command), result.errors);
    }
}

// The machine whose memory, peak and multiprocessors are taken over: the known one that is called like the device.
HardwareProfile base_of(const CalibrateFlags& flags, const std::string& device) {
    if (!flags.base.empty()) {
        return read_gpu_profile(flags.base, DeviceKind::kCuda);
    }
    if (device == "cpu") {
        HardwareProfile base;
        base.gpu_memory = base.host_memory = {host_memory().available_bytes, "what the system had free"};
        base.multiprocessors = {1, "none: one thread runs all operations"};
        base.submit.source = base.submit_page.source = "none: one thread runs all operations";
        return base;
    }
    if (const HardwareProfile* known = known_hardware(known_hardware_of_gpu(device))) {
        return *known;
    }
    fail<UsageError>(
        "--base: no known machine has the device \"{}\"; name one, or a profile, with its memory, peak and "
        "multiprocessors",
        device);
}

Recorded measure(const CalibrateFlags& flags, std::ostream& out) {
    const ScratchFolder scratch;
    const PassSignalsOn signals;
    const std::string train = flags.train.empty() ? trainer_beside_this_program() : flags.train;
    const std::vector<CalibrationStep> steps =
        calibration_steps(flags.device == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda);
    Recorded recorded;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const CalibrationStep& step = steps[i];
        out << fmt::format("{}/{} {}: {}", i + 1, steps.size(), step.model.name, step.name) << std::flush;
        const auto begin = std::chrono::steady_clock::now();
        const std::filesystem::path config = scratch.path() / (step.model.name + ".json");
        write_text_file(config, config_json(step.model));
        const std::filesystem::path result = scratch.path() / std::to_string(i);
        const std::vector<std::string> run_flags = run_flags_of(step, flags.device, config);
        std::vector<std::string> command = {
            train,          "--synthetic", "--steps", std::to_string(step.steps), step.traced ? "--trace" : "--metrics",
            result.string()};
        command.insert(command.end(), run_flags.begin(), run_flags.end());
        try {
            run_step(step, command, scratch, signals);
        } catch (const Error&) {
            out << "\n" << std::flush;
            throw;
        }
        if (step.traced) {
            add_trace(result, recorded);
            base_of(flags, recorded.device);  // a machine that is not known is said after the first step, not the last
        } else {
            recorded.untraced = UntracedStep{plan_of(run_flags), seconds_of(result)};
        }
        std::filesystem::remove(result);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        out << fmt::format(", {}\n", format_duration(taken.count())) << std::flush;
    }
    return recorded;
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm date = {};
    gmtime_r(&now, &date);
    return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

void print_errors(const RateFit& fit, std::ostream& out) {
    out << "\n  what operations took, and how far the profile is from it\n";
    for (const FitError& error : fit.errors) {
        out << fmt::format("  {:<32}{:>4} shapes {:>10} {:>+7.1f} %, at most {:>5.1f} %\n", error.kind, error.shapes,
                           format_duration(error.seconds), 100 * error.error, 100 * error.largest);
    }
    for (const std::string& key : fit.kept) {
        out << fmt::format("  {}: no step shows it\n", key);
    }
}

// `base` with those numbers of `fitted` whose keys begin as asked; all else, name and date too, stays.
HardwareProfile with_only(const std::vector<std::string>& begins, const HardwareProfile& base,
                          const HardwareProfile& fitted) {
    using Ordered = nlohmann::ordered_json;
    Ordered merged = Ordered::parse(to_json(base));
    const Ordered source = Ordered::parse(to_json(fitted));
    for (const std::string& begin : begins) {
        int found = 0;
        for (const auto& [key, value] : source.items()) {
            if (key.starts_with(begin) && value.is_object()) {
                merged[key] = value;
                ++found;
            }
        }
        if (found == 0) {
            fail<UsageError>("--only: found \"{}\", and no key of the fitted profile begins with it", begin);
        }
    }
    return parse_hardware_profile(merged.dump(), "the fitted profile");
}

// What can be known before minutes of measuring.
void check_flags(const CalibrateFlags& flags) {
    if (flags.device != "cuda" && flags.device != "cpu") {
        fail<UsageError>("--device: found \"{}\", allowed is cuda or cpu", flags.device);
    }
    if (std::filesystem::exists(flags.out)) {
        fail<UsageError>("--out: {} exists already; name another file, or remove it", flags.out);
    }
    const std::filesystem::path folder = std::filesystem::absolute(flags.out).parent_path();
    if (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK | X_OK) != 0) {
        fail<FileError>("--out: {} cannot be written: {} is not a folder that may be written to; name another",
                        flags.out, folder.string());
    }
    if (!flags.base.empty()) {
        base_of(flags, "");
    }
}

ExitCode run(const CalibrateFlags& flags, const Call& call) {
    check_flags(flags);
    Recorded recorded;
    for (const std::string& path : flags.from) {
        add_trace(path, recorded);
    }
    if (flags.from.empty()) {
        recorded = measure(flags, call.out);
    }
    const BuildInfo& build = build_info();
    const std::string source = fmt::format("oomb-plan calibrate {} ({}), {}", build.version, build.commit, today());
    RateFit fit = fit_rates(recorded.runs, base_of(flags, recorded.device), source);
    if (recorded.untraced) {
        fit_submit(*recorded.untraced, source, fit.profile);
    } else {
        fit.kept.emplace_back("submit");
    }
    fit.kept.emplace_back("submit_page");
    print_errors(fit, call.out);
    for (const std::string& note : recorded.notes) {
        call.out << fmt::format("  {}\n", note);
    }
    fit.profile.name = flags.name.empty() ? recorded.device : flags.name;
    fit.profile.measured = fmt::format("{}; {}", today(), flags.from.empty() ? machine_facts() : "from given traces");
    if (!flags.only.empty()) {
        fit.profile = with_only(flags.only, base_of(flags, recorded.device), fit.profile);
    }
    write_text_file(flags.out, to_json(fit.profile));
    call.out << fmt::format("\nwrote {}\n", flags.out);
    finish(call.out);
    return ExitCode::kDone;
}

}  // namespace

ExitCode calibrate(const Call& call) {
    CLI::App app(kDescription, call.program);
    CalibrateFlags flags;
    prepare_command_line(app, kFooter);
    const auto add = [&](const char* name, std::string& value, const char* type, const char* what) {
        return app.add_option(name, value, what)->type_name(type)->group("Calibration");
    };
    add("--out", flags.out, "FILE", "write the profile here; must not exist")->required();
    add("--device", flags.device, "cuda|cpu", "what to measure")->capture_default_str();
    add("--train", flags.train, "PROGRAM", "oomb-train to run (default: the one beside this program)");
    app.add_option("--from", flags.from, "fit to these traces (oomb-train --trace) instead of running steps")
        ->type_name("FILE...")
        ->group("Calibration");
    add("--base", flags.base, "NAME|FILE",
        "profile with the numbers that steps do not show (default: the known machine of the same name)");
    add("--name", flags.name, "TEXT", "what the profile calls the machine (default: the device's name)");
    app.add_option("--only", flags.only,
                   "write --base with those numbers replaced whose keys begin so (own_attention); all are fitted")
        ->type_name("KEY...")
        ->group("Calibration");
    const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err);
    return end ? *end : run(flags, call);
}

}  // namespace oomb::simulator
