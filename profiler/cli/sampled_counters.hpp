#pragma once
// Hardware counters beside a program that is recorded, sampled by this process: CUPTI's way to sample is not safe in
// one that may end at any moment.

#include <filesystem>
#include <ostream>

#include "profiler/cli/launch.hpp"

namespace oomb::profiler {

class SampledCounters {
  public:
    // Samples all devices from here on, into RECORDING.counters. Throws FileError where that exists.
    SampledCounters(const Recorder& recorder, const std::filesystem::path& recording);
    SampledCounters(const SampledCounters&) = delete;
    SampledCounters& operator=(const SampledCounters&) = delete;
    ~SampledCounters();  // removes the file, unless it holds what the recording could not take

    // Ends, and puts what was sampled into the recording, which exists. `err` has what failed: nothing else does for
    // it.
    void add_to_recording(const RecordingWindow& window, std::ostream& err);

  private:
    bool end();

    Recorder recorder_;
    std::filesystem::path recording_, out_;
    bool sampling_ = false, keep_ = false;
};

}  // namespace oomb::profiler
