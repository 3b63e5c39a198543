#pragma once
// Where pages have their homes and how many are kept: from the shapes and the budgets to a plan; plan.hpp has the rule.
// make_plan() is the way in; this is for who makes many plans of one cut.

#include <map>
#include <tuple>

#include "runtime/schedule/layout.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::schedule {

// The largest n up to `all` for which fits(n), which holds up to some n and not beyond; 0 where it never does.
template <class Fits>
std::int64_t most(std::int64_t all, const Fits& fits) {
    std::int64_t yes = 0, no = all + 1;
    while (no - yes > 1) {
        const std::int64_t middle = yes + (no - yes) / 2;
        (fits(middle) ? yes : no) = middle;
    }
    return yes;
}

// Makes plans of one model and one cut of the sequence that differ in what is kept and held.
class Placement {
  public:
    Placement(const ModelShape& model, const RunConfiguration& asked) : model_(model), asked_(asked) {}

    // The plan for `run`, which is as asked but for `keep`, `held_chunks` and `kept_pages`. Of these only `kept_pages`
    // may be auto: the most that fit. `resident_shards` may be too.
    Plan plan_of(const RunConfiguration& run);

  private:
    struct Homes {
        std::int64_t resident = 0;  // K/V pages in HBM
        std::int64_t kept_hbm = 0;
    };
    struct Layout {
        RegionTable regions;
        std::int64_t bytes[kTiers] = {0, 0};
    };

    Plan place(const StepShape& step);
    Plan place_pages(const StepShape& step);  // resident_shards is not auto
    Layout layout_of(const StepShape& step);
    Plan plan_with(const StepShape& step, const Layout& layout, Homes homes) const;

    const ModelShape& model_;
    const RunConfiguration& asked_;
    // By what may differ between representative steps: keep, held chunks, kept pages, shards in HBM and on the host.
    std::map<std::tuple<Keep, std::int64_t, std::int64_t, bool, bool>, Interference> interferences_;
};

// The first layers of the same step, for who asks how its time grows from layer to layer: cut, embedding and head are
// those of `plan`; of K/V pages and kept pages in each tier there are as many per layer, a part of one page rounded;
// the optimizer's shards are those of the smaller model, as many on the host as there were or all of them. 1 <= layers
// <= those of `plan`. Offsets, table and peak bytes stay as they are and mean nothing.
Plan of_fewer_layers(const Plan& plan, std::int64_t layers);

}  // namespace oomb::schedule
