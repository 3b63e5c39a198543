#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/text_file.hpp"
#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/search/parallel.hpp"
#include "simulator/search/search.hpp"
#include "simulator/step/step_size.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "Plans and times every combination of the values that --context, --chunk, --window, --top-k, --gpu-memory and\n"
    "--host-memory list, separated by commas. All other flags are as for oomb-plan fit.";
constexpr const char* kFooter =
    "Exit code: 0 something fits; 1 failed; 2 wrong usage; 3 nothing fits.\n"
    "\n"
    "Example: Qwen2.5-7B, three contexts, two chunks, two budgets\n"
    "  oomb-plan sweep --model models/qwen2.5-7b.json --context 32K,64K,128K --chunk 4K,8K \\\n"
    "      --gpu-memory 80GiB,139GiB --offload host --keep auto --kept-pages auto --csv sweep.csv\n";

constexpr std::int64_t kMostPoints = 100'000;

struct Point {
    RunFlags flags;
    schedule::Plan plan;
    bool fits = false;
    std::optional<Prediction> prediction;
};

std::vector<std::string> values_of(const std::string& list) {
    std::vector<std::string> values;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        values.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return values;
}

// Every combination, the first list slowest.
std::vector<RunFlags> combinations_of(const RunFlags& flags) {
    std::vector<RunFlags> points{flags};
    for (std::string RunFlags::*member : {&RunFlags::context, &RunFlags::chunk, &RunFlags::window, &RunFlags::top_k,
                                          &RunFlags::gpu_memory, &RunFlags::host_memory}) {
        const std::vector<std::string> values = values_of(flags.*member);
        if (std::ssize(points) * std::ssize(values) > kMostPoints) {
            fail<UsageError>("--context, --chunk and the others list more than {} combinations; list fewer values",
                             format_count(kMostPoints));
        }
        std::vector<RunFlags> next;
        for (const RunFlags& point : points) {
            for (const std::string& value : values) {
                next.push_back(point);
                next.back().*member = value;
            }
        }
        points = std::move(next);
    }
    return points;
}

std::string time_cell(const Point& point) {
    if (!point.fits) {
        return "does not fit";
    }
    return point.prediction ? format_duration(point.prediction->seconds) : "not predicted";
}

void print(const std::vector<Point>& points, std::ostream& out) {
    out << fmt::format("  {:>12}{:>8}{:>8}{:>12}{:>12}{:>15}{:>10}{:>12}{:>12}  {}\n", "context", "chunk", "window",
                       "GPU budget", "host budget", "step", "tokens/s", "GPU memory", "host", "kept");
    for (const Point& point : points) {
        const schedule::Plan& plan = point.plan;
        out << fmt::format(
            "  {:>12}{:>8}{:>8}{:>12}{:>12}{:>15}{:>10}{:>12}{:>12}  {}\n", format_count(plan.run.context_tokens),
            tokens_as_typed(plan.run.chunk_tokens), tokens_as_typed(plan.run.window_tokens),
            format_bytes_short(plan.run.gpu_memory_bytes), format_bytes_short(plan.run.host_memory_bytes),
            time_cell(point), point.prediction ? format_count(std::llround(point.prediction->tokens_per_second())) : "",
            format_bytes_short(plan.peak_bytes(Tier::kHbm)), format_bytes_short(plan.peak_bytes(Tier::kHost)),
            fmt::format("{} {}, held {}", name_of(plan.run.keep), format_count(plan.kept_pages()),
                        schedule::StepShape(plan.model, plan.run).held_chunks()));
    }
}

