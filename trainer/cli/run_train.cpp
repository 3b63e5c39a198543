#include "trainer/cli/run_train.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/core/known_hardware.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/flags/run_flags.hpp"
#include "simulator/explain.hpp"
#include "simulator/render.hpp"
#include "simulator/search.hpp"
#include "simulator/time_report.hpp"
#include "trainer/cli/train_flags.hpp"
#include "trainer/cpu/make_cpu_backend.hpp"
#ifdef OOMB_HAVE_CUDA
#include "trainer/cuda/make_cuda_backend.hpp"
#endif

namespace oomb::trainer {
namespace {

constexpr const char* kProgram = "oomb-train";
constexpr const char* kDescription =
    "Trains a Hugging Face model on long sequences, chunk by chunk: activation memory does not grow with the context,\n"
    "K/V and their gradients lie in pages, and the gradients are those of ordinary training.";
constexpr const char* kFooter =
    "Tokens: K is 1,024, M is 1,048,576. Sizes: KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000.\n"
    "SIGINT and SIGTERM end the run after its last complete step; --out is written then, too.\n"
    "\n"
    "Exit code: 0 done; 1 failed; 2 wrong usage; 3 the run does not fit, and the peaks under other flags are printed.\n"
    "\n"
    "Example: a model folder on its own tokens, 2,048 at a time in chunks of 256\n"
    "  python tools/tokenize.py --model smollm2 --out data.npy text/\n"
    "  oomb-train --model smollm2 --data data.npy --context 2K --chunk 256 --steps 100 --learning-rate 1e-4 --out "
    "tuned\n";

std::atomic<bool> stop_requested{false};

// The first signal asks for an orderly end, the second one ends the program at once.
void on_signal(int signal) {
    stop_requested = true;
    std::signal(signal, SIG_DFL);
}

std::string join(int argc, const char* const* argv) {
    std::string text;
    for (int i = 0; i < argc; ++i) {
        text += (i > 0 ? " " : "") + std::string(argv[i]);
    }
    return text;
}

void check_device(const RunConfiguration& run) {
    if (run.device == DeviceKind::kCuda) {
        if (run.attention == AttentionMode::kTopK) {
            fail<UsageError>(
                "--attention topk with --device cuda: its GPU kernels do not exist yet; take --device cpu, or "
                "--attention dense");
        }
#ifndef OOMB_HAVE_CUDA
        fail<UnsupportedError>(
            "--device cuda: this oomb-train was built without CUDA; build it where the CUDA toolkit is (cmake --preset "
            "cuda), or take --device cpu");
#endif
        if (run.compute == DType::kF64) {
            fail<UsageError>("--dtype fp64: the oracle mode runs with --device cpu; on cuda allowed is bf16 or fp32");
        }
    }
}

std::unique_ptr<Backend> make_backend(const schedule::Plan& plan, [[maybe_unused]] int threads) {
#ifdef OOMB_HAVE_CUDA
    if (plan.run.device == DeviceKind::kCuda) {
        const auto show = [](std::string_view what, const std::string& done, const std::string& total, bool ended) {
            std::fputs(fmt::format("\r{}: {} of {}{}", what, done, total, ended ? "\n" : "").c_str(), stderr);
        };
        StartProgress progress;
        progress.reserving = [show](std::int64_t done, std::int64_t total) {
            show("reserving host memory", format_bytes_short(done), format_bytes_short(total), done == total);
        };
        progress.preparing = [show](std::int64_t done, std::int64_t total) {
            show("preparing shapes of operations", format_count(done), format_count(total), done == total);
        };
        return make_cuda_backend(plan, std::move(progress));
    }
#endif
    return make_cpu_backend(plan, threads);
}

std::optional<HardwareProfile> profile_of(const std::string& path, const RunConfiguration& run) {
    if (path.empty()) {
        return std::nullopt;
    }
    HardwareProfile profile = read_gpu_profile(path, run.device);
    if (!profile.peak_flops.contains(run.compute)) {
        fail<FileError>("{}: peak: has no rate for {}, in which this run computes", path, name_of(run.compute));
    }
    return profile;
}

// Nothing for a plan that the simulator does not time.
std::optional<simulator::Prediction> predict(const schedule::Plan& plan,
                                             const std::optional<HardwareProfile>& profile) {
    if (!profile || simulator::why_unpredictable(plan, *profile)) {
        return std::nullopt;
    }
    return simulator::predict_step(plan, *profile);
}

ExitCode train(RunFlags run_flags, const TrainFlags& flags, const std::string& command) {
    take_budgets_of(flags.hardware, run_flags);
    const RunConfiguration run = to_run_configuration(run_flags);
    check_device(run);
    TrainingOptions options = to_training_options(flags, run.optimizer, run_flags.model, command);
    const std::optional<HardwareProfile> profile = profile_of(flags.hardware, run);
    if (profile) {
        options.peak_flops = profile->peak_flops.at(run.compute).per_second;
    }
    const ModelShape model = read_model_shape(run_flags.model);
    const HardwareProfile& times = profile ? *profile : default_hardware();
    const schedule::Plan plan = simulator::plan_for_time(model, run, times);
    const simulator::Limits limits{free_memory_limit_bytes(run_flags).value_or(0)};
    for (const std::string& note : model.notes) {
        std::fputs(fmt::format("note: {}\n", note).c_str(), stderr);
    }
    if (const auto warning = position_warning(run, model)) {
        std::fputs(fmt::format("warning: {}\n", *warning).c_str(), stderr);
    }
    const std::vector<simulator::Excess> excesses = simulator::excesses_of(plan, limits);
    const std::optional<simulator::Prediction> prediction = excesses.empty() ? predict(plan, profile) : std::nullopt;
    if (flags.dry_run) {
        std::cout << simulator::render_plan(plan, simulator::model_name(run_flags.model), limits,
                                            prediction ? simulator::render_time(*prediction) : "")
                  << std::flush;
    }
    if (!excesses.empty()) {
        std::cerr << fmt::format("{}: does not fit\n", kProgram)
                  << simulator::explain_excess(plan, excesses, limits, times);
        return ExitCode::kDoesNotFit;
    }
    if (flags.dry_run) {
        return ExitCode::kDone;
    }
    std::fputs(fmt::format("plan: device arena {}, host arena {}\n", format_bytes(plan.peak_bytes(Tier::kHbm)),
                           format_bytes(plan.peak_bytes(Tier::kHost)))
                   .c_str(),
               stderr);
    if (prediction && options.accumulation == 1) {
        options.predicted = {prediction->seconds, prediction->phase_seconds};
    }
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    run_training(
        options, plan, [&](const schedule::Plan& p) { return make_backend(p, options.threads); }, stop_requested,
        stderr);
    return ExitCode::kDone;
}

}  // namespace

int run_train(int argc, const char* const* argv) {
    const ExitCode code = run_guarded(kProgram, std::cerr, [&] {
        CLI::App app(kDescription, kProgram);
        RunFlags run_flags;
        TrainFlags flags;
        prepare_command_line(app, kFooter);
        add_run_flags(app, run_flags);
        add_train_flags(app, flags);
        const std::optional<ExitCode> end = parse_command_line(app, argc, argv, std::cout, std::cerr);
        return end ? *end : train(run_flags, flags, join(argc, argv));
    });
    return static_cast<int>(code);
}

}  // namespace oomb::trainer
