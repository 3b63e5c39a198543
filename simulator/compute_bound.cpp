#include "simulator/compute_bound.hpp"

#include <algorithm>

#include "runtime/schedule/generator.hpp"

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

std::vector<double> ComputeBound::seconds_by_chunk(const RunConfiguration& run, std::int64_t layers) const {
    ModelShape model = model_;
    model.layers = layers;
    const StepShape step(model, run);
    SumByChunk sum(costs_, step.chunks());
    schedule::SequenceGenerator(step, 0, 1, sum).generate();
    return std::move(sum.seconds);
}

const std::vector<ComputeBound::Line>& ComputeBound::lines_of(const RunConfiguration& run, Keep keep, Held held) {
    const std::tuple key(run.context_tokens, run.chunk_tokens, run.window_tokens, run.logit_tile_tokens, keep, held);
    auto found = lines_.find(key);
    if (found == lines_.end()) {
        RunConfiguration kind = run;
        kind.offload = Offload::kNone;
        kind.optimizer = false;  // its first fetches belong to the sequence
        kind.keep = keep;
        kind.kept_pages = {Amount::Mode::kAll, 0};
        kind.held_chunks = held == Held::kSinceFill ? Amount{Amount::Mode::kAll, 0}
                                                    : Amount{Amount::Mode::kCount, held == Held::kAtHand ? 1 : 0};
        const std::vector<double> two = seconds_by_chunk(kind, 2), three = seconds_by_chunk(kind, 3);
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
    const auto layers = static_cast<double>(model_.layers);
    double seconds = 0.0;
    for (std::int64_t chunk = 0; chunk < step.chunks(); ++chunk) {
        const bool since_fill = chunk + 1 < step.chunks() && step.chunks() - 1 - chunk < step.held_chunks();
        const Held held = step.held_chunks() == 0 ? Held::kNot : since_fill ? Held::kSinceFill : Held::kAtHand;
        const std::int64_t rank = step.kept_rank(chunk);
        const std::int64_t kept =
            rank < 0 ? 0 : std::clamp<std::int64_t>(step.kept_pages() - rank * model_.layers, 0, model_.layers);
        // The last layer is kept last: with less than all, kept ones and others are all of the usual kind.
        const Line& base = lines_of(run, kept == model_.layers ? run.keep : Keep::kNone, held)[chunk];
        seconds += base.fixed + layers * base.layer;
        if (kept > 0 && kept < model_.layers) {
            seconds += static_cast<double>(kept) * (lines_of(run, run.keep, held)[chunk].layer - base.layer);
        }
    }
    return seconds;
}

}  // namespace oomb::simulator
