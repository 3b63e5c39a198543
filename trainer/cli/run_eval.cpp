#include "trainer/cli/run_eval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/remarks.hpp"
#include "simulator/report/render.hpp"
#include "trainer/cli/eval_flags.hpp"
#include "trainer/cli/program.hpp"
#include "trainer/data/npy.hpp"
#include "trainer/run/evaluation_report.hpp"

namespace oomb::trainer {
namespace {

constexpr const char* kDescription =
    "Measures the loss of a Hugging Face model over long sequences, by position: every chunk runs forward once, K/V "
    "lie\n"
    "in pages, and memory does not grow with the context beyond them. No weight is changed.";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "SIGINT and SIGTERM end the run; what was evaluated before is printed and written.\n"
    "\n"
    "Exit code: 0 done; 1 failed; 2 wrong usage; 3 the run does not fit, and the peaks under other flags are printed.\n"
    "\n"
    "Example: loss by position over 32K tokens, each page of queries attending to 16 pages before its chunk\n"
    "  oomb-train eval --model smollm2 --data held-out.npy --context 32K --chunk 1K --attention topk --top-k 16 \\\n"
    "      --json topk.json\n";

void print_remarks(const schedule::Plan& plan) {
    const auto say = [](std::string_view kind, const std::string& line) {
        std::fputs(fmt::format("{}: {}\n", kind, line).c_str(), stderr);
    };
    for (const std::string& note : plan.model.notes) {
        say("note", note);
    }
    for (const std::string& remark : simulator::remarks_on(plan)) {
        say("note", remark);
    }
    if (const auto warning = position_warning(plan.run, plan.model)) {
        say("warning", *warning);
    }
}

// Whether the plan fits, beside `more_bytes` outside of it; says what would if not. A dry run prints it.
bool fits(const EvalFlags& flags, const schedule::Plan& plan, std::int64_t more_bytes = 0) {
    simulator::Limits limits{free_memory_limit_bytes(flags.run).value_or(0)};
    if (flags.dry_run) {
        std::cout << simulator::render_plan(plan, simulator::model_name(flags.run.model), limits) << std::flush;
    }
    if (limits.free_bytes > 0) {
        limits.free_bytes = std::max<std::int64_t>(1, limits.free_bytes - more_bytes);
    }
    const auto excesses = simulator::excesses_of(plan, limits);
    if (!excesses.empty()) {
        std::cerr << fmt::format("{} eval: does not fit\n", kProgram)
                  << simulator::explain_excess(plan, excesses, limits, default_hardware());
    }
    return excesses.empty();
}

void write(const std::filesystem::path& json_file, const std::string& json, const std::string& table) {
    if (!json_file.empty()) {
        write_text_file(json_file, json);
    }
    std::cout << table << std::flush;
}

ExitCode evaluate(const EvalFlags& flags, const std::string& command) {
    const RunConfiguration run = to_evaluated_run(flags);
    check_device(run, flags.dry_run);
    const EvaluationOptions options = to_evaluation_options(flags, run, command);
    const schedule::Plan plan = schedule::make_plan(read_model_shape(flags.run.model), run);
    print_remarks(plan);
    if (!fits(flags, plan)) {
        return ExitCode::kDoesNotFit;
    }
    if (flags.dry_run) {
        check_evaluation(options, plan, stderr);
        return ExitCode::kDone;
    }
    std::fputs(peaks_text(plan).c_str(), stderr);
    const auto make = [&](const schedule::Plan& of) { return make_backend(of, options.threads); };
    const Evaluation found = run_evaluation(options, plan, make, stop_on_signals(), stderr);
    if (!options.losses.empty()) {
        write_text_file(options.losses, npy_of_losses(found.token_losses));
    }
    write(options.json, evaluation_json(found, options, plan), evaluation_table(found, plan));
    return ExitCode::kDone;
}

ExitCode compare_gradients(const EvalFlags& flags, const std::string& command) {
    const std::vector<RunConfiguration> runs = to_compared_runs(flags);
    check_device(runs.back(), flags.dry_run);
    EvaluationOptions options = to_evaluation_options(flags, runs.front(), command);
    options.sequences = std::max<std::int64_t>(1, options.sequences);
    const ModelShape model = read_model_shape(flags.run.model);
    std::vector<schedule::Plan> plans;
    for (const RunConfiguration& run : runs) {
        plans.push_back(schedule::make_plan(model, run));
    }
    const schedule::Plan dense = plans.front();
    print_remarks(dense);
    const std::int64_t reference_bytes = gradient_reference_bytes(options, dense);
    for (const schedule::Plan& plan : plans) {
        if (!fits(flags, plan, reference_bytes)) {
            return ExitCode::kDoesNotFit;
        }
    }
    if (flags.dry_run) {
        check_evaluation(options, dense, stderr);
        return ExitCode::kDone;
    }
    std::fputs(fmt::format("{}dense gradients: {} more\n", peaks_text(dense), format_bytes(reference_bytes)).c_str(),
               stderr);
    plans.erase(plans.begin());
    const auto make = [&](const schedule::Plan& of) { return make_backend(of, options.threads); };
    const GradientErrors found = run_gradient_error(options, dense, plans, make, stop_on_signals(), stderr);
    write(options.json, gradient_error_json(found, options, plans.front()), gradient_error_table(found));
    return ExitCode::kDone;
}

}  // namespace

int run_eval(int argc, const char* const* argv) {
    const std::string program = fmt::format("{} eval", kProgram);
    const ExitCode code = run_guarded(program, std::cerr, [&] {
        CLI::App app(kDescription, program);
        EvalFlags flags;
        prepare_command_line(app, kFooter);
        add_eval_flags(app, flags);
        refuse_training_flags(app, argc - 1, argv + 1);
        const std::optional<ExitCode> end = parse_command_line(app, argc - 1, argv + 1, std::cout, std::cerr);
        if (end) {
            return *end;
        }
        if (!flags.hardware.empty() && flags.run.device != "cuda") {
            read_gpu_profile(flags.hardware, DeviceKind::kCpu);  // refuses it
        }
        take_budgets_of(flags.hardware, flags.run);
        const std::string command = command_of(argc, argv);
        return flags.gradient_error ? compare_gradients(flags, command) : evaluate(flags, command);
    });
    return static_cast<int>(code);
}

}  // namespace oomb::trainer
