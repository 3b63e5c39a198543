#pragma once
// One optimizer step as lanes: what each engine did when, as a trace tells it, measured or simulated.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json.hpp"
#include "runtime/trace/trace.hpp"

namespace oomb::timeline {

struct Slice {
    schedule::OperationId id;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t bytes = 0;  // moved between the tiers
    std::int64_t pages = 0;
};
using Lane = std::vector<Slice>;  // in order, none overlaps the next

// Bytes in use in one tier from `at_ns` on, until the next point.
struct MemoryPoint {
    std::int64_t at_ns = 0;
    std::vector<std::int64_t> bytes;  // parallel to MemoryTrack::parts
};
struct MemoryTrack {
    std::string tier;                     // "GPU memory", "host memory"
    std::vector<std::string> parts = {};  // "weights and gradients", "K/V pages", ...
    std::vector<MemoryPoint> points = {};
    std::int64_t reserved_bytes = 0;  // what the plan says of the tier
};

// At most `most` points, of each run of points the one with the most bytes: no peak is lost.
MemoryTrack thinned(const MemoryTrack& track, std::int64_t most);
inline constexpr std::int64_t kMostMemoryPoints = 4'000;  // of a tier, in what is shown

struct Timeline {
    std::string program, device, clock;  // of the trace's header
    Json plan;                           // schedule::to_json
    std::int64_t step = 0;
    std::array<Lane, schedule::kEngines> lanes = {};
    std::vector<MemoryTrack> memory = {};  // empty where nobody recorded it

    // The step begins at 0. Throws FileError when a lane's slices overlap or run backwards.
    void add(const trace::TraceRecord& record);
    const Lane& lane(schedule::Engine engine) const { return lanes[static_cast<std::size_t>(engine)]; }
    std::int64_t end_ns() const;
    std::int64_t operations() const;
};

// A step of a recorded trace, the last one if `step` is none. Its times are counted from the step's first operation.
// Throws FileError: the file is no trace, or has no such step.
Timeline read_timeline(const std::filesystem::path& path, std::optional<std::int64_t> step);

// Operations that a reader sees as one thing.
enum class Group : std::uint8_t {
    kLinear,
    kAttention,
    kPasses,  // norms, RoPE, SwiGLU, cross entropy, embedding: bound by memory
    kOptimizer,
    kPages,        // K/V pages and their gradients between the tiers
    kActivations,  // kept activations
    kStates,       // of the optimizer
    kTokens,
};
inline constexpr int kGroups = 8;
Group group_of(schedule::Kind kind);
std::string_view name_of(Group group);

}  // namespace oomb::timeline
