#pragma once
// Where a simulated step has the lists of top-K pages from.

#include <memory>
#include <string>

#include "runtime/issue/random_pages.hpp"
#include "simulator/locality.hpp"
#include "simulator/page_trace.hpp"

namespace oomb::simulator {

struct ListSource {
    Locality locality = default_locality();
    std::shared_ptr<const PageTrace> recorded;  // instead of the model, where there is one

    // For a plan that selects; throws as recorded_lists(). The source refers to `recorded`. Lists of --attention random
    // are those of a run with the same seed.
    std::unique_ptr<issue::PageListSource> open(const schedule::Plan& plan) const {
        if (recorded == nullptr && plan.run.attention == AttentionMode::kRandom) {
            return std::make_unique<issue::RandomPages>(schedule::StepShape(plan.model, plan.run));
        }
        return recorded != nullptr ? recorded_lists(*recorded, plan) : modelled_lists(locality, listed_run(plan));
    }
    std::string text(AttentionMode attention) const {
        if (recorded == nullptr && attention == AttentionMode::kRandom) {
            return "drawn at random";
        }
        return recorded != nullptr ? "recorded in " + recorded->path
                                   : "modelled, " + to_text(locality) + " (" + locality.source + ")";
    }
};

}  // namespace oomb::simulator
