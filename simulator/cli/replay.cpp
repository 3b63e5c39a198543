#include "simulator/replay/replay.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "runtime/core/known_hardware.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/trace/trace.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/cli/recorded_plan.hpp"
#include "simulator/cli/replay_report.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/limits.hpp"
#include "simulator/search/search.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kDescription =
    "Carries a recorded run (oomb-train --trace) out again on the simulator's clock: as it was, with the error of "
    "that,\n"
    "and with the flags below changed. The run is what the trace says; a flag that is left out stays as recorded.";
constexpr const char* kFooter =
    "Exit code: 0 replayed; 1 failed, the trace cannot be read; 2 wrong usage; 3 the changed run does not fit.\n"
    "\n"
    "Example: what a bus of half the speed and larger windows would have made of a run\n"
    "  oomb-plan replay --trace trace.jsonl --host-to-device 25 --device-to-host 25 --window 32K\n";

constexpr double kGiga = 1e9;
constexpr double kLeastBandwidth = 1e-3, kMostBandwidth = 1e5;  // GB/s

struct ReplayFlags {
    RunFlags run;
    std::string trace;
    std::optional<std::int64_t> step;
    std::optional<double> host_to_device, device_to_host;  // GB/s
    std::vector<double> copy_turns;                        // ms: ours, the other program's; empty: none
    std::string hardware;                                  // empty: default_hardware()
    std::string json_path;
};

bool is_of_run(const CLI::Option& option) {
    return option.get_group() == "How a sequence is cut" || option.get_group() == "Where bytes lie";
}

void add_flags(CLI::App& app, ReplayFlags& flags) {
    app.add_option("--trace", flags.trace, "the recorded run, a file that oomb-train --trace wrote")
        ->type_name("FILE")
        ->required()
        ->group("What is replayed");
    app.add_option("--step", flags.step, "one step")
        ->type_name("N")
        ->default_str("of median length, without the first if there are more")
        ->group("What is replayed");
    add_run_flags(app, flags.run);
    for (const CLI::Option* option : std::as_const(app).get_options()) {
        CLI::Option* flag = app.get_option(option->get_name());
        if (option->get_group() == "What is trained" || option->get_name() == "--device") {
            app.remove_option(flag);
        } else if (is_of_run(*option)) {
            flag->default_str("as recorded");
        }
    }
    const auto bandwidth = [&](const char* name, std::optional<double>& value, const char* what) {
        app.add_option(name, value, what)->type_name("GB/S")->default_str("as recorded")->group("Where bytes lie");
    };
    bandwidth("--host-to-device", flags.host_to_device,
              "bandwidth of copies to the device, powers of 1000; while both directions copy, as much less as it was");
    bandwidth("--device-to-host", flags.device_to_host, "the same of copies to the host");
    app.add_option("--copy-turns", flags.copy_turns,
                   "another program copies all the time in both directions: how long a turn of ours and one of its "
                   "own lasts on a copy engine, in milliseconds (docs/prediction.md)")
        ->type_name("OURS,ITS")
        ->delimiter(',')
        ->expected(2)
        ->default_str("no other program")
        ->group("Where bytes lie");
    app.add_option(
           "--hardware", flags.hardware,
           "machine or hardware profile that gives the time of what the changed run does and the trace has not, "
           "with the trace of a GPU")
        ->type_name("NAME|FILE")
        ->default_str("h200_sxm")
        ->group("Output");
    app.add_option("--json", flags.json_path, "also write what is found to this file (docs/plan-format.md)")
        ->type_name("FILE")
        ->group("Output");
}

bool is_of_the_bus(std::string_view name) {
    return name == "--host-to-device" || name == "--device-to-host" || name == "--copy-turns";
}

// Values that are not given stay as `flags` has them. `changes`: what was typed of what is changed.
struct Typed {
    std::optional<ExitCode> end = std::nullopt;
    std::string changes = {};
    bool schedule = false;
};
Typed parse(const Call& call, ReplayFlags& flags) {
    CLI::App app(kDescription, call.program);
    prepare_command_line(app, kFooter);
    add_flags(app, flags);
    Typed typed{.end = parse_command_line(app, call.argc, call.argv, call.out, call.err)};
    for (const CLI::Option* option : std::as_const(app).get_options()) {
        if (option->count() > 0 && is_of_run(*option)) {
            const std::string name = option->get_name();
            typed.changes += fmt::format("{}{} {}", typed.changes.empty() ? "" : " ", name,
                                         quoted_for_shell(fmt::format("{}", fmt::join(option->results(), ","))));
            typed.schedule = typed.schedule || !is_of_the_bus(name);
        }
    }
    return typed;
}

std::optional<double> bytes_per_second(std::string_view flag, const std::optional<double>& given) {
    if (given && !(*given >= kLeastBandwidth && *given <= kMostBandwidth)) {
        fail<UsageError>("{}: found {}, allowed is {} to {} GB/s", flag, *given, kLeastBandwidth, kMostBandwidth);
    }
    return given ? std::optional(*given * kGiga) : std::nullopt;
}

