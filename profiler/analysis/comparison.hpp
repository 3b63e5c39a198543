#pragma once
// A recording held against the trace of the same run: what the executor's events said of each operation, and what
// CUPTI says.

#include <cstdint>
#include <vector>

#include "profiler/analysis/profile.hpp"
#include "runtime/trace/trace.hpp"

namespace oomb::profiler {

// Of an operation CUPTI's time is from the first begin to the last end of its work on the device; the trace's is
// between the events around it.
struct TimePair {
    std::int64_t operations = 0;
    std::int64_t trace_ns = 0, profile_ns = 0;
    std::int64_t trace_bytes = 0, profile_bytes = 0;  // moved between the tiers; copied

    TimePair& operator+=(const TimePair& other);
    bool operator==(const TimePair&) const = default;
};

struct Comparison {
    struct KindPair {
        schedule::Kind kind;
        TimePair pair;
    };
    struct OperationPair {
        schedule::OperationId id;
        std::int64_t step = 0;
        TimePair pair;
    };
    std::vector<KindPair> kinds;        // in the order of a step; only what both have
    TimePair total;                     // of them
    std::vector<OperationPair> differ;  // the operations that differ most, in nanoseconds
    std::int64_t only_in_trace = 0;     // no work on the device: host operations, or not recorded
    std::int64_t only_in_profile = 0;
};

// The n-th time that an operation is in the one is held against the n-th in the other.
Comparison compare(const Profile& profile, const std::vector<trace::TraceRecord>& records, std::size_t most);

}  // namespace oomb::profiler
