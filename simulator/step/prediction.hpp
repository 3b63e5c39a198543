#pragma once
// How long a training step takes on a machine that a hardware profile describes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/schedule/operation.hpp"
#include "runtime/schedule/plan.hpp"
#include "simulator/lists/page_lists.hpp"

namespace oomb::simulator {

// What some operations took together.
struct Use {
    std::int64_t operations = 0;
    double seconds = 0.0;    // their engine was busy
    std::int64_t bytes = 0;  // moved between the tiers, as issue::movement_of counts

    Use& operator+=(const Use& other);
};

class Durations;     // durations.hpp
class StepObserver;  // observer.hpp

struct Prediction {
    std::string hardware;                                   // name of the profile
    double seconds = 0.0;                                   // of the step
    std::array<double, schedule::kPhases> phase_seconds{};  // of the compute engine, its waits counted; sum <= seconds
    double exposed_copy_seconds = 0.0;  // compute waited for a copy beyond its own readiness, as the backends count
    // Top-K: compute waited for the host, which waited for lists, beyond what it waited for copies; and where the lists
    // came from, empty where the step has none.
    double list_wait_seconds = 0.0;
    std::string lists;
    bool sampled = false;  // told from some of the layers (layer_sample.hpp)
    std::int64_t tokens = 0;
    double model_flops = 0.0;          // runtime/core/model_flops.hpp
    std::optional<double> peak_flops;  // per second, where the profile has it
    std::array<std::array<std::array<Use, schedule::kKinds>, schedule::kEngines>, schedule::kPhases> uses{};

    Use of(schedule::Engine engine) const;
    Use of(schedule::Kind kind) const;

    // Adds `times` what happened between two moments of a clock, but for the seconds of the step.
    void add(const Prediction& until, const Prediction& since, double times);
    // What comes after it.
    Prediction& operator+=(const Prediction& later) {
        seconds += later.seconds;
        add(later, {}, 1.0);
        return *this;
    }

    double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
    // 1 - exposed / busy, busy of both copy engines added, within [0, 1]; nothing when nothing was copied.
    std::optional<double> hidden_copy_share() const;
    // Compute waited for the host, beyond what it waited for copies and lists.
    double host_wait_seconds() const;
    // Nothing with lists, of which model_flops knows nothing: it counts dense attention.
    std::optional<double> flop_utilisation() const;
};

// One sequence as long as planned, then the optimizer. Issues the very schedule that the trainer carries out.
// Deterministic. Time and memory: every operation is issued once, none is kept. Throws FileError where the profile has
// no rate for the plan's compute type.
// `observer`, if there is one, sees all of them. Lists of top-K pages come from `lists`; attention over them is taken
// at the rate of dense attention.
Prediction simulate_step(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer = nullptr,
                         const ListSource& lists = {});

// The same over `sequences` sequences of the planned length, with times from elsewhere. `hardware` and `peak_flops`
// stay empty.
Prediction simulate_step(const schedule::Plan& plan, Durations& durations, std::int64_t sequences,
                         StepObserver* observer = nullptr);

// The same numbers up to rounding, from a walk that leaves out what only repeats (shortcut.hpp): `left_out`, if it is
// not null, is told how many operations. Where the step has lists nothing repeats: all of it is
// walked through, with lists of the default model.
Prediction simulate_shortened(const schedule::Plan& plan, const HardwareProfile& profile,
                              std::int64_t* left_out = nullptr);

// The same step in the largest pages that its chunks and windows consist of (schedule::in_larger_pages): as many
// operations, fewer pages each. Equal to simulate_step(), but for the rounding of a part of a page per layer, where
// K/V pages in HBM end within a chunk or the last chunk is a short one; tests hold that to 0.5 %. A step with lists
// keeps its pages, which lists name one by one, and is simulated from four of its layers (layer_sample.hpp): tests hold
// that to 1 %. With recorded lists, or where compute waits for the host, all layers are walked through;
// UnsupportedError where that shows in the sample and all layers would take minutes (why_too_long).
Prediction simulate_in_larger_pages(const schedule::Plan& plan, const HardwareProfile& profile,
                                    const ListSource& lists = {});

// Its two parts, as Executor carries out a step: compute_gradients(), after whose norm all engines are at rest, and
// update_weights(). The first depends on the optimizer's shards only by the slots of their ring
// (OptimizerShards::ring_slots), for their states come into these beside the last backward; the second on nothing else.
// So who simulates many settings does each part of them once.
Prediction simulate_gradients(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists = {});

// The two ways to them, for who can do with less than all layers. From four layers: nothing where the layers are not
// alike or the lists recorded; it is no prediction where the host holds it up. And without leaving layers out for
// that: UnsupportedError as above.
std::optional<Prediction> sample_gradients(const schedule::Plan& plan, const HardwareProfile& profile,
                                           const ListSource& lists);
bool host_holds_up(const Prediction& sample);
Prediction walk_gradients(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists);

// The optimizer's phase by itself. It is the least that it adds to a step, for of it only the fetches of the first
// shards run earlier, and here they are done.
struct OptimizerPrediction {
    Prediction norm, update;
    double seconds() const { return norm.seconds + update.seconds; }
};
OptimizerPrediction simulate_optimizer(const schedule::Plan& plan, const HardwareProfile& profile);

// What the programs print: simulate_step() where that takes up to some tenth of a second, else in larger pages.
Prediction predict_step(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists = {});

// The same, or why there is none: why_unpredictable(), or what only the simulation finds.
struct Predicted {
    std::optional<Prediction> prediction;
    std::string why_not;
};
Predicted try_to_predict(const schedule::Plan& plan, const HardwareProfile& profile, const ListSource& lists = {});

}  // namespace oomb::simulator
