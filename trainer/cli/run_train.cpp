#include "trainer/cli/run_train.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <string_view>

#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/flags/run_flags.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/render.hpp"
#include "trainer/cli/program.hpp"
#include "trainer/cli/run_eval.hpp"
#include "trainer/cli/train_plan.hpp"
#include "trainer/run/run_inputs.hpp"
#ifdef OOMB_HAVE_CUDA
#include "profiler/record/session.hpp"
#include "runtime/core/version.hpp"
#endif

namespace oomb::trainer {
namespace {

constexpr const char* kDescription =
    "Trains a Hugging Face model on long sequences, chunk by chunk: activation memory does not grow with the context,\n"
    "K/V and their gradients lie in pages, and the gradients are those of ordinary training.\n"
    "oomb-train eval [flags] measures the loss of a model by position instead; oomb-train eval --help lists its flags.";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "SIGINT and SIGTERM end the run after its last complete step; --out is written then, too (with --checkpoint the\n"
    "checkpoint instead).\n"
    "\n"
    "Exit code: 0 done; 1 failed; 2 wrong usage; 3 the run does not fit, and the peaks under other flags are printed.\n"
    "\n"
    "Example: a model folder on its own tokens, 2,048 at a time in chunks of 256\n"
    "  python tools/tokenize.py --model smollm2 --out data.npy text/\n"
    "  oomb-train --model smollm2 --data data.npy --context 2K --chunk 256 --steps 100 --learning-rate 1e-4 --out "
    "tuned\n";

// Runs the training, recorded where that is asked for. A recording that fails in the middle ends alone: its failure is
// told when the training is done.
void run_recorded([[maybe_unused]] const TrainFlags& flags, [[maybe_unused]] const std::string& command,
                  const std::function<void()>& run) {
#ifdef OOMB_HAVE_CUDA
    if (!flags.profile.empty()) {
        const BuildInfo& build = build_info();
        profiler::Session session({.out = flags.profile,
                                   .program = fmt::format("{} {} ({})", kProgram, build.version, build.commit),
                                   .command = command,
                                   .request = {.operations = true, .window = {.steps = profile_steps_of(flags)}}});
        run();
        session.finish();
        return;
    }
#endif
    run();
}

// The tiers by the names and with the peaks of the plan.
void print_start(const TrainPlan& asked) {
    std::fputs(peaks_text(asked.plan).c_str(), stderr);
    if (asked.plan.run.device == DeviceKind::kCuda && !asked.prediction) {
        std::fputs(fmt::format("note: no time is predicted: {}\n", asked.not_predicted).c_str(), stderr);
    }
}

ExitCode train(const RunFlags& run_flags, const TrainFlags& flags, const std::string& command) {
    const TrainPlan asked = train_plan_of(run_flags, flags, command);
    print_remarks(asked, stderr);
    if (flags.dry_run) {
        std::cout << simulator::render_plan(asked.plan, simulator::model_name(run_flags.model), asked.limits,
                                            time_text(asked))
                  << std::flush;
    }
    if (const auto excesses = simulator::excesses_of(asked.plan, asked.limits); !excesses.empty()) {
        std::cerr << fmt::format("{}: does not fit\n", kProgram)
                  << simulator::explain_excess(asked.plan, excesses, asked.limits, asked.times);
        return ExitCode::kDoesNotFit;
    }
    if (!flags.profile.empty()) {
        check_output_file(flags.profile);
    }
    if (flags.dry_run) {
        check_run(asked.options, asked.plan, stderr);
        return ExitCode::kDone;
    }
    print_start(asked);
    const std::atomic<bool>& stop = stop_on_signals();
    run_recorded(flags, command, [&] {
        run_training(
            asked.options, asked.plan,
            [&](const schedule::Plan& plan) { return make_backend(plan, asked.options.threads); }, stop, stderr);
    });
    return ExitCode::kDone;
}

}  // namespace

int run_train(int argc, const char* const* argv) {
    if (argc > 1 && std::string_view(argv[1]) == "eval") {
        return run_eval(argc, argv);
    }
    const ExitCode code = run_guarded(kProgram, std::cerr, [&] {
        CLI::App app(kDescription, kProgram);
        RunFlags run_flags;
        TrainFlags flags;
        prepare_command_line(app, kFooter);
        add_run_flags(app, run_flags);
        add_train_flags(app, flags);
        const std::optional<ExitCode> end = parse_command_line(app, argc, argv, std::cout, std::cerr);
        if (end) {
            return *end;
        }
        refuse_unused_optimizer_flags(app, run_flags.no_optimizer);
        return train(run_flags, flags, command_of(argc, argv));
    });
    return static_cast<int>(code);
}

}  // namespace oomb::trainer
