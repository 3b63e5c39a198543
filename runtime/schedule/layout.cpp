#include "runtime/schedule/layout.hpp"

#include <algorithm>
#include <vector>

#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::schedule {

void LivenessRecorder::take(const Operation& operation) {
    Set ends = 0;
    for (const RegionUse& use : operation.regions) {
        const Set region = Set{1} << static_cast<std::size_t>(use.region);
        used_ |= region;
        live_ |= region;
        begun_ |= use.begins ? region : 0;
        ends |= use.ends ? region : 0;
    }
    for (std::size_t region = 0; region < kRegions; ++region) {
        together_[region] |= has(live_, region) ? live_ : 0;
    }
    live_ &= ~ends;
}

Interference LivenessRecorder::interference() const {
    Interference result{};
    for (std::size_t a = 0; a < kRegions; ++a) {
        for (std::size_t b = 0; b < kRegions; ++b) {
            const bool persistent = !has(begun_, a) || !has(begun_, b);
            result[a][b] = a != b && has(used_, a) && has(used_, b) && (persistent || has(together_[a], b));
        }
    }
    return result;
}

namespace {

// Four chunks have one of each kind: the last, one held since its fill, one with history that runs again, the first.
// Of those that can be kept one is, where some are and some are not.
void shorten_kept(const StepShape& step, RunConfiguration& run, std::int64_t layers) {
    if (step.held_chunks() < step.chunks()) {
        run.held_chunks = {Amount::Mode::kCount, std::min<std::int64_t>(step.held_chunks(), 2)};
    }
    const std::int64_t kept = step.kept_pages(), per_chunk = step.model().layers;
    if (kept == step.keepable_chunks() * per_chunk) {
        run.kept_pages = {Amount::Mode::kAll, 0};
    } else {
        run.kept_pages = {Amount::Mode::kCount, kept >= per_chunk ? layers : std::min(kept, layers - 1)};
    }
}

// Of four chunks as many of the last have lists, up to three. With one page to a chunk the second has at most one page
// before it and none; the third stands for it, for they differ only where both are alike.
void shorten_lists(const StepShape& step, RunConfiguration& run) {
    if (has_page_lists(run.attention) && step.chunks() > 4) {
        const std::int64_t listed = std::clamp<std::int64_t>(step.chunks() - step.first_listed_chunk(), 0, 3);
        run.top_k = std::max<std::int64_t>(1, (3 - listed) * step.pages_per_chunk());
    }
}

// Layers differ in how many parts a history has, and the widest windows have some wherever others have.
void widen_windows(const StepShape& step, ModelShape& model) {
    const auto& windows = step.model().sliding_windows;
    if (windows.empty()) {
        return;
    }
    const auto [least, widest] = std::minmax_element(windows.begin(), windows.end());
    model.sliding_windows.assign(*least == 0 ? 0 : model.layers, *widest);
}

// Fewer parameters are fewer shards: of some in each tier at least one stays there.
void shorten_shards(const StepShape& step, const ModelShape& model, RunConfiguration& run) {
    const OptimizerShards shards = optimizer_shards(step);
    if (shards.on_host() > 0 && shards.resident > 0) {
        run.shard_parameters = divide_up(model.parameters(), 2);
        run.resident_shards = {Amount::Mode::kCount, 1};
    }
}

}  // namespace

StepShape representative_of(const StepShape& step) {
    ModelShape model = step.model();
    RunConfiguration run = step.run();
    model.layers = std::min<std::int64_t>(model.layers, 3);
    widen_windows(step, model);
    run.window_tokens = run.chunk_tokens;
    const bool many_tiles = run.logit_tile_tokens < step.longest_chunk();
    run.logit_tile_tokens = many_tiles ? divide_up(step.longest_chunk(), 2) : step.longest_chunk();
    shorten_kept(step, run, model.layers);
    shorten_shards(step, model, run);
    shorten_lists(step, run);
    run.context_tokens = std::min(run.context_tokens, 4 * run.chunk_tokens);
    return {model, run};
}

Interference interference_of(const StepShape& step) {
    const StepShape representative = representative_of(step);
    LivenessRecorder recorder;
    SequenceGenerator(representative, 0, 1, recorder).generate();
    generate_optimizer(representative, recorder);
    return recorder.interference();
}

std::int64_t assign_offsets(RegionTable& regions, Tier tier, const Interference& interference) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < kRegions; ++i) {
        if (regions[i].tier == tier && regions[i].total_bytes() > 0) {
            order.push_back(i);
        }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return regions[a].total_bytes() > regions[b].total_bytes(); });
    std::int64_t end = 0;
    std::vector<std::size_t> placed;  // ascending by offset
    for (const std::size_t current : order) {
        std::int64_t offset = 0;
        for (const std::size_t other : placed) {
            const bool overlaps = regions[other].offset_bytes < offset + regions[current].total_bytes() &&
                                  offset < regions[other].offset_bytes + regions[other].total_bytes();
            if (interference[current][other] && overlaps) {
                offset = regions[other].offset_bytes + regions[other].total_bytes();
            }
        }
        regions[current].offset_bytes = offset;
        end = std::max(end, offset + regions[current].total_bytes());
        placed.insert(
            std::upper_bound(placed.begin(), placed.end(), current,
                             [&](auto a, auto b) { return regions[a].offset_bytes < regions[b].offset_bytes; }),
            current);
    }
    return end;
}

}  // namespace oomb::schedule
