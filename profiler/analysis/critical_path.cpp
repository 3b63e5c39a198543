#include "profiler/analysis/critical_path.hpp"

#include <algorithm>
#include <limits>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

using schedule::Engine;
using timeline::Interval;

constexpr std::int64_t kNone = PathOperation::kNone;

const PathOperation& at(const std::vector<PathOperation>& step, std::int64_t place) {
    return step[static_cast<std::size_t>(place)];
}

Interval span_of(const std::vector<PathOperation>& step) {
    Interval span{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    for (const PathOperation& operation : step) {
        if (operation.time) {
            span = {std::min(span.begin, operation.time->begin), std::max(span.end, operation.time->end)};
        }
    }
    return span.begin > span.end ? Interval{} : span;
}

// When each operation ran. One without work on the device takes no time: it is done with the last that it waits for.
std::vector<Interval> times_of(const std::vector<PathOperation>& step, std::int64_t begin_ns) {
    std::vector<Interval> times;
    times.reserve(step.size());
    for (const PathOperation& operation : step) {
        std::int64_t ready = begin_ns;
        for (const std::int64_t place : operation.after) {
            require(place < std::ssize(times), "{} waits for an operation after it", schedule::to_text(operation.id));
            ready = place == kNone ? ready : std::max(ready, times[static_cast<std::size_t>(place)].end);
        }
        times.push_back(operation.time.value_or(Interval{ready, ready}));
    }
    return times;
}

// Of those that an operation waits for the one that was done last; its own engine's where both were.
std::int64_t last_done(const PathOperation& operation, const std::vector<Interval>& times) {
    std::int64_t last = operation.after[static_cast<std::size_t>(operation.engine)];
    for (const std::int64_t place : operation.after) {
        const auto end_of = [&](std::int64_t p) { return times[static_cast<std::size_t>(p)].end; };
        if (place != kNone && (last == kNone || end_of(place) > end_of(last))) {
            last = place;
        }
    }
    return last;
}

// What held an operation from `ready_ns` until `begin_ns`.
HostTime host_time(const PathOperation& operation, std::int64_t ready_ns, std::int64_t begin_ns) {
    if (!operation.submitted_ns) {
        return {.unexplained_ns = begin_ns - ready_ns};
    }
    const std::int64_t submitted = std::clamp(*operation.submitted_ns, ready_ns, begin_ns);
    return {.host_ns = submitted - ready_ns, .launch_ns = begin_ns - submitted};
}

void add(HostTime& sum, const HostTime& more) {
    sum.host_ns += more.host_ns;
    sum.launch_ns += more.launch_ns;
    sum.unexplained_ns += more.unexplained_ns;
}

void require_whole(const CriticalPath& path) {
    std::int64_t sum = path.within_ns + path.host.sum();
    for (int engine = 0; engine < schedule::kEngines; ++engine) {
        sum += path.engine_ns(static_cast<Engine>(engine));
    }
    const std::int64_t length = path.step.end - path.step.begin;
    require(sum == length, "the critical path adds up to {} ns, the step takes {}", sum, length);
}

}  // namespace

std::int64_t CriticalPath::engine_ns(Engine engine) const {
    std::int64_t sum = 0;
    for (const auto& [kind, share] : engines[static_cast<std::size_t>(engine)]) {
        sum += share.ns;
    }
    return sum;
}

CriticalPath critical_path(const std::vector<PathOperation>& step) {
    CriticalPath path{.step = span_of(step)};
    const std::vector<Interval> times = times_of(step, path.step.begin);
    const auto last = std::max_element(times.begin(), times.end(),
                                       [](const Interval& a, const Interval& b) { return a.end < b.end; });
    std::int64_t place = last == times.end() ? kNone : last - times.begin();
    // All from here to the step's end is explained. Clocks of two engines differ a little: an operation may end after
    // one begins that waits for it; what counts of it ends here.
    std::int64_t moment = path.step.end;
    while (place != kNone) {
        const PathOperation& operation = at(step, place);
        const std::int64_t begin = std::min(times[static_cast<std::size_t>(place)].begin, moment);
        if (operation.time) {
            PathShare& share = path.engines[static_cast<std::size_t>(operation.engine)][operation.id.kind];
            const std::int64_t busy = std::min(moment - begin, operation.busy_ns);
            share.operations += 1;
            share.ns += busy;
            path.within_ns += moment - begin - busy;
            path.places.push_back(place);
        }
        place = last_done(operation, times);
        const std::int64_t done =
            place == kNone ? path.step.begin : std::min(begin, times[static_cast<std::size_t>(place)].end);
        add(path.host, host_time(operation, done, begin));
        moment = done;
    }
    require_whole(path);
    return path;
}

std::vector<EngineWait> longest_waits(const std::vector<PathOperation>& step, Engine engine, std::size_t most) {
    const std::vector<Interval> times = times_of(step, span_of(step).begin);
    std::vector<EngineWait> waits;
    for (std::int64_t place = 0; place < std::ssize(step); ++place) {
        const PathOperation& operation = at(step, place);
        std::int64_t before = operation.after[static_cast<std::size_t>(engine)];
        while (before != kNone && !at(step, before).time) {
            before = at(step, before).after[static_cast<std::size_t>(engine)];
        }
        if (operation.engine != engine || !operation.time || before == kNone) {
            continue;
        }
        const Interval wait{times[static_cast<std::size_t>(before)].end, operation.time->begin};
        if (wait.begin >= wait.end) {
            continue;
        }
        EngineWait found{.place = place, .time = wait};
        std::int64_t last = last_done(operation, times);
        while (!at(step, last).time && last_done(at(step, last), times) != kNone) {
            last = last_done(at(step, last), times);
        }
        const std::int64_t done = std::min(wait.end, times[static_cast<std::size_t>(last)].end);
        found.for_place = done > wait.begin ? last : kNone;
        found.for_ns = done - wait.begin;
        found.host = host_time(operation, done, wait.end);
        waits.push_back(found);
    }
    std::stable_sort(waits.begin(), waits.end(), [](const EngineWait& a, const EngineWait& b) {
        return a.time.end - a.time.begin > b.time.end - b.time.begin;
    });
    waits.resize(std::min(most, waits.size()));
    return waits;
}

}  // namespace oomb::profiler
