#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/cli/free_flags.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/report/time_report.hpp"
#include "simulator/search/cuts.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "Sets what is not given of chunk, window, logit tile, what is kept and held, and where bytes lie, so that a step\n"
    "takes the least time within the budgets. A flag that is given stays as it is; auto leaves it to the search.\n"
    "Prints why that setting wins, and the time against GPU memory.";
constexpr const char* kFooter =
    "Exit code: 0 found; 1 failed; 2 wrong usage; 3 nothing fits.\n"
    "\n"
    "Example: Qwen2.5-7B over 128K tokens\n"
    "  oomb-plan best --model models/qwen2.5-7b.json --context 128K\n";

constexpr int kFrontRows = 6;
constexpr std::int64_t kWorthHalving = 64;  // of the memory that lacks such a part

// A setting in the comparison.
struct Row {
    std::string name;
    schedule::Plan plan;
    Prediction prediction;
};

// Says on `err`, at most once per second, how far the search is, once it has taken one.
class Ticker {
  public:
    explicit Ticker(const Call& call) : call_(call) {}
    void operator()(std::int64_t cuts, std::int64_t simulated) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= next_) {
            next_ = now + std::chrono::seconds(1);
            call_.err << fmt::format("{}: searching: {} cuts of the sequence looked at, {} settings simulated\n",
                                     call_.program, cuts, simulated)
                      << std::flush;
        }
    }

  private:
    const Call& call_;
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

class Best {
  public:
    Best(const PlanFlags& flags, const Freedom& freedom, const std::vector<RunConfiguration>& types, const Call& call)
        : flags_(flags),
          freedom_(freedom),
          call_(call),
          types_(types),
          asked_(types.front()),
          profile_(profile_of(flags, asked_.device)),
          lists_(list_source(flags, asked_)),
          model_(read_model_shape(flags.run.model)) {}

    ExitCode run() {
        require_times(call_.program, asked_, profile_);
        if (const std::optional<std::string> warning = position_warning(asked_, model_)) {
            call_.err << fmt::format("{}: warning: {}\n", call_.program, *warning);
        }
        std::optional<Setting> best, as_asked;
        std::optional<Search> search;
        for (const RunConfiguration& types : types_) {
            Search other(model_, types, freedom_, profile_, Ticker(call_), lists_.locality);
            const auto found = other.best(asked_.gpu_memory_bytes, asked_.host_memory_bytes);
            if (&types == &types_.front()) {
                as_asked = found;
            }
            if (found && (!best || found->seconds < best->seconds * (1 - kEqualTimes))) {
                best = found;
                search.emplace(std::move(other));
            }
        }
        if (!best) {
            return nothing_found();
        }
        if (search->gives_up()) {
            call_.err << fmt::format(
                "{}: note: compute waits for the host, so steps were simulated in all their layers, and not all cuts "
                "of the sequence were looked at; give --chunk or --window to look elsewhere\n",
                call_.program);
        }
        add_rows(*best, *search);
        make_front(*best, *search);
        predict_rows(*search);
        if (as_asked && setting_text(as_asked->run) != setting_text(best->run)) {
            add_row("types as asked", as_asked->run);
            rows_.back().prediction = predict_step(rows_.back().plan, profile_, lists_);
        }
        print(*best);
        write_json(flags_.json_path, json(*best));
        finish(call_.out);
        return ExitCode::kDone;
    }

  private:
    // Not even lean fits, or no time can be predicted (UnsupportedError).
    ExitCode nothing_found() const {
        const schedule::Plan plan = smallest_plan();
        const std::vector<Excess> excesses = excesses_of(plan, {});
        if (excesses.empty()) {
            fail<UnsupportedError>("no times to compare: {}",
                                   why_unpredictable(plan, profile_).value_or("the step is too long"));
        }
        call_.err << fmt::format("{}: nothing fits, not even\n  {}\n", call_.program, setting_text(plan.asked))
                  << explain_excess(plan, excesses, {}, profile_);
        return ExitCode::kDoesNotFit;
    }

    // Lean, of all cuts that the search may take by halving the last one that lacks noticeably less memory.
    schedule::Plan smallest_plan() const {
        const auto lacks = [](const schedule::Plan& plan) {
            std::int64_t bytes = 0;
            for (const Excess& excess : excesses_of(plan, {})) {
                bytes += excess.short_bytes();
            }
            return bytes;
        };
        schedule::Plan least = schedule::make_plan(model_, with_lean(asked_));
        for (auto cut = halved_cut(freedom_, asked_); cut; cut = halved_cut(freedom_, *cut)) {
            try {
                schedule::Plan plan = schedule::make_plan(model_, with_lean(*cut));
                if (lacks(plan) < lacks(least) - lacks(least) / kWorthHalving) {
                    least = std::move(plan);
                }
            } catch (const UsageError&) {  // more chunks or windows than there may be
                break;
            }
        }
        return least;
    }

