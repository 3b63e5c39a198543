#pragma once
// The least time that a step can take, without walking through its pages.

#include <map>
#include <tuple>
#include <vector>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/costs/costs.hpp"

namespace oomb::simulator {

// Seconds for which the compute engine is busy, kept pages in HBM not counted: no copy makes a step faster than that,
// and with copies that hide it is the step. Exact, from two schedules of few layers per kind of chunk and sliding
// window: all layers of a chunk but the last do the same, unless some of them are kept or their windows differ.
class ComputeBound {
  public:
    // All runs asked about are of this model and of the element types of `types`. Throws FileError as Costs.
    ComputeBound(const ModelShape& model, const RunConfiguration& types, const HardwareProfile& profile);

    // Of one sequence, without the optimizer. Nothing in `run` is auto.
    double sequence_seconds(const RunConfiguration& run);

  private:
    // What a chunk takes: `fixed` and `layer` for each layer.
    struct Line {
        double fixed = 0.0, layer = 0.0;
    };
    enum class Held { kNot, kAtHand, kSinceFill };

    const std::vector<Line>& lines_of(const RunConfiguration& run, Keep keep, Held held, std::int64_t sliding_window);
    std::vector<double> seconds_by_chunk(const RunConfiguration& run, std::int64_t layers,
                                         std::int64_t sliding_window) const;

    ModelShape model_;
    Costs costs_;
    // By context, chunk, window, logit tile; what is kept, of all that can be; what is held; sliding window.
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, Keep, Held, std::int64_t>;
    std::map<Key, std::vector<Line>> lines_;
};

}  // namespace oomb::simulator
