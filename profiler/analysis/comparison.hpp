#pragma once
// One step as up to three sources tell it: a prediction, the executor's events of a run (its trace) and what CUPTI
// recorded of it.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analysis/steps.hpp"
#include "runtime/core/json.hpp"
#include "timeline/overlap.hpp"

namespace oomb::profiler {

// The later one is nearer to the device; errors are those of the others against the last one given.
enum class Source : std::uint8_t { kPrediction, kEvents, kCupti };
inline constexpr std::size_t kSources = 3;
template <class T>
using BySource = std::array<T, kSources>;

// Of an operation a prediction's time is what its engine takes, that of events is between those around it, CUPTI's from
// the first begin to the last end of its work on the device.
struct TimedOperation {
    schedule::OperationId id;
    std::int64_t ns = 0;
    std::int64_t bytes = 0;  // between host and device
};
struct StepTimes {
    std::vector<TimedOperation> operations = {};
    timeline::Overlap overlap;
};
StepTimes times_of(const timeline::Timeline& step);
StepTimes times_of(const Profile& profile, const RecordedStep& step);

struct Amount {
    std::int64_t ns = 0, bytes = 0;
    bool operator==(const Amount&) const = default;
};
struct ComparedSum {
    std::int64_t operations = 0;
    BySource<Amount> of{};

    ComparedSum& operator+=(const ComparedSum& other);
    bool operator==(const ComparedSum&) const = default;
};

struct Comparison {
    struct Operation {
        schedule::OperationId id;
        ComparedSum times;
    };
    BySource<std::optional<timeline::Overlap>> overlaps;  // none: this source was not given
    // Over the operations that every source has.
    std::map<schedule::Kind, ComparedSum> kinds;
    std::map<schedule::Phase, ComparedSum> phases;
    ComparedSum total;
    std::vector<Operation> differ;         // those that differ most from the last source, in nanoseconds
    std::int64_t without_device_work = 0;  // of the host, or `release`: CUPTI has none of them
    std::int64_t other_bytes = 0;          // operations for which sources differ in bytes
    BySource<std::map<schedule::Kind, std::int64_t>> missing;  // operations that another source has and this one not

    Source reference() const;  // the last source given
};

// Two or three steps.
Comparison compare(const BySource<std::optional<StepTimes>>& steps, std::size_t most);

// Settings in which the plans of two traces differ: "run.chunk_tokens: 4096 and 8192". First those of the model, where
// the same operation is not the same work.
struct PlanDifference {
    std::vector<std::string> model, run;
};
PlanDifference plan_difference(const Json& plan, const Json& other);

}  // namespace oomb::profiler
