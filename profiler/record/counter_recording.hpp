#pragma once
// Counters of all devices that this process may see, whoever uses them, in a profile that holds nothing else.

#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/record/counter_sampler.hpp"
#include "profiler/record/guarded_writing.hpp"

namespace oomb::profiler {

// Samples on a thread of its own, from its construction to `finish`.
class CounterRecording {
  public:
    // Returns when sampling has begun, some hundred milliseconds. What is refused is a note in the file, and the rest
    // is sampled without it. Throws FileError: the file exists or cannot be made.
    CounterRecording(const std::filesystem::path& out, const SessionHeader& header);
    CounterRecording(const CounterRecording&) = delete;
    CounterRecording& operator=(const CounterRecording&) = delete;
    ~CounterRecording();  // ends the sampling; the file lacks its last block and its end

    // Writes what is there and closes the file. Throws FileError, also for what failed before.
    void finish();

  private:
    void work(std::promise<void> begun);
    void begin_devices();
    bool wait();
    void decode();
    void stop();
    void join();
    bool noting_refusal(const std::string& what, const auto& work);

    ProfileWriter writer_;
    RecordSink sink_;
    std::vector<std::unique_ptr<CounterSampler>> samplers_;
    std::set<std::string> told_;  // of refusals
    GuardedWriting guarded_;
    std::mutex mutex_;
    std::condition_variable stop_asked_;
    bool stopping_ = false;
    std::thread worker_;
};

}  // namespace oomb::profiler
