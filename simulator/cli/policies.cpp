#include "simulator/lists/policies.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/units.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"
#include "simulator/report/explain.hpp"
#include "simulator/search/search.hpp"

namespace oomb::simulator {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "Which page makes room when the ring that pages of the host pass through is full: what a step would fetch with "
    "what\n"
    "runs (least recently used), with the page whose next use is the farthest as far as it is known, and with the "
    "best\n"
    "there can be, which knows all lists beforehand. In the ring of the plan, and in one of twice and four times as "
    "many\n"
    "frames. Bytes to the host are the same with all.";
constexpr const char* kFooter =
    "Exit code: 0 compared; 1 failed; 2 wrong usage.\n"
    "\n"
    "Example: Qwen2.5-7B over 128K tokens, every page on the host\n"
    "  oomb-plan policies --model models/qwen2.5-7b.json --context 128K --offload host --hbm-pages ring \\\n"
    "      --attention topk --top-k 64\n";

constexpr std::int64_t kRings[] = {1, 2, 4};  // times the frames of the plan's
constexpr PageClass kClasses[] = {PageClass::kKv, PageClass::kKvGradient};

struct Row {
    Policy policy = Policy::kLeastRecentlyUsed;
    std::int64_t frames[2] = {};  // of K/V pages and of their gradients
    PageTraffic traffic[2];
    std::int64_t fetched_bytes() const {
        return traffic[0].fetched * traffic[0].page_bytes + traffic[1].fetched * traffic[1].page_bytes;
    }
    std::int64_t written_bytes() const {
        return traffic[0].written * traffic[0].page_bytes + traffic[1].written * traffic[1].page_bytes;
    }
};

std::vector<Row> compare(const schedule::Plan& plan, const std::vector<PageRequest>& requests) {
    const schedule::StepShape step(plan.model, plan.run);
    std::vector<Row> rows;
    for (const std::int64_t times : kRings) {
        for (int policy = 0; policy < kPolicies; ++policy) {
            Row row;
            row.policy = static_cast<Policy>(policy);
            for (int i = 0; i < 2; ++i) {
                const paging::ResidencyShape shape = with_ring(plan, kClasses[i], times);
                row.frames[i] = shape.hbm_frames;
                row.traffic[i] = traffic_of(requests, shape, row.policy);
                row.traffic[i].page_bytes = 2 * step.page_plane_bytes(kClasses[i]);
            }
            rows.push_back(row);
        }
    }
    return rows;
}

std::string table(const std::vector<Row>& rows) {
    std::string text = fmt::format("  {:>11}{:>11}  {:<22}{:>10}{:>14}{:>11}{:>15}{:>15}\n", "K/V frames", "gradients'",
                                   "policy", "K/V hits", "K/V pages", "gradients", "gradient pages", "host to device");
    const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
    for (const Row& row : rows) {
        text += fmt::format("  {:>11}{:>11}  {:<22}{:>10}{:>14}{:>11}{:>15}{:>15}\n", format_count(row.frames[0]),
                            format_count(row.frames[1]), name_of(row.policy), percent(row.traffic[0].hit_rate()),
                            format_count(row.traffic[0].fetched), percent(row.traffic[1].hit_rate()),
                            format_count(row.traffic[1].fetched), format_bytes_short(row.fetched_bytes()));
    }
    return text;
}

Json json_of(const std::vector<Row>& rows, const std::string& command, const std::string& lists) {
    Json file = {{"format", "oomb-plan-policies"}, {"version", 1}, {"command", command}};
    file["page_lists"] = lists.empty() ? Json(nullptr) : Json(lists);
    file["rows"] = Json::array();
    for (const Row& row : rows) {
        Json one = {{"policy", name_of(row.policy)}};
        for (int i = 0; i < 2; ++i) {
            const PageTraffic& traffic = row.traffic[i];
            one[std::string(name_of(kClasses[i]))] = {
                {"hbm_frames", row.frames[i]},      {"asked_pages", traffic.asked},
                {"fetched_pages", traffic.fetched}, {"written_pages", traffic.written},
                {"hit_rate", traffic.hit_rate()},   {"page_bytes", traffic.page_bytes}};
        }
        one["host_to_device_bytes"] = row.fetched_bytes();
        one["device_to_host_bytes"] = row.written_bytes();
        file["rows"].push_back(std::move(one));
    }
    return file;
}

ExitCode run(const PlanFlags& flags, const Call& call) {
    const RunConfiguration run = to_run_configuration(flags.run);
    if (run.offload == Offload::kNone) {
        fail<UsageError>("--offload: found none, but then no page moves; give --offload host");
    }
    const ListSource lists = list_source(flags, run);
    const schedule::Plan plan =
        plan_for_time(read_model_shape(flags.run.model), run, profile_of(flags, run.device), lists.locality);
    const bool selects = schedule::StepShape(plan.model, plan.run).selects();
    const auto source = selects ? lists.open(plan) : nullptr;
    const std::vector<PageRequest> requests = page_requests(plan, source.get());
    const std::vector<Row> rows = compare(plan, requests);
    call.out << fmt::format(
                    "{}, pages of a step over {} tokens that come from the host ({} of {} per layer are at home "
                    "in GPU memory)\n",
                    model_name(flags.run.model), format_count(plan.run.context_tokens),
                    format_count(plan.resident_pages / plan.model.layers),
                    format_count(schedule::StepShape(plan.model, plan.run).pages()))
             << (selects ? fmt::format("page lists: {}\n", lists.text(plan.run.attention)) : "") << "\n"
             << table(rows)
             << fmt::format(
                    "  (pages: fetched from the host; hits: of those asked for, already in the ring. To the "
                    "host go {} with every policy.)\n",
                    format_bytes_short(rows.front().written_bytes()));
    write_json(flags.json_path, json_of(rows, "oomb-plan policies " + as_typed(flags.run),
                                        selects ? lists.text(plan.run.attention) : ""));
    finish(call.out);
    return ExitCode::kDone;
}

}  // namespace

ExitCode policies(const Call& call) {
    CLI::App app(kDescription, call.program);
    PlanFlags flags;
    prepare_command_line(app, kFooter);
    add_plan_flags(app, flags, "also write the table to this file (docs/plan-format.md)");
    add_page_trace_flag(app, flags);
    const std::optional<ExitCode> end = parse_command_line(app, call.argc, call.argv, call.out, call.err);
    return end ? *end : run(flags, call);
}

}  // namespace oomb::simulator
