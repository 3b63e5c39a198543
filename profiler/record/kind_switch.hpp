#pragma once
// Which kinds of records CUPTI makes, and when. Thread safe: a window of steps is switched on and off by the program's
// own thread at the border of a step, one of time by the recorder's.

#include <cupti.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "profiler/file/recording_request.hpp"

namespace oomb::profiler {

// What CUPTI did not take.
struct Refusal {
    CUptiResult result;
    std::string what;       // "allocations"
    bool required = false;  // without it there is nothing to record
};

class KindSwitch {
  public:
    explicit KindSwitch(const RecordingRequest& request) : request_(request) {}

    // Before the window, if it begins late: devices, whose records are made when CUDA starts, allocations, which later
    // work uses, and NVTX ranges, where the begin of one begins the window. Required kinds are tried, so that a refusal
    // is known at once. Else the same as on().
    void start();
    // All kinds. Once; nothing after off().
    void on();
    // All, for good.
    void off();

    bool is_on() const { return begin_ns_ != 0 && end_ns_ == 0; }
    bool is_off() const { return end_ns_ != 0; }
    // On CUPTI's clock; 0: not yet.
    std::int64_t begin_ns() const { return begin_ns_; }
    std::int64_t end_ns() const { return end_ns_; }
    std::vector<Refusal> take_refusals();  // since the last call

  private:
    RecordingRequest request_;
    std::mutex mutex_;
    std::atomic<std::int64_t> begin_ns_{0}, end_ns_{0};
    std::vector<Refusal> refusals_;
};

}  // namespace oomb::profiler
