#include "simulator/search.hpp"

namespace oomb::simulator {

std::optional<RunConfiguration> halved_cut(const Freedom& freedom, const RunConfiguration& run) {
    RunConfiguration half = run;
    const auto halve = [](bool free, std::int64_t& tokens, std::int64_t unit) {
        tokens = free && tokens > unit && tokens / 2 % unit == 0 ? tokens / 2 : tokens;
    };
    halve(freedom.chunk, half.chunk_tokens, run.page_tokens);
    halve(freedom.window, half.window_tokens, run.page_tokens);
    halve(freedom.logit_tile, half.logit_tile_tokens, 1);
    const bool same = half.chunk_tokens == run.chunk_tokens && half.window_tokens == run.window_tokens &&
                      half.logit_tile_tokens == run.logit_tile_tokens;
    return same ? std::nullopt : std::optional(half);
}

Freedom left_to_auto(const RunConfiguration& run) {
    Freedom freedom;
    freedom.keep = run.keep == Keep::kAuto;
    freedom.held_chunks = run.held_chunks.mode == Amount::Mode::kAuto;
    if (freedom.keep || freedom.held_chunks) {
        freedom.kept_pages = run.kept_pages.mode == Amount::Mode::kAuto;
        freedom.optimizer_states = run.resident_shards.mode == Amount::Mode::kAuto;
    }
    return freedom;
}

schedule::Plan plan_for_time(const ModelShape& model, const RunConfiguration& run, const HardwareProfile& profile,
                             const Locality& locality) {
    schedule::Plan plan = schedule::make_plan(model, run);
    const Freedom freedom = left_to_auto(run);
    if (!(freedom.keep || freedom.held_chunks) || why_unpredictable(plan, profile)) {
        return plan;
    }
    if (const auto best =
            Search(model, run, freedom, profile, {}, locality).best(run.gpu_memory_bytes, run.host_memory_bytes)) {
        plan = best->plan;
        plan.asked = run;
    }
    return plan;
}

}  // namespace oomb::simulator
