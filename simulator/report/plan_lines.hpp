#pragma once
// The peak of a plan as lines that a user can add up: each byte of each tier is in exactly one of them.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/schedule/plan.hpp"

namespace oomb::simulator {

struct PlanLine {
    Tier tier = Tier::kHbm;
    std::string name;
    std::int64_t bytes = 0;
    std::string explanation;
    // A part of the line above that is not a member itself. Members share bytes, so they add up to more than it.
    bool is_member = false;
};

// The lines of a tier that are no members add up to plan.peak_bytes(tier). Regions that are live in the whole step have
// a line each; those that share bytes are one line, "working buffers", with its largest members; then the pools of
// pages, and on the host the page tables. Lines of 0 bytes are left out.
std::vector<PlanLine> lines_of(const schedule::Plan& plan);

}  // namespace oomb::simulator
