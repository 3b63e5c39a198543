#include "simulator/cli/commands.hpp"

#include <nlohmann/json.hpp>

#include "runtime/core/known_hardware.hpp"
#include "runtime/core/text_file.hpp"
#include "simulator/costs/costs.hpp"
#include "simulator/report/remarks.hpp"
#include "simulator/report/time_report.hpp"

namespace oomb::simulator {

void add_plan_flags(CLI::App& app, PlanFlags& flags, const std::string& what_json_gets) {
    flags.run.device = "cuda";
    add_run_flags(app, flags.run);
    app.add_option(
           "--hardware", flags.hardware,
           "machine (h200_sxm, h100_sxm) or hardware profile that the time is predicted for, with --device cuda")
        ->type_name("NAME|FILE")
        ->default_str("h200_sxm")
        ->group("Output");
    app.add_option(
           "--locality", flags.locality,
           "--attention topk: which pages lists name, as numbers of the model (sink, recency, zipf) or a file of "
           "oomb-plan locality; default: as fitted on SmolLM2-135M")
        ->type_name("S,R,Z|FILE")
        ->group("Output");
    app.final_callback([&flags] { take_budgets_of(flags.hardware, flags.run); });
    app.add_option("--json", flags.json_path, what_json_gets)->type_name("FILE")->group("Output");
}

void add_page_trace_flag(CLI::App& app, PlanFlags& flags) {
    app.add_option("--page-trace", flags.page_trace,
                   "--attention topk: the lists that this trace recorded (oomb-train --trace), of the same run")
        ->type_name("FILE")
        ->group("Output");
}

ListSource list_source(const PlanFlags& flags, const RunConfiguration& run) {
    return read_list_source(flags.locality, flags.page_trace, run.attention);
}

HardwareProfile profile_of(const PlanFlags& flags, DeviceKind device) {
    return flags.hardware.empty() ? default_hardware() : read_gpu_profile(flags.hardware, device);
}

void require_times(const std::string& program, const RunConfiguration& run, const HardwareProfile& profile) {
    if (run.device != DeviceKind::kCuda) {
        fail<UsageError>("--device: found cpu, but {} is about time, and times are those of a GPU; leave it out",
                         program);
    }
    const Costs checks_rates(run, profile);
}

std::string train_command(const PlanFlags& flags, const RunConfiguration& run) {
    PlanFlags set = flags;
    set_flags(set.run, run);
    return (run.forward_only ? "oomb-train eval " : "oomb-train ") + as_typed(set.run) +
           (set.hardware.empty() ? "" : " --hardware " + quoted_for_shell(set.hardware)) + " --data DATA";
}

std::string setting_text(const RunConfiguration& run) {
    RunFlags flags;
    set_flags(flags, run);
    return as_typed(flags);
}

nlohmann::ordered_json setting_json(const schedule::Plan& plan, const std::optional<Prediction>& prediction,
                                    const std::string& command) {
    const schedule::StepShape step(plan.model, plan.run);
    nlohmann::ordered_json json;
    json["command"] = command;
    json["context_tokens"] = step.tokens();
    json["chunk_tokens"] = plan.run.chunk_tokens;
    json["window_tokens"] = plan.run.window_tokens;
    json["logit_tile_tokens"] = plan.run.logit_tile_tokens;
    json["gradient_dtype"] = name_of(plan.run.gradient_type());
    json["master_weights"] = masters_text(plan.run);
    json["offload"] = name_of(plan.run.offload);
    json["resident_pages"] = plan.resident_pages;
    json["keep"] = name_of(plan.run.keep);
    json["kept_pages"] = {{"hbm", plan.kept_hbm}, {"host", plan.kept_host}};
    json["held_chunks"] = step.held_chunks();
    json["optimizer_shards"] = {{"hbm", plan.resident_shards}, {"host", plan.host_shards}};
    json["peak_bytes"] = {{"hbm", plan.peak_bytes(Tier::kHbm)}, {"host", plan.peak_bytes(Tier::kHost)}};
    json["time"] = prediction ? time_json(*prediction) : nlohmann::ordered_json(nullptr);
    return json;
}

void print_remarks(const Call& call, const schedule::Plan& plan) {
    if (const std::optional<std::string> warning = position_warning(plan.run, plan.model)) {
        call.err << fmt::format("{}: warning: {}\n", call.program, *warning);
    }
    for (const std::string& remark : remarks_on(plan)) {
        call.err << fmt::format("{}: note: {}\n", call.program, remark);
    }
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    if (!path.empty()) {
        write_text_file(path, json.dump(2) + "\n");
    }
}

void finish(std::ostream& out) {
    if (!out.flush()) {
        fail<FileError>("standard output: writing failed");
    }
}

}  // namespace oomb::simulator
