#include "profiler/analysis/critical_path.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "runtime/core/error.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

using schedule::Engine, schedule::Kind;

constexpr std::int64_t kNone = PathOperation::kNone;

PathOperation operation(Engine engine, Kind kind, std::int64_t begin, std::int64_t end,
                        std::initializer_list<std::pair<Engine, std::int64_t>> after = {}) {
    PathOperation made{
        .id = {.kind = kind}, .engine = engine, .time = timeline::Interval{begin, end}, .busy_ns = end - begin};
    for (const auto& [of, place] : after) {
        made.after[static_cast<std::size_t>(of)] = place;
    }
    return made;
}

PathShare share(const CriticalPath& path, Engine engine, Kind kind) {
    const auto& kinds = path.engines[static_cast<std::size_t>(engine)];
    const auto found = kinds.find(kind);
    return found == kinds.end() ? PathShare{} : found->second;
}

}  // namespace

TEST_CASE("a copy that compute waits for is on the path, the compute beside it is not") {
    const std::vector<PathOperation> step = {
        operation(Engine::kHostToDevice, Kind::kFetch, 0, 500),
        operation(Engine::kCompute, Kind::kRope, 0, 100),
        operation(Engine::kCompute, Kind::kAttention, 500, 800, {{Engine::kCompute, 1}, {Engine::kHostToDevice, 0}}),
    };
    const CriticalPath path = critical_path(step);
    CHECK(path.places == std::vector<std::int64_t>{2, 0});
    CHECK(share(path, Engine::kCompute, Kind::kAttention) == PathShare{1, 300});
    CHECK(share(path, Engine::kHostToDevice, Kind::kFetch) == PathShare{1, 500});
    CHECK(share(path, Engine::kCompute, Kind::kRope) == PathShare{});
    CHECK(path.host == HostTime{});
    const std::vector<EngineWait> waits = longest_waits(step, Engine::kCompute, 9);
    REQUIRE(waits.size() == 1);
    CHECK(waits[0].place == 2);
    CHECK(waits[0].for_place == 0);
    CHECK(waits[0].for_ns == 400);
    CHECK(waits[0].host == HostTime{});
}

TEST_CASE("what the host held up is told from launches where it is known when it submitted") {
    std::vector<PathOperation> step = {
        operation(Engine::kCompute, Kind::kRope, 10, 100),
        operation(Engine::kCompute, Kind::kAttention, 150, 200, {{Engine::kCompute, 0}}),
    };
    CHECK(critical_path(step).host == HostTime{.unexplained_ns = 50});
    step[0].submitted_ns = 0;
    step[1].submitted_ns = 130;
    CHECK(critical_path(step).host == HostTime{.host_ns = 30, .launch_ns = 20});
    CHECK(longest_waits(step, Engine::kCompute, 1)[0].host == HostTime{.host_ns = 30, .launch_ns = 20});
    CHECK(longest_waits(step, Engine::kCompute, 1)[0].for_place == kNone);
    step[1].submitted_ns = 5;  // long before
    CHECK(critical_path(step).host == HostTime{.launch_ns = 50});
    step[1].submitted_ns = 155;  // the clocks differ
    CHECK(critical_path(step).host == HostTime{.host_ns = 50});
}

TEST_CASE("an operation without work on the device passes on what it waits for") {
    std::vector<PathOperation> step = {
        operation(Engine::kCompute, Kind::kAttention, 0, 100),
        operation(Engine::kDeviceToHost, Kind::kWriteBack, 100, 900, {{Engine::kCompute, 0}}),
        operation(Engine::kCompute, Kind::kRelease, 0, 0, {{Engine::kCompute, 0}, {Engine::kDeviceToHost, 1}}),
        operation(Engine::kCompute, Kind::kRope, 905, 950, {{Engine::kCompute, 2}}),
    };
    step[2].time.reset();
    const CriticalPath path = critical_path(step);
    CHECK(path.places == std::vector<std::int64_t>{3, 1, 0});
    CHECK(share(path, Engine::kDeviceToHost, Kind::kWriteBack) == PathShare{1, 800});
    CHECK(path.host.sum() == 5);
    const std::vector<EngineWait> waits = longest_waits(step, Engine::kCompute, 9);
    REQUIRE(waits.size() == 1);
    CHECK(waits[0].time == timeline::Interval{100, 905});
    CHECK(waits[0].for_place == 1);
    CHECK(waits[0].for_ns == 800);
}

