#include "simulator/cli/run_plan.hpp"

#include <fmt/format.h>

#include "runtime/core/text_file.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/flags/run_flags.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/explain.hpp"
#include "simulator/limits.hpp"
#include "simulator/render.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kProgram = "oomb-plan";
constexpr const char* kDescription =
    "Says what a training run needs in GPU and host memory, byte by byte, before anything is started.\n"
    "The plan is the one that oomb-train carries out under the same flags.";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "\n"
    "Exit code: 0 the run fits; 1 failed, a file cannot be read or written; 2 wrong usage; 3 the run does not fit,\n"
    "and the peaks under other flags are printed.\n"
    "\n"
    "Example: Qwen2.5-7B over 128K tokens on one GPU, K/V pages in host memory\n"
    "  oomb-plan --model models/qwen2.5-7b.json --context 128K --offload host --json plan.json\n";

ExitCode plan_run(const RunFlags& flags, const std::string& json_path, std::ostream& out, std::ostream& err) {
    const RunConfiguration run = to_run_configuration(flags);
    const ModelShape model = read_model_shape(flags.model);
    const schedule::Plan plan = schedule::make_plan(model, run);
    const Limits limits{free_memory_limit_bytes(flags).value_or(0)};
    if (const std::optional<std::string> warning = position_warning(run, model)) {
        err << fmt::format("{}: warning: {}\n", kProgram, *warning);
    }
    out << render_plan(plan, model_name(flags.model), limits);
    if (!json_path.empty()) {
        write_text_file(json_path, schedule::to_json(plan));
    }
    if (!out.flush()) {
        fail<FileError>("standard output: writing failed");
    }
    const std::vector<Excess> excesses = excesses_of(plan, limits);
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
        RunFlags flags;
        flags.device = "cuda";
        std::string json_path;
        prepare_command_line(app, kFooter);
        add_run_flags(app, flags);
        app.add_option("--json", json_path,
                       "also write the plan to this file (docs/plan-format.md), whether it fits or not")
            ->type_name("FILE")
            ->group("Output");
        const std::optional<ExitCode> end = parse_command_line(app, argc, argv, out, err);
        return end ? *end : plan_run(flags, json_path, out, err);
    });
    return static_cast<int>(code);
}

}  // namespace oomb::simulator
