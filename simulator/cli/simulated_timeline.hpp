#pragma once
// The timeline of a simulated step: lanes, and memory in use over time.

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/lists/page_lists.hpp"
#include "timeline/timeline.hpp"

namespace oomb::simulator {

// Memory in use, in both tiers: buffers that live from step to step, working buffers while they hold something, frames
// that hold a page. A point per operation that changes it, at the operation's begin on its engine.
// Throws as simulate_step does. Memory grows with the operations of the step, some 100 bytes each.
timeline::Timeline simulated_timeline(const schedule::Plan& plan, const HardwareProfile& profile,
                                      const ListSource& lists = {});

}  // namespace oomb::simulator
