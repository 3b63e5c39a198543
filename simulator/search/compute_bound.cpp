#include "simulator/search/compute_bound.hpp"

#include <algorithm>

#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/key_parts.hpp"

namespace oomb::simulator {

using schedule::StepShape;

namespace {

class SumByChunk : public schedule::OperationSink {
  public:
    SumByChunk(const Costs& costs, std::int64_t chunks) : seconds(chunks), costs_(costs) {}
    void take(const schedule::Operation& operation) override {
        if (operation.engine == schedule::Engine::kCompute) {
            const double more = costs_.compute_seconds(operation);
            seconds[operation.id.chunk] += more;
            window_ += more;
        }
    }
    // Full windows of a history take the same.
    std::int64_t left_out(const schedule::Repetition& repetition) override {
        const std::int64_t alike = repetition.over == schedule::Repetition::Over::kWindows ? repetition.alike : 0;
        seconds[repetition.chunk] += static_cast<double>(alike) * window_;
        window_ = 0.0;
        return alike;
    }
    std::vector<double> seconds;

  private:
    const Costs& costs_;
    double window_ = 0.0;  // since a loop was last asked about
};

}  // namespace

ComputeBound::ComputeBound(const ModelShape& model, const RunConfiguration& types, const HardwareProfile& profile)
    : model_(model), costs_(types, profile) {}

std::vector<double> ComputeBound::seconds_by_chunk(const RunConfiguration& run, std::int64_t layers,
                                                   std::int64_t sliding_window) const {
    ModelShape model = model_;
    model.layers = layers;
    model.sliding_windows.assign(layers, sliding_window);
    const StepShape step(model, run);
    SumByChunk sum(costs_, step.chunks());
    schedule::SequenceGenerator(step, 0, 1, sum).generate();
    return std::move(sum.seconds);
}

const std::vector<ComputeBound::Line>& ComputeBound::lines_of(const RunConfiguration& run, Keep keep, Held held,
                                                              std::int64_t sliding_window) {
    const Key key(run.context_tokens, run.chunk_tokens, run.window_tokens, run.logit_tile_tokens, keep, held,
                  sliding_window);
    auto found = lines_.find(key);
    if (found == lines_.end()) {
        RunConfiguration kind = run;
        kind.offload = Offload::kNone;
        kind.optimizer = false;  // its first fetches belong to the sequence
        kind.keep = keep;
        kind.kept_pages = {Amount::Mode::kAll, 0};
        kind.held_chunks = held == Held::kSinceFill ? Amount{Amount::Mode::kAll, 0}
                                                    : Amount{Amount::Mode::kCount, held == Held::kAtHand ? 1 : 0};
        const std::vector<double> two = seconds_by_chunk(kind, 2, sliding_window),
                                  three = seconds_by_chunk(kind, 3, sliding_window);
        std::vector<Line> lines;
        for (std::size_t chunk = 0; chunk < two.size(); ++chunk) {
            const double layer = three[chunk] - two[chunk];
            lines.push_back({two[chunk] - 2 * layer, layer});
        }
        found = lines_.emplace(key, std::move(lines)).first;
    }
    return found->second;
}

double ComputeBound::sequence_seconds(const RunConfiguration& run) {
    const StepShape step(model_, run);
    const std::vector<schedule::LayersAlike> alike = schedule::layers_alike(step);
    double seconds = 0.0;
    for (std::int64_t chunk = 0; chunk < step.chunks(); ++chunk) {
        const bool since_fill = chunk + 1 < step.chunks() && step.chunks() - 1 - chunk < step.held_chunks();
        const Held held = step.held_chunks() == 0 ? Held::kNot : since_fill ? Held::kSinceFill : Held::kAtHand;
        const std::int64_t rank = step.kept_rank(chunk);
        const std::int64_t kept =
            rank < 0 ? 0 : std::clamp<std::int64_t>(step.kept_pages() - rank * model_.layers, 0, model_.layers);
        // The last layer is kept last: with less than all, kept ones and others are all of the usual kind.
        const Keep rest = kept == model_.layers ? run.keep : Keep::kNone;
        for (const auto& [first, count] : alike) {
            const std::int64_t window = step.sliding_window(first);
            const Line& base = lines_of(run, rest, held, window)[chunk];
            seconds += static_cast<double>(count) * base.layer + (first + count == model_.layers ? base.fixed : 0.0);
            if (const std::int64_t of_them = std::min(count, kept - first); of_them > 0 && kept < model_.layers) {
                seconds +=
                    static_cast<double>(of_them) * (lines_of(run, run.keep, held, window)[chunk].layer - base.layer);
            }
        }
    }
    return seconds;
}

}  // namespace oomb::simulator
