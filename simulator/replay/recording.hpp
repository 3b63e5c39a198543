#pragma once
// What a trace says of a step, operation by operation, held against the schedule of its plan.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/schedule/plan.hpp"
#include "simulator/costs/durations.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// Operations whose seconds may be compared, and how much of it one does: FLOPs of products and attention, else the
// bytes that it reads and writes. Copies between the tiers have no work here: what moves says the trace.
enum class WorkClass : std::uint8_t {
    kNone,
    kProduct,
    kAttention,
    kMaskedAttention,  // of a chunk over its own keys
    kAttentionBackward,
    kMaskedAttentionBackward,
    kPass,
    kCopy,
};
inline constexpr int kWorkClasses = 8;
struct Work {
    WorkClass what = WorkClass::kNone;
    double amount = 0.0;
};
Work work_of(const schedule::Operation& operation);

struct RecordedOperation {
    std::uint64_t id = 0;  // schedule::pack
    schedule::Engine engine = schedule::Engine::kCompute;
    bool both = false;  // beside a copy the other way: when it began, or as OptimizerShards knows
    Work work;
    std::int64_t bytes = 0;  // moved between the tiers
    double seconds = 0.0;
    Submission submission = {};
};

struct Recording {
    std::string program, device;  // of the trace's header
    std::int64_t sequences = 1;   // in a step
    std::int64_t number = 0;      // of the step
    // The steps among which it is the one of median length; 0 where it was asked for.
    std::int64_t first_step = 0, last_step = 0;
    double least_seconds = 0.0, most_seconds = 0.0;
    // In program order. A step is as long as from its first begin to its last end; engines and waits are seen as the
    // clock sees them. `hardware` is the device.
    std::vector<RecordedOperation> operations;
    Prediction step;
    std::vector<std::string> notes;  // what was left out and why, a sentence each
};

// With device "cpu" one thread carries out all operations in program order. With a GPU the host is followed: where it
// is behind, the times at which it submitted operations are read off those that began later than anything on the device
// explains.
Host host_of(const schedule::Plan& plan);

// Step `number` of the trace, or of those that are complete the one of median length, without the first one if there
// are more: it warms up. Means or medians of single operations would not wait for one another as any step did. Memory:
// about 100 bytes per operation of a step, whatever the number of steps. Throws FileError, naming file and line: no
// trace, a trace of another plan, operations that are missing, twice or out of order, times that run backwards, no
// complete step, no such step. A last step that is cut off is left out with a note. UnsupportedError: a plan
// with lists of top-K pages, or of more than some ten million pages.
Recording read_recording(const std::filesystem::path& trace, const schedule::Plan& plan,
                         std::optional<std::int64_t> number);

}  // namespace oomb::simulator