    RunConfiguration with_lean(RunConfiguration run) const {
        run.keep = freedom_.keep ? Keep::kNone : run.keep;
        run.held_chunks = freedom_.held_chunks ? Amount{} : run.held_chunks;
        run.offload = freedom_.offload ? Offload::kHost : run.offload;
        if (run.offload == Offload::kHost && freedom_.hbm_pages) {
            run.hbm_pages = {HbmPages::Mode::kRing, 0};
        }
        run.resident_shards = freedom_.optimizer_states ? Amount{Amount::Mode::kAuto, 0} : run.resident_shards;
        return run;
    }

    // What make_plan() takes for auto, in the best cut.
    RunConfiguration with_fewest_operations(RunConfiguration run) const {
        run.keep = freedom_.keep ? Keep::kAuto : run.keep;
        run.kept_pages = freedom_.kept_pages ? Amount{Amount::Mode::kAuto, 0} : run.kept_pages;
        run.held_chunks = freedom_.held_chunks ? Amount{Amount::Mode::kAuto, 0} : run.held_chunks;
        run.offload = freedom_.offload ? Offload::kHost : run.offload;
        if (freedom_.hbm_pages) {
            run.hbm_pages = {};
        }
        run.resident_shards = freedom_.optimizer_states ? Amount{Amount::Mode::kAuto, 0} : run.resident_shards;
        const schedule::Plan plan = schedule::make_plan(model_, run);
        run.keep = plan.run.keep;
        run.kept_pages = {Amount::Mode::kCount, plan.kept_pages()};
        run.held_chunks = plan.run.held_chunks;
        return run;
    }

    void add_row(const std::string& name, const RunConfiguration& run) {
        schedule::Plan plan = schedule::make_plan(model_, run);
        if (shortfalls(plan).empty() && !why_unpredictable(plan, profile_)) {
            rows_.push_back({name, std::move(plan), {}});
        }
    }

