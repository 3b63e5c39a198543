#pragma once
// Work on a GPU of which all is known beforehand, for recordings to be held against.

#include <cstdint>
#include <string>

namespace oomb::profiler {

// What was done: counts and bytes exactly, seconds as CUDA events time them.
struct KnownWork {
    std::int64_t kernels = 0, memset_bytes = 0;
    std::int64_t to_device = 0, to_device_bytes = 0;  // copies; a piece of a batch is one
    std::int64_t to_host = 0, to_host_bytes = 0;
    double compute_seconds = 0, to_device_seconds = 0, hidden_seconds = 0;  // of do_overlapping; the first of do_tiny
};

KnownWork do_overlapping();           // a long kernel, and beside and after it copies; a memset, an odd copy back
KnownWork do_batches();               // cudaMemcpyBatchAsync
KnownWork do_threads();               // four threads with a stream each
KnownWork do_graphs();                // a graph of kernels and a copy, launched ten times
KnownWork do_marked(int operations);  // NVTX ranges as oomb-train makes them, two kernels and a copy in each
// Steps of which each launches three kernels of 2 ms and copies kStepBytes * its number, all at once: the device runs
// behind. After each a kernel that belongs to none.
enum class StepRanges : std::uint8_t { kPushed, kStarted, kNumbered };  // named "step", or as oomb-train numbers them
inline constexpr std::int64_t kStepBytes = 1'000;
KnownWork do_steps(int steps, StepRanges ranges);
KnownWork do_for_seconds(int seconds);  // kernels of 1 ms, the host waits for each
KnownWork do_copies(int seconds);       // copies of 64 MiB to the device, the host waits for each
KnownWork do_tiny(int launches);        // kernels of some microseconds, as fast as the host launches them
[[noreturn]] void work_until_killed();  // prints a line, then kills its process after three seconds of work

std::string as_json(const KnownWork& work);

}  // namespace oomb::profiler
