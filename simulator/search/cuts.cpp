#include "simulator/search/cuts.hpp"

namespace oomb::simulator {

CutTokens cut_of(const RunConfiguration& run) {
    return {run.chunk_tokens, run.window_tokens, run.logit_tile_tokens};
}

std::vector<RunConfiguration> neighbouring_cuts(const Freedom& freedom, const RunConfiguration& run) {
    std::vector<RunConfiguration> list;
    const auto add = [&](bool free, std::int64_t RunConfiguration::*tokens, std::int64_t value) {
        // More than the sequence is as good as the sequence.
        if (free && value > 0 && value < 2 * run.context_tokens) {
            list.push_back(run);
            list.back().*tokens = value;
        }
    };
    for (const bool larger : {true, false}) {
        const auto changed = [&](std::int64_t tokens, std::int64_t unit) {
            return larger ? 2 * tokens : tokens / 2 % unit == 0 ? tokens / 2 : 0;
        };
        add(freedom.chunk, &RunConfiguration::chunk_tokens, changed(run.chunk_tokens, run.page_tokens));
        add(freedom.window, &RunConfiguration::window_tokens, changed(run.window_tokens, run.page_tokens));
        add(freedom.logit_tile, &RunConfiguration::logit_tile_tokens, changed(run.logit_tile_tokens, 1));
    }
    return list;
}

std::optional<RunConfiguration> halved_cut(const Freedom& freedom, const RunConfiguration& run) {
    RunConfiguration half = run;
    const auto halve = [](bool free, std::int64_t& tokens, std::int64_t unit) {
        tokens = free && tokens > unit && tokens / 2 % unit == 0 ? tokens / 2 : tokens;
    };
    halve(freedom.chunk, half.chunk_tokens, run.page_tokens);
    halve(freedom.window, half.window_tokens, run.page_tokens);
    halve(freedom.logit_tile, half.logit_tile_tokens, 1);
    return cut_of(half) == cut_of(run) ? std::nullopt : std::optional(half);
}

}  // namespace oomb::simulator
