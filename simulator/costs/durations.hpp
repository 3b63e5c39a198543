#pragma once
// Where the clock takes its times from: a hardware profile, or the recording of a run (replay.hpp).

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <variant>

#include "simulator/costs/costs.hpp"

namespace oomb::simulator {

// What the host has to do with when an operation begins.
enum class Host : std::uint8_t {
    kAhead,      // it has submitted everything before an engine asks for it
    kFollowed,   // an operation begins no sooner than it is submitted
    kOneEngine,  // it carries out every operation itself, one after the other in program order
};
// Operations that are submitted and not done: as many as the CUDA backend lets the host run ahead.
inline constexpr std::int64_t kMostInFlight = 1024;
// Of a launch, or an event from one engine to another. What is longer is the host's.
inline constexpr std::int64_t kMostLatency_ns = 20'000;

struct Submission {
    double host_seconds = 0.0;  // the host works for the operation before it is submitted
    double gap_seconds = 0.0;   // from then on, once nothing else holds the operation up
    bool seen = false;          // the gap is the host's, which is no further than the operation when that begins
};

// A copy engine that another program wants all the time: the two take turns. The other one's begins when ours has
// nothing to copy or is over, and when its turn is over it has another one until we have something to copy again. What
// is under way is not broken off: a copy of ours waits for the rest of the other's turn, and so it does wherever our
// own ends within it.
struct CopyTurns {
    double own_seconds = 0.0, other_seconds = 0.0;

    bool shared() const { return other_seconds > 0; }
};

class Durations {
  public:
    virtual ~Durations() = default;

    // Seconds for which an operation keeps its engine busy. `bytes` is what it moves between the tiers; `both`: the
    // other copy engine is busy when it begins.
    virtual double seconds(const schedule::Operation& operation, std::int64_t bytes, bool both) = 0;

    // `runs` of neighbouring pages are what a copy moves.
    virtual Submission submission(const schedule::Operation& /*operation*/, std::int64_t /*runs*/) { return {}; }
    virtual Host host() const { return Host::kAhead; }
    virtual CopyTurns copy_turns() const { return {}; }
};

class ProfileDurations : public Durations {
  public:
    // Throws as Costs.
    ProfileDurations(const RunConfiguration& run, const HardwareProfile& profile) : costs_(run, profile) {}

    double seconds(const schedule::Operation& operation, std::int64_t bytes, bool both) override {
        return operation.engine == schedule::Engine::kCompute ? compute_seconds(operation)
                                                              : costs_.copy_seconds(operation.engine, bytes, both);
    }

    // The host's work for the operation before: the first one begins at once.
    Submission submission(const schedule::Operation& operation, std::int64_t runs) override {
        return {.host_seconds = std::exchange(before_, costs_.submit_seconds(operation, runs))};
    }
    Host host() const override { return Host::kFollowed; }

  private:
    // Of all ways to cut a product the fastest is looked for; those of a kind mostly have the shape of the one before.
    struct Product {
        schedule::GemmCost cost;
        double launches = 0.0, seconds = 0.0;
    };

    double compute_seconds(const schedule::Operation& operation) {
        const auto* cost = std::get_if<schedule::GemmCost>(&operation.cost);
        if (cost == nullptr) {
            return costs_.compute_seconds(operation);
        }
        const auto all_of = [](const schedule::GemmCost& of) {
            return std::tie(of.m, of.n, of.k, of.dtype, of.accumulates);
        };
        Product& last = products_[static_cast<std::size_t>(operation.id.kind)];
        const double launches = launches_of(operation);
        if (last.launches != launches || all_of(last.cost) != all_of(*cost)) {
            last = {*cost, launches, costs_.compute_seconds(operation)};
        }
        return last.seconds;
    }

    Costs costs_;
    std::array<Product, schedule::kKinds> products_;
    double before_ = 0.0;
};

}  // namespace oomb::simulator
