#pragma once
// When the host had submitted what, as far as the times on the device tell.

#include <cstdint>
#include <vector>

#include "simulator/replay/recording.hpp"

namespace oomb::simulator {

struct RecordedSpan {
    std::int64_t begin_ns = 0, end_ns = 0;
};

// Goes through a recorded step in program order and gives every operation its submission. An operation that began later
// than its engine and its waits explain, and before all that were issued after it, began when it was submitted: there
// the host is seen.
//   Seen twice within a few operations, it was behind: the time between is its work, evenly over these operations.
//   Held by kMostInFlight operations under way, it went on when the oldest was done: its work is what is left from
//   there. Seen now and then it was late for something of its own: a gap.
class HostTimes {
  public:
    // Both outlive this; `spans` is parallel to `operations`. The step begins at `begin_ns`.
    HostTimes(std::vector<RecordedOperation>& operations, const std::vector<RecordedSpan>& spans,
              std::int64_t begin_ns);

    // The host waits until all is done.
    void wait_until(std::int64_t moment_ns) { submitted_ns_ = moment_ns; }
    // The next operation; nothing on the device held it up any more at `ready_ns`.
    void add(std::int64_t ready_ns);

  private:
    void work(std::size_t place, std::int64_t ns);
    void spread_work(std::int64_t until_ns);

    std::vector<RecordedOperation>& operations_;
    const std::vector<RecordedSpan>& spans_;
    std::vector<std::int64_t> latest_ns_;  // by place: the first begin from there on
    std::vector<std::int64_t> done_ns_;    // by place within kMostInFlight: all until there were done
    std::size_t place_ = 0;
    std::int64_t submitted_ns_, all_ns_;
    std::size_t seen_ = 0;  // the operation at which the host was last seen, ...
    std::int64_t seen_ns_;  // ... and when
};

}  // namespace oomb::simulator
