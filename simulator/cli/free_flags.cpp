#include "simulator/cli/free_flags.hpp"

namespace oomb::simulator {

Freedom freedom_of(const CLI::App& app, const RunConfiguration& run) {
    const auto free = [&](const char* flag) { return app.count(flag) == 0; };
    Freedom freedom;
    freedom.chunk = free("--chunk");
    freedom.window = free("--window");
    freedom.logit_tile = free("--logit-tile");
    freedom.keep = free("--keep") || run.keep == Keep::kAuto;
    freedom.kept_pages = free("--kept-pages") || run.kept_pages.mode == Amount::Mode::kAuto;
    freedom.held_chunks = (free("--held-chunks") && run.held_chunks.mode != Amount::Mode::kAll) ||
                          run.held_chunks.mode == Amount::Mode::kAuto;
    freedom.offload = free("--offload");
    freedom.hbm_pages = free("--hbm-pages");
    freedom.optimizer_states = free("--optimizer-states") || run.resident_shards.mode == Amount::Mode::kAuto;
    return freedom;
}

std::vector<RunConfiguration> types_of(const CLI::App& app, const RunConfiguration& run, bool search) {
    std::vector<RunConfiguration> list{run};
    const auto add = [&](bool free, bool RunConfiguration::*narrow) {
        const std::vector<RunConfiguration> before = list;
        for (const RunConfiguration& one : before) {
            if (search && free && run.compute == DType::kBF16) {
                list.push_back(one);
                list.back().*narrow = true;
            }
        }
    };
    add(app.count("--master-weights") == 0 && run.optimizer, &RunConfiguration::split_masters);
    add(app.count("--gradient-dtype") == 0, &RunConfiguration::bf16_gradients);
    return list;
}

}  // namespace oomb::simulator
