#include "simulator/cli/run_plan.hpp"

#include <fmt/format.h>

#include "runtime/core/text_file.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/flags/run_flags.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/default_profile.hpp"
#include "simulator/explain.hpp"
#include "simulator/limits.hpp"
#include "simulator/render.hpp"
#include "simulator/time_report.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kProgram = "oomb-plan";
constexpr const char* kDescription =
    "Says what a training run needs in GPU and host memory, byte by byte, and how long a step takes, before anything\n"
    "is started.\n"
    "The plan is the one that oomb-train carries out under the same flags.";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "\n"
    "Exit code: 0 the run fits; 1 failed, a file cannot be read or written; 2 wrong usage; 3 the run does not fit,\n"
    "and the peaks under other flags are printed.\n"
    "\n"
    "Example: Qwen2.5-7B over 128K tokens on one GPU, K/V pages in host memory\n"
    "  oomb-plan --model models/qwen2.5-7b.json --context 128K --offload host --json plan.json\n";

struct PlanFlags {
    RunFlags run;
    std::string hardware;
    std::string json_path;
};

HardwareProfile profile_of(const PlanFlags& flags, DeviceKind device) {
    return flags.hardware.empty() ? default_profile() : read_gpu_profile(flags.hardware, device);
}

ExitCode plan_run(const PlanFlags& all_flags, std::ostream& out, std::ostream& err) {
    const RunFlags& flags = all_flags.run;
    const RunConfiguration run = to_run_configuration(flags);
    const HardwareProfile profile = profile_of(all_flags, run.device);
    const ModelShape model = read_model_shape(flags.model);
    const schedule::Plan plan = schedule::make_plan(model, run);
    const Limits limits{free_memory_limit_bytes(flags).value_or(0)};
    if (const std::optional<std::string> warning = position_warning(run, model)) {
        err << fmt::format("{}: warning: {}\n", kProgram, *warning);
    }
    const std::vector<Excess> excesses = excesses_of(plan, limits);
    std::optional<Prediction> prediction;
    std::string time;
    if (excesses.empty() && run.device == DeviceKind::kCuda) {
        if (const auto reason = why_unpredictable(plan, profile)) {
            time = fmt::format("\ntime of a step: not predicted, {}\n", *reason);
        } else {
            prediction = predict_step(plan, profile);
            time = render_time(*prediction);
        }
    }
    out << render_plan(plan, model_name(flags.model), limits, time);
    if (!all_flags.json_path.empty()) {
        write_text_file(all_flags.json_path, plan_json(plan, prediction));
    }
    if (!out.flush()) {
        fail<FileError>("standard output: writing failed");
    }
    if (!excesses.empty()) {
        err << fmt::format("{}: does not fit\n", kProgram) << explain_excess(plan, excesses, limits);
        return ExitCode::kDoesNotFit;
    }
    return ExitCode::kDone;
}

}  // namespace

int run_plan(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
    const ExitCode code = run_guarded(kProgram, err, [&] {
        CLI::App app(kDescription, kProgram);
        PlanFlags flags;
        flags.run.device = "cuda";
        prepare_command_line(app, kFooter);
        add_run_flags(app, flags.run);
        app.add_option("--hardware", flags.hardware,
                       "hardware profile (hardware/*.json) of the machine whose time is predicted, with --device cuda")
            ->type_name("FILE")
            ->default_str("H200 SXM")
            ->group("Output");
        app.add_option("--json", flags.json_path,
                       "also write the plan to this file (docs/plan-format.md), whether it fits or not")
            ->type_name("FILE")
            ->group("Output");
        const std::optional<ExitCode> end = parse_command_line(app, argc, argv, out, err);
        return end ? *end : plan_run(flags, out, err);
    });
    return static_cast<int>(code);
}

}  // namespace oomb::simulator
