#pragma once
// Timelines by hand.

#include <random>

#include "timeline/timeline.hpp"

namespace oomb::testing {

inline trace::TraceRecord record(schedule::Engine engine, schedule::Kind kind, std::int64_t begin_ns,
                                 std::int64_t end_ns, std::int64_t bytes = 0,
                                 schedule::Phase phase = schedule::Phase::kFill, std::uint16_t chunk = 0) {
    return {.step = 1,
            .id = {.phase = phase, .chunk = chunk, .layer = 0, .kind = kind},
            .engine = engine,
            .begin_ns = begin_ns,
            .end_ns = end_ns,
            .bytes = bytes};
}

// Every engine busy at random, some neighbours touching.
inline timeline::Timeline random_timeline(std::uint64_t seed, int slices) {
    std::mt19937_64 random(seed);
    timeline::Timeline made{.program = "test", .device = "none", .clock = "simulated", .plan = {}, .step = 1};
    const std::pair<schedule::Engine, schedule::Kind> lanes[] = {
        {schedule::Engine::kCompute, schedule::Kind::kLinearDown},
        {schedule::Engine::kHostToDevice, schedule::Kind::kFetch},
        {schedule::Engine::kDeviceToHost, schedule::Kind::kWriteBack}};
    for (const auto& [engine, kind] : lanes) {
        std::int64_t at = static_cast<std::int64_t>(random() % 50);
        for (int i = 0; i < slices; ++i) {
            const std::int64_t end = at + static_cast<std::int64_t>(random() % 40);
            made.add(record(engine, kind, at, end, static_cast<std::int64_t>(random() % 1000),
                            i % 3 == 0 ? schedule::Phase::kBackward : schedule::Phase::kFill,
                            static_cast<std::uint16_t>(i / 8)));
            at = end + (random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 30));
        }
    }
    return made;
}

}  // namespace oomb::testing
