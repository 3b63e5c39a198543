#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "runtime/schedule/placement.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "Finds the longest context that fits, in whole chunks: with every page in GPU memory, lean (every page on the\n"
    "host, nothing kept), with pages in both, and with layer inputs and attention outputs of all chunks kept.\n"
    "A flag that is given holds for all of them.";
constexpr const char* kFooter =
    "Exit code: 0 found; 1 failed; 2 wrong usage; 3 not even one chunk fits.\n"
    "\n"
    "Example: Qwen2.5-7B on one GPU in chunks of 8K\n"
    "  oomb-plan max-context --model models/qwen2.5-7b.json --chunk 8K --window 32K\n";

constexpr double kSecondsPerDay = 86'400;

struct Mode {
    std::string_view name;
    Offload offload;
    HbmPages pages;
    Keep keep;
};
constexpr Mode kModes[] = {{"resident", Offload::kNone, {}, Keep::kNone},
                           {"lean", Offload::kHost, {HbmPages::Mode::kRing, 0}, Keep::kNone},
                           {"both tiers", Offload::kHost, {}, Keep::kNone},
                           {"all kept", Offload::kHost, {}, Keep::kInputAndOutput}};

struct Found {
    std::string_view mode;
    schedule::Plan plan;
    std::optional<Prediction> prediction;
    std::string_view limiting_flag;  // empty: memory limits

    // What a billion tokens take, in sequences of this length.
    double days_per_billion() const { return 1e9 / prediction->tokens_per_second() / kSecondsPerDay; }
};

class MaxContext {
  public:
    MaxContext(const PlanFlags& flags, const CLI::App& app, const Call& call)
        : flags_(flags), app_(app), call_(call), asked_(asked()) {
        profile_ = profile_of(flags_, asked_.device);
        lists_ = list_source(flags_, asked_);
        model_ = read_model_shape(flags_.run.model);
    }

    ExitCode run() {
        require_times(call_.program, asked_, profile_);
        for (const Mode& mode : kModes) {
            find(mode);
        }
        if (found_.empty()) {
            RunConfiguration lean = of_mode(kModes[1]);
            lean.context_tokens = lean.chunk_tokens;
            const schedule::Plan plan = schedule::make_plan(model_, lean);
            call_.err << fmt::format("{}: not even one chunk fits\n", call_.program)
                      << explain_excess(plan, excesses_of(plan, {}), {}, profile_);
            return ExitCode::kDoesNotFit;
        }
        print();
        write_json(flags_.json_path, json());
        finish(call_.out);
        return ExitCode::kDone;
    }

  private:
    // There is no context yet.
    RunConfiguration asked() const {
        RunFlags flags = flags_.run;
        flags.context = "1";
        flags.keep_is_free = app_.count("--keep") == 0;
        return to_run_configuration(flags);
    }

    RunConfiguration of_mode(const Mode& mode) const {
        RunConfiguration run = asked_;
        run.offload = app_.count("--offload") > 0 ? run.offload : mode.offload;
        run.keep = app_.count("--keep") > 0 ? run.keep : mode.keep;
        if (app_.count("--hbm-pages") == 0) {
            run.hbm_pages = run.offload == Offload::kHost ? mode.pages : HbmPages{};
        }
        return run;
    }