TEST_CASE("times between the kernels of an operation are told apart, differing clocks add nothing") {
    std::vector<PathOperation> step = {
        operation(Engine::kHostToDevice, Kind::kFetch, 0, 110),
        operation(Engine::kCompute, Kind::kAttention, 100, 200, {{Engine::kHostToDevice, 0}}),
    };
    step[1].busy_ns = 70;
    const CriticalPath path = critical_path(step);
    CHECK(path.within_ns == 30);
    CHECK(share(path, Engine::kCompute, Kind::kAttention) == PathShare{1, 70});
    CHECK(share(path, Engine::kHostToDevice, Kind::kFetch) == PathShare{1, 100});  // until the other began
}

TEST_CASE("a step in which nothing ran, and edges that lead forward") {
    CHECK(critical_path({}).places.empty());
    std::vector<PathOperation> step = {operation(Engine::kCompute, Kind::kRope, 1, 2)};
    step[0].time.reset();
    CHECK(critical_path(step).places.empty());
    CHECK_THROWS_AS(critical_path({operation(Engine::kCompute, Kind::kRope, 1, 2, {{Engine::kCompute, 0}})}),
                    InternalError);
}

namespace {

// Each operation begins when all that it waits for are done, `host_ns` late at most.
std::vector<PathOperation> random_step(Random& random, std::int64_t host_ns) {
    std::vector<PathOperation> step;
    std::array<std::vector<std::int64_t>, schedule::kEngines> lanes;
    const std::int64_t operations = 1 + random_below(random, 14);
    for (std::int64_t place = 0; place < operations; ++place) {
        PathOperation made{.id = {.kind = static_cast<Kind>(random_below(random, schedule::kKinds))},
                           .engine = static_cast<Engine>(random_below(random, 3)),
                           .time = {}};
        std::int64_t ready = 0;
        for (std::size_t engine = 0; engine < 3; ++engine) {
            const auto& lane = lanes[engine];
            const bool own = engine == static_cast<std::size_t>(made.engine);
            if (!lane.empty() && (own || random_below(random, 2) == 0)) {
                made.after[engine] =
                    own ? lane.back() : lane[static_cast<std::size_t>(random_below(random, std::ssize(lane)))];
                ready = std::max(ready, step[static_cast<std::size_t>(made.after[engine])].time->end);
            }
        }
        const std::int64_t begin = ready + (host_ns > 0 ? random_below(random, host_ns) : 0);
        made.busy_ns = 1 + random_below(random, 50);
        made.time = timeline::Interval{begin, begin + made.busy_ns};
        lanes[static_cast<std::size_t>(made.engine)].push_back(place);
        step.push_back(made);
    }
    return step;
}

// The longest of all chains that end at `place`, each tried.
std::int64_t longest_chain(const std::vector<PathOperation>& step, std::int64_t place) {
    std::int64_t longest = 0;
    for (const std::int64_t before : step[static_cast<std::size_t>(place)].after) {
        longest = std::max(longest, before == kNone ? 0 : longest_chain(step, before));
    }
    return longest + step[static_cast<std::size_t>(place)].busy_ns;
}

}  // namespace

TEST_CASE("without a host to wait for, the path is the longest chain of random schedules") {
    Random random(11);
    for (int round = 0; round < 500; ++round) {
        const std::vector<PathOperation> step = random_step(random, 0);
        std::int64_t longest = 0;
        for (std::int64_t place = 0; place < std::ssize(step); ++place) {
            longest = std::max(longest, longest_chain(step, place));
        }
        const CriticalPath path = critical_path(step);
        std::int64_t on_path = 0;
        for (const std::int64_t place : path.places) {
            on_path += step[static_cast<std::size_t>(place)].busy_ns;
        }
        CHECK(on_path == longest);
        CHECK(path.host.sum() == 0);
        CHECK(path.within_ns == 0);
        CHECK(path.step.end - path.step.begin == longest);
    }
}

TEST_CASE("with a host, operations and waits on the path add up to the step, and no chain is longer") {
    Random random(12);
    for (int round = 0; round < 500; ++round) {
        const std::vector<PathOperation> step = random_step(random, 30);
        const CriticalPath path = critical_path(step);
        std::int64_t on_path = 0;
        for (std::size_t i = 0; i < path.places.size(); ++i) {
            const PathOperation& here = step[static_cast<std::size_t>(path.places[i])];
            on_path += here.busy_ns;
            if (i + 1 < path.places.size()) {  // one that it waits for
                CHECK(std::count(here.after.begin(), here.after.end(), path.places[i + 1]) == 1);
            }
        }
        CHECK(on_path + path.host.sum() == path.step.end - path.step.begin);
        for (const EngineWait& wait : longest_waits(step, Engine::kCompute, 99)) {
            CHECK(wait.for_ns + wait.host.sum() == wait.time.end - wait.time.begin);
        }
    }
}

}  // namespace oomb::profiler
