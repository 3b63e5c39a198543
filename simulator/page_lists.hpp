#pragma once
// Where a simulated step has the lists of top-K pages from.

#include <memory>
#include <string>

#include "simulator/locality.hpp"
#include "simulator/page_trace.hpp"

namespace oomb::simulator {

struct ListSource {
    Locality locality = default_locality();
    std::shared_ptr<const PageTrace> recorded;  // instead of the model, where there is one

    // For a plan that selects; throws as recorded_lists(). The source refers to `recorded`.
    std::unique_ptr<issue::PageListSource> open(const schedule::Plan& plan) const {
        return recorded != nullptr ? recorded_lists(*recorded, plan) : modelled_lists(locality, listed_run(plan));
    }
    std::string text() const {
        return recorded != nullptr ? "recorded in " + recorded->path
                                   : "modelled, " + to_text(locality) + " (" + locality.source + ")";
    }
};

}  // namespace oomb::simulator
