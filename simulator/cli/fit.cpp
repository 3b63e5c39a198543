#include "runtime/core/text_file.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/flags/training_flags.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/render.hpp"
#include "simulator/report/time_report.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kDescription =
    "Says what a training run needs in GPU and host memory, byte by byte, and how long a step takes, before anything\n"
    "is started.\n"
    "The plan is the one that oomb-train, or with --eval oomb-train eval, carries out under the same flags.\n"
    "\n"
    "Sub-commands; oomb-plan best --help and so on list their flags\n"
    "  oomb-plan fit [flags]          does it fit, and how long does a step take; the same without \"fit\"\n"
    "  oomb-plan best [flags]         the flags that take the least time, and time against GPU memory\n"
    "  oomb-plan max-context [flags]  the longest context that fits, with its time\n"
    "  oomb-plan sweep [flags]        contexts x chunks x windows x budgets, as a table, CSV or JSON\n"
    "  oomb-plan timeline [flags]     a step, simulated or recorded, as a page or for Perfetto\n"
    "  oomb-plan replay [flags]       a recorded run again, under other windows, budgets or bandwidths\n"
    "  oomb-plan policies [flags]     which pages stay in GPU memory: what runs, beside the best there is\n"
    "  oomb-plan locality [flags]     which pages the lists of a recorded top-K run name\n"
    "  oomb-plan calibrate [flags]    measures this machine: a profile for --hardware";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "\n"
    "Exit code: 0 the run fits; 1 failed, a file cannot be read or written; 2 wrong usage; 3 the run does not fit,\n"
    "and the peaks under other flags are printed.\n"
    "\n"
    "Example: Qwen2.5-7B over 128K tokens on one GPU, K/V pages in host memory\n"
    "  oomb-plan --model models/qwen2.5-7b.json --context 128K --offload host --json plan.json\n";

struct FitFlags {
    PlanFlags plan;
    bool exact = false;
    bool evaluates = false;
};

RunConfiguration run_of(const FitFlags& flags) {
    RunConfiguration run = to_run_configuration(flags.plan.run);
    if (flags.evaluates) {
        run.optimizer = false;
        run.forward_only = true;
    }
    return run;
}

// As oomb-train eval, which has none of them.
void refuse_training_flags(const CLI::App& app) {
    for (const char* name : kTrainingFlags) {
        if (app.count(name) > 0) {
            fail<UsageError>(
                "{} with --eval: it is a flag of training, and an evaluation computes no gradient and changes no "
                "weight; leave one of the two out",
                name);
        }
    }
}

// In its own pages, all layers: the user has asked for what takes minutes.
Predicted predict_exactly(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists) {
    if (const auto reason = why_unpredictable(plan, profile)) {
        return {std::nullopt, *reason};
    }
    return {simulate_step(plan, profile, nullptr, lists), ""};
}

ExitCode print(const FitFlags& fit_flags, const Call& call) {
    const PlanFlags& all_flags = fit_flags.plan;
    const RunFlags& flags = all_flags.run;
    const RunConfiguration run = run_of(fit_flags);
    if (fit_flags.exact && run.device != DeviceKind::kCuda) {
        fail<UsageError>("--exact with --device cpu: times are those of a GPU, so none is predicted; leave it out");
    }
    const HardwareProfile profile = profile_of(all_flags, run.device);
    const ModelShape model = read_model_shape(flags.model);
    const ListSource lists = list_source(all_flags, run);
    const schedule::Plan plan = plan_for_time(model, run, profile, lists.locality);
    const Limits limits{free_memory_limit_bytes(flags).value_or(0)};
    print_remarks(call, plan);
    const std::vector<Excess> excesses = excesses_of(plan, limits);
    std::optional<Prediction> prediction;
    std::string time;
    if (excesses.empty() && run.device == DeviceKind::kCuda) {
        Predicted predicted =
            fit_flags.exact ? predict_exactly(plan, profile, lists) : try_to_predict(plan, profile, lists);
        prediction = std::move(predicted.prediction);
        time = prediction ? render_time(*prediction, fit_flags.evaluates)
                          : fmt::format("\ntime of {}: not predicted, {}\n",
                                        fit_flags.evaluates ? "a sequence" : "a step", predicted.why_not);
    }
    call.out << render_plan(plan, model_name(flags.model), limits, time);
    if (excesses.empty()) {
        call.out << fmt::format("\n{} with it: {}\n", fit_flags.evaluates ? "evaluate" : "train",
                                train_command(all_flags, run));
    }
    if (!all_flags.json_path.empty()) {
        write_text_file(all_flags.json_path, plan_json(plan, prediction));
    }
    finish(call.out);
    if (!excesses.empty()) {
        call.err << fmt::format("{}: does not fit\n", call.program) << explain_excess(plan, excesses, limits, profile);
        return ExitCode::kDoesNotFit;
    }
    return ExitCode::kDone;
}

}  // namespace

ExitCode fit(const Call& call) {
    CLI::App app(kDescription, call.program);
    FitFlags flags;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags.plan, "also write the plan to this file (docs/plan-format.md), whether it fits or not");
    add_page_trace_flag(app, flags.plan);
    app.add_flag("--exact", flags.exact,
                 "predict the time of a long step in its own pages too, seconds to minutes of work for what differs "
                 "by less than 0.5 %")
        ->group("Output");
    app.add_flag("--eval", flags.evaluates,
                 "plan the evaluation of a sequence (oomb-train eval) in place of a training step: every chunk runs "
                 "forward once")
        ->group("What is trained");
    if (const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    if (flags.evaluates) {
        refuse_training_flags(app);
    }
    return print(flags, call);
}

}  // namespace oomb::simulator
