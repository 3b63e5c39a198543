#include "trainer/run/run_report.hpp"

#include <fmt/format.h>

#include "runtime/core/memory_info.hpp"
#include "runtime/core/units.hpp"
#include "runtime/core/version.hpp"
#include "trainer/run/json_value.hpp"

namespace oomb::trainer {
namespace {

using schedule::kPhases;
using schedule::Phase;

Json beside(Json predicted, Json measured) {
    return {{"predicted", std::move(predicted)}, {"measured", std::move(measured)}};
}

// What the plan says of the process's own memory: on the CPU the device's arena lies there, too. Program, libraries and
// the page cache of mapped weights come on top.
std::int64_t planned_resident_bytes(const schedule::Plan& plan) {
    const std::int64_t device = plan.run.device == DeviceKind::kCpu ? plan.peak_bytes(Tier::kHbm) : 0;
    return device + plan.peak_bytes(Tier::kHost);
}

Json memory_json(const RunView& run) {
    const bool on_gpu = run.plan.run.device == DeviceKind::kCuda;
    const auto arena = [&](Tier tier) {
        return beside(run.plan.arena_bytes[static_cast<int>(tier)], run.backend.touched_bytes(tier));
    };
    return {{"hbm", arena(Tier::kHbm)},
            {"host", arena(Tier::kHost)},
            {"page_tables", beside(run.plan.page_table_bytes, run.executor.issuer().table_bytes())},
            {"driver", beside(on_gpu ? Json(run.plan.peak_bytes(Tier::kHbm)) : Json(nullptr),
                              or_null(run.backend.driver_peak_bytes()))},
            {"library", beside(nullptr, run.backend.library_peak_bytes())},
            {"resident", beside(planned_resident_bytes(run.plan), peak_resident_bytes())}};
}

Json copies_json(const StepUse& total) {
    const auto side = [](const CopyUse& use) {
        return Json{{"bytes", beside(use.scheduled_bytes, use.moved_bytes)}, {"busy_seconds", use.busy_seconds}};
    };
    return {{"host_to_device", side(total.to_device)},
            {"device_to_host", side(total.to_host)},
            {"exposed_seconds", total.exposed_copy_seconds},
            {"hidden_share", or_null(hidden_copy_share(total))}};
}

Json seconds_json(double total, const std::array<double, kPhases>& phases) {
    Json seconds = {{"total", total}};
    for (int phase = 0; phase < kPhases; ++phase) {
        seconds[std::string(name_of(static_cast<Phase>(phase)))] = phases[phase];
    }
    return seconds;
}

Json report_json(const RunView& run) {
    const StepUse& total = run.total;
    const std::optional<PredictedStep>& predicted = run.options.predicted;
    return {{"device", run.backend.device_name()},
            {"steps", total.steps},
            {"tokens", total.tokens},
            {"seconds", seconds_json(total.seconds, total.phase_seconds)},
            {"predicted_step_seconds",
             predicted ? seconds_json(predicted->seconds, predicted->phase_seconds) : Json(nullptr)},
            {"preparation",
             {{"seconds", run.backend.preparation_seconds()},
              {"library_plans", run.backend.library_plans() - total.library_plans}}},
            {"tokens_per_second", tokens_per_second(total)},
            {"model_flops", total.model_flops},
            {"peak_flops_per_second", or_null(run.options.peak_flops)},
            {"flop_utilisation", or_null(flop_utilisation(total, run.options.peak_flops))},
            {"joules", or_null(total.joules)},
            {"joules_per_token", or_null(joules_per_token(total))},
            {"memory_bytes", memory_json(run)},
            {"copies", copies_json(total)}};
}

Json data_json(const TrainingOptions& options, const DataCursor& cursor) {
    return {{"file", options.data.string()},
            {"epoch", cursor.epoch},
            {"offset_tokens", cursor.offset_tokens},
            {"source_tokens", cursor.source_tokens}};
}

Json optimizer_json(const TrainingOptions& options) {
    const StepSettings& adam = options.optimizer;
    return {{"name", options.updates_weights ? "adamw" : "none"},
            {"learning_rate", options.learning_rate.peak},
            {"warmup_steps", options.learning_rate.warmup_steps},
            {"beta1", adam.beta1},
            {"beta2", adam.beta2},
            {"epsilon", adam.epsilon},
            {"weight_decay", adam.weight_decay},
            {"max_grad_norm", adam.max_grad_norm}};
}

std::string text_row(std::string_view what, std::string_view predicted, std::string_view measured) {
    return fmt::format("  {:<26} {:>34} {:>34}\n", what, predicted, measured);
}

std::string bytes_row(std::string_view what, std::int64_t predicted, std::int64_t measured) {
    return text_row(what, format_bytes(predicted), format_bytes(measured));
}

std::string memory_rows(const RunView& run) {
    const schedule::Plan& plan = run.plan;
    std::string text = text_row("memory", "predicted", "measured");
    const auto arena = [&](Tier tier, std::string_view what) {
        text += bytes_row(what, plan.arena_bytes[static_cast<int>(tier)], run.backend.touched_bytes(tier));
    };
    arena(Tier::kHbm, "device arena");
    if (const auto driver = run.backend.driver_peak_bytes()) {
        text += bytes_row("GPU, as the driver counts", plan.peak_bytes(Tier::kHbm), *driver);
    }
    arena(Tier::kHost, "host arena");
    text += bytes_row("page tables, on the host", plan.page_table_bytes, run.executor.issuer().table_bytes());
    for (const schedule::PoolPlan& pool : plan.pools) {
        const auto& frames = run.executor.issuer().residency(pool.page_class).pool(pool.tier);
        text += text_row(fmt::format("{} frames, {}", name_of(pool.page_class), name_of(pool.tier)),
                         format_count(pool.frames), format_count(frames.most_in_use()));
    }
    text += text_row("libraries' own", "not planned", format_bytes(run.backend.library_peak_bytes()));
    text += bytes_row("resident, whole process", planned_resident_bytes(plan), peak_resident_bytes());
    const bool on_gpu = plan.run.device == DeviceKind::kCuda;
    return text + fmt::format(
                      "  (resident is predicted as {} and page tables; program, libraries and mapped weights "
                      "come on top)\n",
                      on_gpu ? "host arena" : "both arenas");
}

std::string copy_rows(const StepUse& total) {
    std::string text = text_row("copies", "scheduled", "measured");
    const auto side = [&](std::string_view what, const CopyUse& use) {
        text += bytes_row(what, use.scheduled_bytes, use.moved_bytes);
    };
    side("host to device", total.to_device);
    side("device to host", total.to_host);
    if (const auto hidden = hidden_copy_share(total)) {
        text += text_row("hidden behind compute", "", fmt::format("{:.1f} % of copy time", 100 * *hidden));
    }
    return text;
}

std::string time_rows(const RunView& run) {
    const StepUse& total = run.total;
    const std::optional<PredictedStep>& predicted = run.options.predicted;
    std::string text = text_row("time", predicted ? "predicted" : "", total.steps == 1 ? "one step" : "mean of a step");
    const auto seconds = [&](std::string_view what, double expected, double sum) {
        text += text_row(what, predicted ? format_duration(expected) : "",
                         format_duration(sum / static_cast<double>(total.steps)));
    };
    const PredictedStep expected = predicted.value_or(PredictedStep{});
    seconds("step", expected.seconds, total.seconds);
    for (int phase = 0; phase < kPhases; ++phase) {
        seconds(fmt::format("  {}", name_of(static_cast<Phase>(phase))), expected.phase_seconds[phase],
                total.phase_seconds[phase]);
    }
    if (const double preparation = run.backend.preparation_seconds(); preparation > 0) {
        text += text_row("preparation, once", "", format_duration(preparation));
    }
    text += text_row("throughput", "", fmt::format("{:.1f} tokens/s", tokens_per_second(total)));
    if (const auto share = flop_utilisation(total, run.options.peak_flops)) {
        constexpr double kTera = 1e12;
        text += text_row("model FLOP utilisation", "",
                         fmt::format("{:.1f} % of {:.1f} TFLOP/s", 100 * *share, *run.options.peak_flops / kTera));
    }
    if (const auto joules = joules_per_token(total)) {
        text += text_row("energy", "", fmt::format("{:.3g} J per token", *joules));
    }
    return text;
}

}  // namespace

std::string run_json(const RunView& run, const RunFacts& facts) {
    const TrainingOptions& options = run.options;
    const BuildInfo& build = build_info();
    Json json;
    json["format"] = "oomb-run";
    json["version"] = 1;
    json["command"] = options.command;
    json["oomb"] = {
        {"version", build.version}, {"commit", build.commit}, {"libtorch", build.libtorch}, {"cuda", build.cuda}};
    json["model"] = options.model.string();
    json["seed"] = options.seed;
    json["threads"] = options.threads;
    json["data"] = data_json(options, facts.cursor);
    json["steps"] = {{"done", facts.steps_done},
                     {"asked", options.learning_rate.steps},
                     {"resumed_after", facts.resumed_after},
                     {"accumulation", options.accumulation},
                     {"interrupted", facts.interrupted},
                     {"last_loss", facts.steps_done > 0 ? Json(facts.last_loss) : Json(nullptr)}};
    json["optimizer"] = optimizer_json(options);
    json["report"] = report_json(run);
    json["plan"] = Json::parse(schedule::to_json(run.plan));
    return json.dump(2) + "\n";
}

std::string run_table(const RunView& run) {
    if (run.total.steps == 0) {
        return memory_rows(run);
    }
    return fmt::format("{}\n{}\n{}", memory_rows(run), copy_rows(run.total), time_rows(run));
}

}  // namespace oomb::trainer
