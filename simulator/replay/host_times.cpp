#include "simulator/replay/host_times.hpp"

#include <algorithm>
#include <limits>

namespace oomb::simulator {
namespace {

constexpr double kSecond_ns = 1e9;
constexpr std::int64_t kUnblocked_ns = 1'000'000;  // a host that waits looks every 50 us
constexpr std::size_t kNear = 64;                  // operations; copies of pages are never so far apart

}  // namespace

HostTimes::HostTimes(std::vector<RecordedOperation>& operations, const std::vector<RecordedSpan>& spans,
                     std::int64_t begin_ns)
    : operations_(operations),
      spans_(spans),
      latest_ns_(spans.size()),
      done_ns_(kMostInFlight, begin_ns),
      submitted_ns_(begin_ns),
      all_ns_(begin_ns),
      seen_ns_(begin_ns) {
    std::int64_t latest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t place = spans.size(); place-- > 0;) {
        latest_ns_[place] = latest = std::min(latest, spans[place].begin_ns);
    }
}

void HostTimes::work(std::size_t place, std::int64_t ns) {
    operations_[place].submission.host_seconds += static_cast<double>(ns) / kSecond_ns;
}

// Over the operations since the host was last seen, none of them submitted after it, or a later one, began.
void HostTimes::spread_work(std::int64_t until_ns) {
    const auto count = static_cast<std::int64_t>(place_ - seen_);
    std::int64_t at = submitted_ns_;
    for (std::int64_t i = 1; i <= count; ++i) {
        const std::size_t place = seen_ + static_cast<std::size_t>(i);
        const std::int64_t even = submitted_ns_ + (until_ns - submitted_ns_) * i / count;
        const std::int64_t next = std::max(at, std::min(even, latest_ns_[place]));
        work(place, next - at);
        at = next;
    }
}

void HostTimes::add(std::int64_t ready_ns) {
    const RecordedSpan span = spans_[place_];
    std::int64_t& done_ns = done_ns_[place_ % kMostInFlight];
    submitted_ns_ = std::max(submitted_ns_, std::min(done_ns, latest_ns_[place_]));
    const bool seen =
        span.begin_ns - std::max(ready_ns, submitted_ns_) > kMostLatency_ns && span.begin_ns <= latest_ns_[place_];
    const bool was_held = submitted_ns_ != seen_ns_;  // since it was seen
    if (seen && was_held && span.begin_ns - submitted_ns_ <= kUnblocked_ns) {
        work(place_, span.begin_ns - submitted_ns_);
        submitted_ns_ = span.begin_ns;
    } else if (seen && !was_held && place_ - seen_ <= kNear) {
        spread_work(span.begin_ns);
        submitted_ns_ = span.begin_ns;
    }
    Submission& submission = operations_[place_].submission;
    const std::int64_t gap_ns = span.begin_ns - std::min(span.begin_ns, std::max(ready_ns, submitted_ns_));
    // A copy that began late for what nobody knows does not do so again.
    if (operations_[place_].engine == schedule::Engine::kCompute || gap_ns <= kMostLatency_ns) {
        submission.gap_seconds = static_cast<double>(gap_ns) / kSecond_ns;
    }
    submission.seen = seen;
    if (seen) {
        submitted_ns_ = seen_ns_ = span.begin_ns;
        seen_ = place_;
    }
    done_ns = all_ns_ = std::max(all_ns_, span.end_ns);
    ++place_;
}

}  // namespace oomb::simulator
