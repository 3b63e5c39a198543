#include "trainer/cli/run_eval.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/explain.hpp"
#include "simulator/remarks.hpp"
#include "simulator/render.hpp"
#include "trainer/cli/eval_flags.hpp"
#include "trainer/cli/program.hpp"
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

ExitCode evaluate(const EvalFlags& flags, const std::string& command) {
    const RunConfiguration run = to_evaluated_run(flags);
    check_device(run, flags.dry_run);
    const EvaluationOptions options = to_evaluation_options(flags, run, command);
    const schedule::Plan plan = schedule::make_plan(read_model_shape(flags.run.model), run);
    const simulator::Limits limits{free_memory_limit_bytes(flags.run).value_or(0)};
    print_remarks(plan);
    if (flags.dry_run) {
        std::cout << simulator::render_plan(plan, simulator::model_name(flags.run.model), limits) << std::flush;
    }
    if (const auto excesses = simulator::excesses_of(plan, limits); !excesses.empty()) {
        std::cerr << fmt::format("{} eval: does not fit\n", kProgram)
                  << simulator::explain_excess(plan, excesses, limits, default_hardware());
        return ExitCode::kDoesNotFit;
    }
    if (flags.dry_run) {
        check_evaluation(options, plan, stderr);
        return ExitCode::kDone;
    }
    std::fputs(peaks_text(plan).c_str(), stderr);
    const std::atomic<bool>& stop = stop_on_signals();
    const Evaluation found = run_evaluation(
        options, plan, [&](const schedule::Plan& of) { return make_backend(of, options.threads); }, stop, stderr);
    if (!options.json.empty()) {
        write_text_file(options.json, evaluation_json(found, options, plan));
    }
    std::cout << evaluation_table(found, plan) << std::flush;
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
        return end ? *end : evaluate(flags, command_of(argc, argv));
    });
    return static_cast<int>(code);
}

}  // namespace oomb::trainer
