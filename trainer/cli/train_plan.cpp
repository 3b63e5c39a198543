#include "trainer/cli/train_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/core/known_hardware.hpp"
#include "runtime/core/units.hpp"
#include "simulator/report/remarks.hpp"
#include "simulator/report/time_report.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"
#include "trainer/cli/program.hpp"
#ifdef OOMB_HAVE_CUDA
#include "runtime/device/device_info.hpp"
#endif

namespace oomb::trainer {
namespace {

// What the driver calls the first GPU; empty where there is none.
std::string name_of_gpu() {
#ifdef OOMB_HAVE_CUDA
    return device::probe_device().name;
#else
    return "";
#endif
}

// The machine that times are predicted for: what is named, else the one of this GPU.
struct Machine {
    std::string hardware;  // as for --hardware; empty: unknown
    std::string missing;   // then: why, and what to give
};

Machine machine_of(const std::string& given, const std::string& device) {
    if (!given.empty() || device != "cuda") {
        return {given, "times are those of a GPU"};
    }
    const std::string gpu = name_of_gpu();
    const std::string what = gpu.empty() ? "there is no GPU here" : fmt::format("no profile of this {} is known", gpu);
    return {known_hardware_of_gpu(gpu),
            fmt::format("{}; give one by --hardware {}, or FILE", what, fmt::join(known_hardware_names(), ", "))};
}

// `is_given`: a profile that lacks the peak of the run's type is an error.
std::optional<HardwareProfile> profile_of(const std::string& hardware, const RunConfiguration& run, bool is_given) {
    if (hardware.empty()) {
        return std::nullopt;
    }
    HardwareProfile profile = read_gpu_profile(hardware, run.device);
    if (is_given && !profile.peak_flops.contains(run.compute)) {
        fail<FileError>("{}: peak: has no rate for {}, in which this run computes", hardware, name_of(run.compute));
    }
    return profile;
}

// A step over `sequences`: all but the optimizer as often.
PredictedStep step_of(const simulator::Prediction& one, std::int64_t sequences) {
    PredictedStep step{one.seconds, one.phase_seconds};
    constexpr auto kOptimizer = static_cast<std::size_t>(schedule::Phase::kOptimizer);
    const double optimizer = one.phase_seconds[kOptimizer];
    const auto times = static_cast<double>(sequences);
    step.seconds = times * (one.seconds - optimizer) + optimizer;
    for (double& seconds : step.phase_seconds) {
        seconds *= times;
    }
    step.phase_seconds[kOptimizer] = optimizer;
    return step;
}

}  // namespace

TrainPlan train_plan_of(RunFlags run_flags, const TrainFlags& flags, const std::string& command) {
    const Machine machine = machine_of(flags.hardware, run_flags.device);
    take_budgets_of(machine.hardware, run_flags);
    RunConfiguration run = to_run_configuration(run_flags);
    run.page_seed = flags.options.seed;
    check_device(run, flags.dry_run);
    if (!flags.profile.empty() && run.device != DeviceKind::kCuda) {
        fail<UsageError>("--profile records a GPU, found --device cpu; --trace FILE times operations on both");
    }
    profile_steps_of(flags);
    TrainPlan asked;
    asked.options = to_training_options(flags, run.optimizer, run_flags.model, command);
    const auto profile = profile_of(machine.hardware, run, !flags.hardware.empty());
    // The model's FLOPs are those of dense attention.
    if (profile && profile->peak_flops.contains(run.compute) && !has_page_lists(run.attention)) {
        asked.options.peak_flops = profile->peak_flops.at(run.compute).per_second;
    }
    asked.times = profile ? *profile : default_hardware();
    asked.plan = simulator::plan_for_time(read_model_shape(run_flags.model), run, asked.times);
    asked.limits = {free_memory_limit_bytes(run_flags).value_or(0)};
    asked.not_predicted = profile ? simulator::why_unpredictable(asked.plan, *profile).value_or("") : machine.missing;
    asked.lists = simulator::read_list_source(flags.locality, flags.page_trace, run.attention);
    if (!flags.locality.empty() || !flags.page_trace.empty()) {
        asked.options.lists = asked.lists.open(asked.plan);
    }
    if (asked.not_predicted.empty() && simulator::excesses_of(asked.plan, asked.limits).empty()) {
        simulator::Predicted predicted = simulator::try_to_predict(asked.plan, *profile, asked.lists);
        asked.not_predicted = predicted.why_not;
        asked.prediction = std::move(predicted.prediction);
    }
    if (asked.prediction) {
        asked.options.predicted = step_of(*asked.prediction, asked.options.accumulation);
    }
    return asked;
}

void print_remarks(const TrainPlan& asked, std::FILE* log) {
    const auto say = [&](const std::string& line) { std::fputs((line + "\n").c_str(), log); };
    for (const std::string& note : asked.plan.model.notes) {
        say("note: " + note);
    }
    for (const std::string& remark : simulator::remarks_on(asked.plan)) {
        say("note: " + remark);
    }
    if (const auto warning = position_warning(asked.plan.run, asked.plan.model)) {
        say("warning: " + *warning);
    }
    const simulator::Freedom free = simulator::left_to_auto(asked.plan.asked);
    if (asked.options.accumulation > 1 && asked.plan.run.device == DeviceKind::kCuda &&
        (free.keep || free.held_chunks)) {
        say(fmt::format(
            "note: auto takes the least time of a step over one sequence; with --gradient-accumulation {} the "
            "optimizer weighs less",
            asked.options.accumulation));
    }
}

std::string time_text(const TrainPlan& asked) {
    if (!asked.prediction) {
        return asked.not_predicted.empty() ? ""
                                           : fmt::format("\ntime of a step: not predicted, {}\n", asked.not_predicted);
    }
    const std::string text = simulator::render_time(*asked.prediction);
    return asked.options.accumulation == 1
               ? text
               : fmt::format("{}\nwith --gradient-accumulation {}: {} per optimizer step\n", text,
                             asked.options.accumulation, format_duration(asked.options.predicted->seconds));
}

}  // namespace oomb::trainer
