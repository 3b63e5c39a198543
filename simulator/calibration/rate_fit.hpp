#pragma once
// The numbers of a hardware profile from what operations of recorded runs took.

#include <string>
#include <vector>

#include "runtime/core/hardware_profile.hpp"
#include "simulator/costs/shape_times.hpp"

namespace oomb::simulator {

struct RecordedRun {
    RunConfiguration run;
    std::vector<ShapeTime> shapes;
};

// How well a fitted profile gives back what it was fitted to, by kind of operation.
struct FitError {
    std::string kind;
    std::int64_t shapes = 0;
    double seconds = 0.0;  // measured, all operations of all runs
    double error = 0.0;    // of their sum, predicted / measured - 1
    double largest = 0.0;  // of a shape, its absolute value
};

struct RateFit {
    HardwareProfile profile;
    std::vector<FitError> errors;   // most seconds first
    std::vector<std::string> kept;  // keys, head sizes of keys, that no run says anything about: as in the base
};

// Numbers that no run depends on stay those of `base`, with their sources; the others say `source` and how far they are
// from what they were fitted to. All runs compute in one type (FileError). FileError, naming the key, where neither a
// run nor the base has a number that every profile needs.
//
// The least sum of squares of relative errors, each shape weighing as its share of its run's time, over prices that
// are not negative: the prices of the compute engine together, then those of the copies. From each operation of the
// compute engine goes what a release takes, which has no kernel: the cost of the stamps themselves.
RateFit fit_rates(const std::vector<RecordedRun>& runs, const HardwareProfile& base, const std::string& source);

}  // namespace oomb::simulator