std::string csv(const std::vector<Point>& points) {
    std::string text =
        "context_tokens,chunk_tokens,window_tokens,gpu_budget_bytes,host_budget_bytes,fits,seconds,tokens_per_second,"
        "hbm_peak_bytes,host_peak_bytes,keep,kept_pages,held_chunks\n";
    for (const Point& point : points) {
        const schedule::Plan& plan = point.plan;
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", plan.run.context_tokens, plan.run.chunk_tokens,
                            plan.run.window_tokens, plan.run.gpu_memory_bytes, plan.run.host_memory_bytes,
                            point.fits ? 1 : 0, point.prediction ? fmt::format("{}", point.prediction->seconds) : "",
                            point.prediction ? fmt::format("{}", point.prediction->tokens_per_second()) : "",
                            plan.peak_bytes(Tier::kHbm), plan.peak_bytes(Tier::kHost), name_of(plan.run.keep),
                            plan.kept_pages(), schedule::StepShape(plan.model, plan.run).held_chunks());
    }
    return text;
}

Json json(const std::vector<Point>& points, const std::string& model, const std::string& hardware,
          const std::function<std::string(const Point&)>& command) {
    Json file = {{"format", "oomb-plan-sweep"}, {"version", 1}, {"model", model}, {"hardware", hardware}};
    file["points"] = Json::array();
    for (const Point& point : points) {
        Json one = setting_json(point.plan, point.prediction, command(point));
        one["gpu_memory_bytes"] = point.plan.run.gpu_memory_bytes;
        one["host_memory_bytes"] = point.plan.run.host_memory_bytes;
        one["fits"] = point.fits;
        file["points"].push_back(std::move(one));
    }
    return file;
}

// Of the longest context that fits the one with the least time; null where nothing has a time.
const Point* recommended(const std::vector<Point>& points) {
    const Point* best = nullptr;
    for (const Point& point : points) {
        if (point.prediction && (best == nullptr || point.plan.run.context_tokens > best->plan.run.context_tokens ||
                                 (point.plan.run.context_tokens == best->plan.run.context_tokens &&
                                  point.prediction->seconds < best->prediction->seconds))) {
            best = &point;
        }
    }
    return best;
}

ExitCode run(const PlanFlags& flags, const std::string& csv_path, const Call& call) {
    const std::vector<RunFlags> combinations = combinations_of(flags.run);
    const RunConfiguration first = to_run_configuration(combinations.front());
    const HardwareProfile profile = profile_of(flags, first.device);
    require_times(call.program, first, profile);
    const ModelShape model = read_model_shape(flags.run.model);
    const ListSource lists = list_source(flags, first);
    std::vector<Point> points(combinations.size());
    for_each_in_parallel(points.size(), [&](std::size_t i) {
        Point& point = points[i];
        point.flags = combinations[i];
        point.plan = plan_for_time(model, to_run_configuration(point.flags), profile, lists.locality);
        point.fits = shortfalls(point.plan).empty();
        if (point.fits && !why_unpredictable(point.plan, profile) && !is_slow_to_predict(point.plan)) {
            point.prediction = simulate_in_larger_pages(point.plan, profile, lists);
        }
    });
    const auto command = [&](const Point& point) {
        PlanFlags of_point = flags;
        of_point.run = point.flags;
        return train_command(of_point, point.plan.asked);
    };
    call.out << fmt::format("{} on {}\n\n", model_name(flags.run.model), profile.name);
    print(points, call.out);
    if (!csv_path.empty()) {
        write_text_file(csv_path, csv(points));
    }
    write_json(flags.json_path, json(points, model_name(flags.run.model), profile.name, command));
    if (const Point* best = recommended(points)) {
        call.out << fmt::format("\nthe longest context in the least time: {}\n", command(*best));
    }
    finish(call.out);
    const bool any = std::any_of(points.begin(), points.end(), [](const Point& point) { return point.fits; });
    if (!any) {
        call.err << fmt::format("{}: nothing fits\n", call.program);
    }
    return any ? ExitCode::kDone : ExitCode::kDoesNotFit;
}

}  // namespace

ExitCode sweep(const Call& call) {
    CLI::App app(kDescription, call.program);
    PlanFlags flags;
    std::string csv_path;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags, "also write every combination to this file (docs/plan-format.md)");
    app.add_option("--csv", csv_path, "also write the table to this file, numbers in bytes, tokens and seconds")
        ->type_name("FILE")
        ->group("Output");
    const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err);
    return end ? *end : run(flags, csv_path, call);
}

}  // namespace oomb::simulator
