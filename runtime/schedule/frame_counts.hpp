#pragma once
// How many frames each pool of a step needs. Each number is reached, not only bounded: a page keeps its HBM frame until
// it dies or the frame is needed, so a pool fills up before anything is evicted. Only lists of pages may name fewer
// gradient pages.

#include "runtime/schedule/step_shape.hpp"

namespace oomb::schedule {

struct FrameCounts {
    std::int64_t of[kTiers][kPageClasses] = {};
    std::int64_t& at(Tier tier, PageClass page_class) {
        return of[static_cast<int>(tier)][static_cast<int>(page_class)];
    }
};

// With `resident` K/V pages and `kept_hbm` kept pages at home in HBM.
FrameCounts count_frames(const StepShape& step, std::int64_t resident, std::int64_t kept_hbm);

}  // namespace oomb::schedule
