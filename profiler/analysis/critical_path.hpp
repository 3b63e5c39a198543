#pragma once
// Why a step took as long as it did: the chain of operations and waits that leads from its begin to its end. What is
// not on it can be faster without the step being faster.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/schedule/operation.hpp"
#include "timeline/intervals.hpp"

namespace oomb::profiler {

// An operation as it was issued and as it ran. Places are in the list of a step's operations in program order.
struct PathOperation {
    static constexpr std::int64_t kNone = -1;

    schedule::OperationId id;
    schedule::Engine engine = schedule::Engine::kCompute;
    // The last operation of each engine that had to be done before, an earlier place; on its own engine the one before.
    std::array<std::int64_t, schedule::kEngines> after = {kNone, kNone, kNone, kNone, kNone};
    std::optional<timeline::Interval> time = {};    // on the device; none: it gave the device nothing to do
    std::int64_t busy_ns = 0;                       // of it, at most its length: some kernel or copy ran
    std::optional<std::int64_t> submitted_ns = {};  // when the host took it in hand; none: not known
};

// Nanoseconds in which an operation did not run though everything that it waits for was done.
struct HostTime {
    std::int64_t host_ns = 0;         // the host had not come to it
    std::int64_t launch_ns = 0;       // from then on until it began
    std::int64_t unexplained_ns = 0;  // either: when the host came to it is not known

    std::int64_t sum() const { return host_ns + launch_ns + unexplained_ns; }
    bool operator==(const HostTime&) const = default;
};

struct PathShare {
    std::int64_t operations = 0, ns = 0;
    bool operator==(const PathShare&) const = default;
};

struct CriticalPath {
    timeline::Interval step = {};  // from the first begin to the last end of work on the device
    std::array<std::map<schedule::Kind, PathShare>, schedule::kEngines> engines =
        {};                      // operations on the path, by engine
    std::int64_t within_ns = 0;  // between the kernels of one operation
    HostTime host = {};
    std::vector<std::int64_t> places = {};  // the operations on it, the last one first

    std::int64_t engine_ns(schedule::Engine engine) const;
};

// Walks back from the operation that ends last: each began after whichever of those that it waits for was done last, or
// later, because of the host. Checked: engines + within + host = step. Throws InternalError where `after` does not lead
// back. Empty where nothing ran.
CriticalPath critical_path(const std::vector<PathOperation>& step);

// A time in which an engine waited for its next operation, and for what.
struct EngineWait {
    std::int64_t place = 0;                         // the operation that was waited with
    timeline::Interval time;                        // from the end of the one before on its engine
    std::int64_t for_place = PathOperation::kNone;  // the operation of another engine that was done last
    std::int64_t for_ns = 0;                        // waited for it
    HostTime host = {};                             // then: for_ns + host = time
};

// The longest `most` waits of an engine, the longest first.
std::vector<EngineWait> longest_waits(const std::vector<PathOperation>& step, schedule::Engine engine,
                                      std::size_t most);

}  // namespace oomb::profiler