    void predict_rows(Search& search) {
        std::vector<Row*> rows;
        std::vector<const schedule::Plan*> plans;
        for (std::vector<Row>* list : {&rows_, &front_}) {
            for (Row& row : *list) {
                rows.push_back(&row);
                plans.push_back(&row.plan);
            }
        }
        const std::vector<Prediction> predictions = search.predictions_of(plans);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rows[i]->prediction = predictions[i];
        }
    }

    void add_rows(const Setting& best, Search& search) {
        add_row("best", best.run);
        std::optional<Setting> next = search.next_choice();
        if (!next) {
            next = search.next_cut();
        }
        if (next) {
            add_row("next best", next->run);
        }
        add_row("fewest operations", with_fewest_operations(best.run));
        add_row("lean", with_lean(best.run));
    }

    // Budgets from what the best takes down to what lean takes with the optimizer's states on the host, evenly spaced.
    void make_front(const Setting& best, Search& search) {
        RunConfiguration least = with_lean(best.run);
        if (freedom_.optimizer_states && least.optimizer) {
            least.resident_shards = {};
        }
        const std::int64_t most = best.plan.peak_bytes(Tier::kHbm);
        const std::int64_t fewest = schedule::make_plan(model_, least).peak_bytes(Tier::kHbm);
        std::int64_t reached = most + 1;
        for (int row = 0; row < kFrontRows && most - row * (most - fewest) / (kFrontRows - 1) < reached; ++row) {
            const std::int64_t budget = most - row * (most - fewest) / (kFrontRows - 1);
            const std::int64_t whole = schedule::divide_up(budget, kMiB) * kMiB;
            std::optional<Setting> found =
                row == 0 ? best : search.best(std::min(whole, asked_.gpu_memory_bytes), asked_.host_memory_bytes);
            if (found) {
                reached = found->plan.peak_bytes(Tier::kHbm);
                front_.push_back({setting_of(found->run), found->plan, {}});
            }
        }
    }

    // As flags, with the budget where it is another one than asked for.
    std::string setting_of(const RunConfiguration& run) const {
        const std::string text = setting_text(run);
        return run.gpu_memory_bytes == asked_.gpu_memory_bytes
                   ? text
                   : fmt::format("{} --gpu-memory {}MiB", text, run.gpu_memory_bytes / kMiB);
    }

    void print(const Setting& best) const {
        const Prediction& prediction = rows_.front().prediction;
        call_.out << fmt::format(
            "{} over {} tokens, within {} of GPU memory and {} of host memory\n"
            "best on {}: {} per step, {} tokens/s\n"
            "  {}\n\n",
            model_name(flags_.run.model), format_tokens(asked_.context_tokens),
            format_bytes_short(asked_.gpu_memory_bytes), format_bytes_short(asked_.host_memory_bytes), profile_.name,
            format_duration(prediction.seconds), format_count(std::llround(prediction.tokens_per_second())),
            setting_text(best.run));
        print_rows();
        print_front();
        call_.out << fmt::format("\ntrain with it: {}\n", train_command(flags_, best.run));
    }

    void print_rows() const {
        call_.out << fmt::format("  {:<18}{:>12}{:>12}{:>12}{:>12}{:>11}{:>11}{:>12}{:>12}\n", "why", "step", "fill",
                                 "forward", "backward", "optimizer", "exposed", "GPU memory", "host");
        for (const Row& row : rows_) {
            const auto& phases = row.prediction.phase_seconds;
            call_.out << fmt::format("  {:<18}{:>12}{:>12}{:>12}{:>12}{:>11}{:>11}{:>12}{:>12}\n", row.name,
                                     format_duration(row.prediction.seconds), format_duration(phases[0]),
                                     format_duration(phases[1]), format_duration(phases[2]), format_duration(phases[3]),
                                     format_duration(row.prediction.exposed_copy_seconds),
                                     format_bytes_short(row.plan.peak_bytes(Tier::kHbm)),
                                     format_bytes_short(row.plan.peak_bytes(Tier::kHost)));
        }
        call_.out << "  (exposed: of the phases, what compute waits for copies)\n"
                  << list_note(rows_.front().prediction);
        for (const Row& row : rows_) {
            if (&row != &rows_.front()) {
                call_.out << fmt::format("  {}: {}; {}\n", row.name, setting_text(row.plan.asked), difference(row));
            }
        }
    }

    // Where the time goes that the setting takes longer than the best.
    std::string difference(const Row& row) const {
        const Prediction& best = rows_.front().prediction;
        std::size_t most = 0;
        const auto more = [&](std::size_t phase) {
            return row.prediction.phase_seconds[phase] - best.phase_seconds[phase];
        };
        for (std::size_t phase = 1; phase < schedule::kPhases; ++phase) {
            most = more(phase) > more(most) ? phase : most;
        }
        const double seconds = row.prediction.seconds - best.seconds;
        if (seconds <= kEqualTimes * best.seconds) {
            return "as fast";
        }
        return fmt::format("{} more, {} in {}", format_duration(seconds), format_duration(more(most)),
                           name_of(static_cast<schedule::Phase>(most)));
    }

    void print_front() const {
        call_.out << fmt::format("\n  {:<12}{:>12}{:>13}{:>11}  {}\n", "GPU memory", "host", "step", "tokens/s",
                                 "setting");
        for (const Row& row : front_) {
            call_.out << fmt::format(
                "  {:<12}{:>12}{:>13}{:>11}  {}\n", format_bytes_short(row.plan.peak_bytes(Tier::kHbm)),
                format_bytes_short(row.plan.peak_bytes(Tier::kHost)), format_duration(row.prediction.seconds),
                format_count(std::llround(row.prediction.tokens_per_second())), row.name);
        }
    }

    Json json(const Setting& best) const {
        Json file = {{"format", "oomb-plan-best"}, {"version", 1}};
        file["model"] = model_name(flags_.run.model);
        file["hardware"] = profile_.name;
        file["gpu_memory_bytes"] = asked_.gpu_memory_bytes;
        file["host_memory_bytes"] = asked_.host_memory_bytes;
        const auto settings = [&](const std::vector<Row>& rows) {
            Json list = Json::array();
            for (const Row& row : rows) {
                PlanFlags flags = flags_;
                if (row.plan.asked.gpu_memory_bytes != asked_.gpu_memory_bytes) {
                    flags.run.gpu_memory = fmt::format("{}MiB", row.plan.asked.gpu_memory_bytes / kMiB);
                }
                list.push_back(setting_json(row.plan, row.prediction, train_command(flags, row.plan.asked)));
            }
            return list;
        };
        file["best"] = setting_json(best.plan, rows_.front().prediction, train_command(flags_, best.run));
        file["compared"] = settings(rows_);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            file["compared"][i]["name"] = rows_[i].name;
        }
        file["front"] = settings(front_);
        return file;
    }

    const PlanFlags& flags_;
    const Freedom freedom_;
    const Call& call_;
    const std::vector<RunConfiguration>& types_;
    const RunConfiguration asked_;
    const HardwareProfile profile_;
    const ListSource lists_;
    const ModelShape model_;
    std::vector<Row> rows_;   // the best and what it is compared with
    std::vector<Row> front_;  // named by their settings
};

}  // namespace

ExitCode best(const Call& call) {
    CLI::App app(kDescription, call.program);
    PlanFlags flags;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags, "also write what is found to this file (docs/plan-format.md)");
    bool search_types = false;
    app.add_flag("--search-types", search_types,
                 "with --dtype bf16 also look at --master-weights remainder, which changes no bit of them, and at "
                 "--gradient-dtype bf16, which rounds gradients, unless these flags are given")
        ->group("What is trained");
    if (const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    flags.run.keep_is_free = app.count("--keep") == 0;
    const RunConfiguration run = to_run_configuration(flags.run);
    if (search_types && run.compute != DType::kBF16) {
        fail<UsageError>("--search-types with --dtype {}: only beside bf16 are there narrower types; leave it out",
                         name_of(run.compute));
    }
    const std::vector<RunConfiguration> types = types_of(app, run, search_types);
    return Best(flags, freedom_of(app, run), types, call).run();
}

}  // namespace oomb::simulator