CopyTurns turns_of(const std::vector<double>& milliseconds) {
    constexpr double kLeast = 1e-3, kMost = 1e3;  // ms
    for (const double turn : milliseconds) {
        if (!(turn >= kLeast && turn <= kMost)) {
            fail<UsageError>("--copy-turns: found {}, allowed are two turns of {} to {} ms, ours first",
                             fmt::join(milliseconds, ","), kLeast, kMost);
        }
    }
    return milliseconds.empty() ? CopyTurns{} : CopyTurns{milliseconds[0] * 1e-3, milliseconds[1] * 1e-3};
}

class Replay {
  public:
    Replay(const Call& call, const ReplayFlags& flags, const Typed& typed, RecordedPlan recorded)
        : call_(call),
          flags_(flags),
          typed_(typed),
          recorded_(std::move(recorded)),
          profile_(flags.hardware.empty() ? default_hardware()
                                          : read_gpu_profile(flags.hardware, recorded_.plan.run.device)),
          changes_{.host_to_device = bytes_per_second("--host-to-device", flags.host_to_device),
                   .device_to_host = bytes_per_second("--device-to-host", flags.device_to_host),
                   .copy_turns = turns_of(flags.copy_turns),
                   .schedule = typed.schedule} {}

    ExitCode run() {
        const schedule::Plan plan = planned();
        if (const auto excesses = excesses_of(plan, {}); changes_.schedule && !excesses.empty()) {
            call_.err << fmt::format("{}: the changed run does not fit\n", call_.program)
                      << explain_excess(plan, excesses, {}, profile_);
            return ExitCode::kDoesNotFit;
        }
        const Recording recording = read_recording(flags_.trace, recorded_.plan, flags_.step);
        const Host host = host_of(recorded_.plan);
        RecordedDurations as_recorded(recording, host, {}, nullptr);
        Replayed replayed{.run = as_typed(recorded_.flags),
                          .changes = typed_.changes,
                          .recording = recording,
                          .as_recorded = as_recorded,
                          .unchanged = simulate(recorded_.plan, as_recorded, recording),
                          .notes = recording.notes};
        if (changes_.any()) {
            const std::unique_ptr<Durations> stand_in = stand_in_of(plan);
            RecordedDurations changed(recording, host, changes_, stand_in.get());
            replayed.changed = simulate(plan, changed, recording);
            note_strangers(changed, stand_in != nullptr, replayed.notes);
        }
        call_.out << replay_table(replayed, flags_.trace);
        write_json(flags_.json_path, replay_json(replayed));
        finish(call_.out);
        return ExitCode::kDone;
    }

  private:
    schedule::Plan planned() const {
        if (!changes_.schedule) {
            return recorded_.plan;
        }
        RunConfiguration run = to_run_configuration(flags_.run);
        run.attention_kernels = recorded_.plan.run.attention_kernels;  // whose times are in the trace
        if (schedule::StepShape(recorded_.plan.model, run).selects()) {
            fail<UnsupportedError>("the changed run has lists of top-K pages, and the trace has none");
        }
        return plan_for_time(recorded_.plan.model, run, profile_);
    }

    std::unique_ptr<Durations> stand_in_of(const schedule::Plan& plan) const {
        const bool known =
            plan.run.device == DeviceKind::kCuda && !missing_rate(profile_, plan.run.compute, plan.run.deterministic);
        return known ? std::make_unique<ProfileDurations>(plan.run, profile_) : nullptr;
    }

    static Prediction simulate(const schedule::Plan& plan, RecordedDurations& durations, const Recording& recording) {
        Prediction prediction = simulate_step(plan, durations, recording.sequences);
        prediction.hardware = recording.device;
        return prediction;
    }

    void note_strangers(const RecordedDurations& durations, bool has_profile, std::vector<std::string>& notes) const {
        std::vector<std::string_view> names;
        for (const schedule::Kind kind : durations.not_recorded()) {
            names.push_back(name_of(kind));
        }
        if (!names.empty()) {
            notes.push_back(fmt::format(
                "Not in the trace: {}. Their times are those of {}.", fmt::join(names, ", "),
                has_profile ? fmt::format("the hardware profile \"{}\"", profile_.name) : "operations like them"));
        }
    }

    const Call& call_;
    const ReplayFlags& flags_;
    const Typed& typed_;
    RecordedPlan recorded_;
    HardwareProfile profile_;
    Changes changes_;
};

}  // namespace

ExitCode replay(const Call& call) {
    ReplayFlags flags;
    if (const Typed typed = parse(call, flags); typed.end) {
        return *typed.end;
    }
    const trace::TraceHeader header = trace::TraceReader(flags.trace).header();
    RecordedPlan recorded = recorded_plan(JsonNode(header.plan, fmt::format("{}, line 1, plan", flags.trace)));
    // Once more, on top of what was recorded.
    flags.run = recorded.flags;
    const Typed typed = parse(call, flags);
    return Replay(call, flags, typed, std::move(recorded)).run();
}

}  // namespace oomb::simulator
