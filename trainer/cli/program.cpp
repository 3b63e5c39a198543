#include "trainer/cli/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdio>

#include "runtime/core/units.hpp"
#include "trainer/cpu/make_cpu_backend.hpp"
#ifdef OOMB_HAVE_CUDA
#include "trainer/cuda/make_cuda_backend.hpp"
#endif

namespace oomb::trainer {
namespace {

std::atomic<bool> stop_requested{false};

// The first signal asks for an orderly end, the second one ends the program at once.
void on_signal(int signal) {
    stop_requested = true;
    std::signal(signal, SIG_DFL);
}

}  // namespace

void check_device(const RunConfiguration& run, [[maybe_unused]] bool plans_only) {
    if (run.device == DeviceKind::kCuda) {
        const bool own = run.attention_kernels == AttentionKernels::kOwn;  // of any rows of the chunk
        if (!own && run.sinks > 0 && run.local_window < run.chunk_tokens) {
            fail<UsageError>(
                "--sinks {} with --local-window {} below --chunk {} and --device cuda: chunks whose first tokens are "
                "sinks to the rest of them are not computed there; take --local-window {} or more, a smaller --chunk, "
                "--attention-kernels own, or --device cpu",
                run.sinks, run.local_window, run.chunk_tokens, run.chunk_tokens);
        }
#ifndef OOMB_HAVE_CUDA
        constexpr const char* kNoCuda =
            "--device cuda: this oomb-train was built without CUDA; build it where the CUDA toolkit is (cmake --preset "
            "cuda), or take --device cpu";
        if (!plans_only) {
            fail<UnsupportedError>("{}", kNoCuda);
        }
        std::fputs(fmt::format("note: {}\n", kNoCuda).c_str(), stderr);
#endif
        if (run.compute == DType::kF64) {
            fail<UsageError>("--dtype fp64: the oracle mode runs with --device cpu; on cuda allowed is bf16 or fp32");
        }
    }
}

std::unique_ptr<Backend> make_backend(const schedule::Plan& plan, std::int64_t threads) {
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
    return make_cpu_backend(plan, static_cast<int>(threads));
}

const std::atomic<bool>& stop_on_signals() {
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    return stop_requested;
}

std::string command_of(int argc, const char* const* argv) {
    return fmt::format("{}", fmt::join(argv, argv + argc, " "));
}

std::string peaks_text(const schedule::Plan& plan) {
    const auto tier = [&](Tier one) {
        return fmt::format("{} {}", simulator::tier_title(plan.run.device, one), format_bytes(plan.peak_bytes(one)));
    };
    return fmt::format("plan: {}, {}\n", tier(Tier::kHbm), tier(Tier::kHost));
}

}  // namespace oomb::trainer
