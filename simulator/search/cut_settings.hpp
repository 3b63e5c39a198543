#pragma once
// The settings that a search looks at within one cut of the sequence: every kind of keeping, held chunks, place of
// optimizer states and of K/V pages, with as many kept pages as fit and with fewer.

#include <vector>

#include "runtime/schedule/placement.hpp"
#include "simulator/search/freedom.hpp"

namespace oomb::simulator {

class CutSettings {
  public:
    // Of the kept pages that fit, so many parts are tried.
    static constexpr std::int64_t kKeptParts = 4;

    // Of the cut and the budgets of `run`; what is not free is as `asked`. `model` outlives this.
    CutSettings(const ModelShape& model, const RunConfiguration& asked, const Freedom& freedom,
                const RunConfiguration& run);
    CutSettings(const CutSettings&) = delete;
    CutSettings& operator=(const CutSettings&) = delete;

    // Nothing is kept or held that need not be.
    const RunConfiguration& lean() const { return lean_; }
    // Of a setting of this cut; the plans share their layouts.
    schedule::Plan plan_of(const RunConfiguration& run) { return placement_.plan_of(run); }
    // Whether they fit or not.
    std::vector<RunConfiguration> all();

  private:
    struct Place {
        Offload offload = Offload::kNone;
        HbmPages pages;
    };
    bool fits(const RunConfiguration& run) { return shortfalls(plan_of(run)).empty(); }
    std::vector<Keep> keeps() const;
    std::vector<Amount> states() const;
    std::vector<Place> places(Keep keep) const;
    std::vector<Amount> held_counts(Keep keep);
    std::vector<Amount> kept_counts(const RunConfiguration& run);

    const ModelShape& model_;
    const RunConfiguration asked_;
    const Freedom freedom_;
    const RunConfiguration lean_;
    schedule::Placement placement_;
};

}  // namespace oomb::simulator
