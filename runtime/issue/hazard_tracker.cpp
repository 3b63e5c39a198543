#include "runtime/issue/hazard_tracker.hpp"

#include <algorithm>

namespace oomb::issue {
namespace {

using schedule::Access;
using schedule::Engine;
using schedule::kEngines;
using schedule::kRegions;
using schedule::Region;

// An operation rarely waits for one that lies further back; forgetting more costs a wait that is not needed.
constexpr std::size_t kHistory = 4096;

bool share_bytes(const Region& a, const Region& b) {
    return a.tier == b.tier && a.offset_bytes < b.offset_bytes + b.total_bytes() &&
           b.offset_bytes < a.offset_bytes + a.total_bytes();
}

}  // namespace

HazardTracker::HazardTracker(const schedule::Plan& plan) {
    for (std::size_t a = 0; a < kRegions; ++a) {
        regions_[a].resize(plan.regions[a].slots);
        for (std::size_t b = 0; b < kRegions; ++b) {
            if (a != b && share_bytes(plan.regions[a], plan.regions[b])) {
                aliases_[a].push_back(b);
            }
        }
    }
    for (const schedule::PoolPlan& pool : plan.pools) {
        frames_[static_cast<int>(pool.tier)][static_cast<int>(pool.page_class)].resize(pool.frames);
    }
}

std::int64_t HazardTracker::table_bytes() const {
    std::size_t records = 0;
    for (const auto& tier : frames_) {
        for (const auto& frames : tier) {
            records += frames.size();
        }
    }
    return static_cast<std::int64_t>(records * sizeof(AccessRecord));
}

void HazardTracker::begin(Engine engine) {
    engine_ = engine;
    needed_ = {};
    ++issued_[static_cast<int>(engine)];
}

void HazardTracker::wait_for(Engine engine, Ticket ticket) {
    Ticket& needed = needed_[static_cast<int>(engine)];
    needed = std::max(needed, ticket);
}

void HazardTracker::access(AccessRecord& record, Access access) {
    wait_for(record.writer, record.last_write);
    const Ticket mine = issued_[static_cast<int>(engine_)];
    if (access == Access::kRead) {
        record.reads[static_cast<int>(engine_)] = mine;
        return;
    }
    for (int engine = 0; engine < kEngines; ++engine) {
        wait_for(static_cast<Engine>(engine), record.reads[engine]);
    }
    record = {mine, engine_, {}};
}

void HazardTracker::region(const schedule::RegionUse& use) {
    const auto name = static_cast<std::size_t>(use.region);
    access(regions_[name].at(use.slot), use.access);
    if (!use.begins) {
        return;
    }
    for (const std::size_t alias : aliases_[name]) {
        for (const AccessRecord& record : regions_[alias]) {
            wait_for(record.writer, record.last_write);
            for (int engine = 0; engine < kEngines; ++engine) {
                wait_for(static_cast<Engine>(engine), record.reads[engine]);
            }
        }
    }
}

void HazardTracker::frame(Tier tier, PageClass page_class, std::int32_t frame, Access how) {
    access(frames_[static_cast<int>(tier)][static_cast<int>(page_class)].at(frame), how);
}

// Most of what is read is pages, many at a time.
void HazardTracker::frames(Tier tier, PageClass page_class, const std::vector<std::int32_t>& frames, Access how) {
    std::vector<AccessRecord>& records = frames_[static_cast<int>(tier)][static_cast<int>(page_class)];
    if (how == Access::kWrite) {
        for (const std::int32_t frame : frames) {
            access(records.at(frame), how);
        }
        return;
    }
    const auto self = static_cast<std::size_t>(engine_);
    const Ticket mine = issued_[self];
    Tickets needed = needed_;
    for (const std::int32_t frame : frames) {
        AccessRecord& record = records.at(frame);
        Ticket& of_writer = needed[static_cast<std::size_t>(record.writer)];
        of_writer = std::max(of_writer, record.last_write);
        record.reads[self] = mine;
    }
    needed_ = needed;
}

const Tickets* HazardTracker::known_before(int engine, Ticket ticket) const {
    const auto& history = history_[engine];
    const Ticket first = issued_[engine] - history.size() + 1;
    return ticket >= first && ticket <= issued_[engine] ? &history[ticket - first] : nullptr;
}

Ticket HazardTracker::finish(Tickets& waits) {
    const int self = static_cast<int>(engine_);
    Tickets& known = known_[self];
    // A wait follows from others when this engine, or an operation we also wait for, has waited for it already.
    Tickets implied = known;
    implied[self] = needed_[self];
    for (int other = 0; other < kEngines; ++other) {
        if (other == self || needed_[other] <= known[other]) {
            continue;
        }
        if (const Tickets* before = known_before(other, needed_[other])) {
            for (int engine = 0; engine < kEngines; ++engine) {
                implied[engine] = std::max(implied[engine], (*before)[engine]);
            }
        }
    }
    waits = {};
    for (int other = 0; other < kEngines; ++other) {
        if (other != self && needed_[other] > implied[other]) {
            waits[other] = needed_[other];
        }
        known[other] = std::max({known[other], implied[other], needed_[other]});
    }
    const Ticket ticket = issued_[self];
    known[self] = ticket - 1;
    auto& history = history_[self];
    history.push_back(known);
    if (history.size() > kHistory) {
        history.pop_front();
    }
    return ticket;
}

}  // namespace oomb::issue
