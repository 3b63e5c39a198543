#pragma once
// Finds the begin and the end of a window of steps among ranges of NVTX. No CUPTI, no locks: the caller has one.

#include <cstdint>
#include <optional>

#include "profiler/file/recording_request.hpp"

namespace oomb::profiler {

enum class WindowEvent : std::uint8_t { kNone, kBegins, kEnds };

// Pushed ranges nest within one thread and domain, and a pop names none: it ends the innermost.
struct RangeStack {
    std::uint64_t thread = 0;
    const void* domain = nullptr;
    bool operator==(const RangeStack&) const = default;
};

// Each event comes once: kBegins at the begin of the first step of the window that is seen, kEnds at the end of the
// last one, or at the begin of a later one, should the end be missed.
class StepWatch {
  public:
    explicit StepWatch(const StepRange& steps) : steps_(steps) {}

    // A range that is a step; `number` where it says which one, else it is counted.
    WindowEvent push_step(const RangeStack& stack, std::optional<std::int64_t> number);
    WindowEvent start_step(std::uint64_t range, std::optional<std::int64_t> number);
    // Any other range. Matters only while waits_for_pop().
    void push_other(const RangeStack& stack);
    WindowEvent pop(const RangeStack& stack);
    WindowEvent end(std::uint64_t range);

    bool waits_for_pop() const { return depth_ > 0; }
    bool ended() const { return ended_; }
    std::int64_t seen() const { return seen_; }  // number of the latest step; 0: none

  private:
    WindowEvent begin_step(std::optional<std::int64_t> number);
    WindowEvent end_window();

    StepRange steps_;
    std::int64_t seen_ = 0;
    bool begun_ = false, ended_ = false;
    RangeStack stack_;                    // of the last step, while
    std::int64_t depth_ = 0;              // ranges are open there, it and those within
    std::optional<std::uint64_t> range_;  // of the last step, where it was started
};

}  // namespace oomb::profiler
