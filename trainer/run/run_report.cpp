#include "trainer/run/run_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/memory_info.hpp"
#include "runtime/core/units.hpp"
#include "runtime/core/version.hpp"

namespace oomb::trainer {
namespace {

std::string row(std::string_view what, std::int64_t predicted, std::int64_t measured) {
    return fmt::format("  {:<26} {:>34} {:>34}\n", what, format_bytes(predicted), format_bytes(measured));
}

}  // namespace

std::string run_json(const TrainingOptions& options, const schedule::Plan& plan, const RunFacts& facts) {
    const BuildInfo& build = build_info();
    const StepSettings& adam = options.optimizer;
    nlohmann::ordered_json json;
    json["format"] = "oomb-run";
    json["version"] = 1;
    json["command"] = options.command;
    json["oomb"] = {
        {"version", build.version}, {"commit", build.commit}, {"libtorch", build.libtorch}, {"cuda", build.cuda}};
    json["model"] = options.model.string();
    json["seed"] = options.seed;
    json["threads"] = options.threads;
    json["data"] = {{"file", options.data.string()},
                    {"epoch", facts.cursor.epoch},
                    {"offset_tokens", facts.cursor.offset_tokens},
                    {"source_tokens", facts.cursor.source_tokens}};
    json["steps"] = {{"done", facts.steps_done},
                     {"asked", options.learning_rate.steps},
                     {"accumulation", options.accumulation},
                     {"interrupted", facts.interrupted},
                     {"last_loss", facts.steps_done > 0 ? nlohmann::ordered_json(facts.last_loss) : nullptr}};
    json["optimizer"] = {{"name", options.updates_weights ? "adamw" : "none"},
                         {"learning_rate", options.learning_rate.peak},
                         {"warmup_steps", options.learning_rate.warmup_steps},
                         {"beta1", adam.beta1},
                         {"beta2", adam.beta2},
                         {"epsilon", adam.epsilon},
                         {"weight_decay", adam.weight_decay},
                         {"max_grad_norm", adam.max_grad_norm}};
    json["plan"] = nlohmann::ordered_json::parse(schedule::to_json(plan));
    return json.dump(2) + "\n";
}

std::string memory_table(const schedule::Plan& plan, const Backend& backend, const issue::Issuer& issuer) {
    std::string text = fmt::format("  {:<26} {:>34} {:>34}\n", "memory", "predicted", "measured");
    for (const Tier tier : {Tier::kHbm, Tier::kHost}) {
        const std::int64_t planned = plan.arena_bytes[static_cast<int>(tier)];
        text += row(tier == Tier::kHbm ? "device arena" : "host arena", planned, backend.touched_bytes(tier));
    }
    for (const schedule::PoolPlan& pool : plan.pools) {
        text += fmt::format(
            "  {:<26} {:>34} {:>34}\n", fmt::format("{} frames, {}", name_of(pool.page_class), name_of(pool.tier)),
            format_count(pool.frames), format_count(issuer.residency(pool.page_class).pool(pool.tier).most_in_use()));
    }
    text += fmt::format("  {:<26} {:>34} {:>34}\n", "LibTorch's own", "not planned",
                        format_bytes(backend.library_peak_bytes()));
    text += fmt::format("  {:<26} {:>34} {:>34}\n", "resident, whole process", "", format_bytes(peak_resident_bytes()));
    return text;
}

}  // namespace oomb::trainer
