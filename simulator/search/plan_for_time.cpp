#include "simulator/search/search.hpp"

#include "simulator/step/step_size.hpp"

namespace oomb::simulator {

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