    // A mode that the flags make equal to one before is left out, as is keeping layer inputs beside --held-chunks.
    void find(const Mode& mode) {
        RunConfiguration run = of_mode(mode);
        const bool holds = run.held_chunks.mode == Amount::Mode::kAll || run.held_chunks.count > 0;
        if (app_.count("--keep") == 0 && keeps_input(run.keep) && holds) {
            return;
        }
        for (const Mode& before : kModes) {
            if (&before == &mode) {
                break;
            }
            if (setting_text(of_mode(before)) == setting_text(run)) {
                return;
            }
        }
        const schedule::ContextLimit limit = schedule::context_limit(run);
        const std::int64_t most = limit.tokens / run.chunk_tokens;
        const std::int64_t chunks = schedule::most(most, [&](std::int64_t n) {
            run.context_tokens = n * run.chunk_tokens;
            return shortfalls(schedule::make_plan(model_, run)).empty();
        });
        if (chunks == 0) {
            return;
        }
        run.context_tokens = chunks * run.chunk_tokens;
        Found found{mode.name, plan_for_time(model_, run, profile_, lists_.locality), std::nullopt, {}};
        if (chunks == most) {
            found.limiting_flag = limit.flag;
        }
        found.prediction = try_to_predict(found.plan, profile_, lists_).prediction;
        found_.push_back(std::move(found));
    }

    std::string command(const Found& found) const {
        PlanFlags flags = flags_;
        flags.run.context = tokens_as_typed(found.plan.run.context_tokens);
        return train_command(flags, found.plan.asked);
    }

    void print() const {
        call_.out << fmt::format("{}, longest context within {} of GPU memory and {} of host memory, times on {}\n\n",
                                 model_name(flags_.run.model), format_bytes_short(asked_.gpu_memory_bytes),
                                 format_bytes_short(asked_.host_memory_bytes), profile_.name);
        call_.out << fmt::format("  {:<12}{:>16}{:>14}{:>12}{:>14}{:>12}{:>12}\n", "mode", "context", "step",
                                 "tokens/s", "days per 1e9", "GPU memory", "host");
        for (const Found& found : found_) {
            const auto& prediction = found.prediction;
            call_.out << fmt::format("  {:<12}{:>16}{:>14}{:>12}{:>14}{:>12}{:>12}\n", found.mode,
                                     format_count(found.plan.run.context_tokens),
                                     prediction ? format_duration(prediction->seconds) : "not predicted",
                                     prediction ? format_count(std::llround(prediction->tokens_per_second())) : "",
                                     prediction ? fmt::format("{:.1f}", found.days_per_billion()) : "",
                                     format_bytes_short(found.plan.peak_bytes(Tier::kHbm)),
                                     format_bytes_short(found.plan.peak_bytes(Tier::kHost)));
        }
        call_.out << "\n";
        for (const Found& found : found_) {
            if (!found.limiting_flag.empty()) {
                call_.out << fmt::format("{}: limited by {}, not by memory\n", found.mode, found.limiting_flag);
            }
        }
        for (const Found& found : found_) {
            call_.out << fmt::format("{}: {}\n", found.mode, command(found));
        }
    }

    Json json() const {
        Json file = {{"format", "oomb-plan-max-context"}, {"version", 1}};
        file["model"] = model_name(flags_.run.model);
        file["hardware"] = profile_.name;
        file["gpu_memory_bytes"] = asked_.gpu_memory_bytes;
        file["host_memory_bytes"] = asked_.host_memory_bytes;
        file["modes"] = Json::array();
        for (const Found& found : found_) {
            Json one = setting_json(found.plan, found.prediction, command(found));
            one["mode"] = found.mode;
            one["days_per_billion_tokens"] = found.prediction ? Json(found.days_per_billion()) : Json(nullptr);
            one["limited_by"] = found.limiting_flag.empty() ? "memory" : found.limiting_flag;
            file["modes"].push_back(std::move(one));
        }
        return file;
    }

    const PlanFlags& flags_;
    const CLI::App& app_;
    const Call& call_;
    const RunConfiguration asked_;
    HardwareProfile profile_;
    ListSource lists_;
    ModelShape model_;
    std::vector<Found> found_;
};

}  // namespace

ExitCode max_context(const Call& call) {
    CLI::App app(kDescription, call.program);
    PlanFlags flags;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags, "also write what is found to this file (docs/plan-format.md)");
    app.remove_option(app.get_option("--context"));
    if (const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    return MaxContext(flags, app, call).run();
}

}  // namespace oomb::simulator
