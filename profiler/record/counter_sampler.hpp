#pragma once
// Hardware counters of one device, sampled while the program runs (CUPTI's PM sampling).

#include <cupti_pmsampling.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "profiler/record/counter_samples.hpp"

namespace oomb::profiler {

// Used by one thread. Samples lie in a buffer of CUPTI's until decode() takes them: kDecodeEvery is safe, and much more
// than that loses some.
class CounterSampler {
  public:
    // Begins. Throws UnsupportedError: no permission, a chip that cannot do it, another tool that does it already.
    explicit CounterSampler(std::uint32_t device);
    CounterSampler(const CounterSampler&) = delete;
    CounterSampler& operator=(const CounterSampler&) = delete;
    ~CounterSampler();  // stops; what was not decoded is lost

    // Writes what was sampled since the last call. Throws UnsupportedError where CUPTI fails: no more will come.
    void decode(const RecordSink& sink);
    // Ends sampling and writes the rest. Throws as decode().
    void stop(const RecordSink& sink);

    std::int64_t lost() const { return lost_; }  // passes in which samples were lost

    static constexpr std::chrono::nanoseconds kInterval = std::chrono::milliseconds(1);
    static constexpr std::chrono::milliseconds kDecodeEvery{250};

  private:
    void configure();
    void release();
    void make_image();
    void clear_image();
    void read_samples(const RecordSink& sink);

    std::uint32_t device_;
    std::unique_ptr<CounterPlan> plan_;
    CUpti_PmSampling_Object* sampling_ = nullptr;
    bool started_ = false;
    std::vector<std::uint8_t> image_;  // of CUPTI: decoded samples
    std::int64_t lost_ = 0;
};

// Counters of all devices that a program uses. What cannot be had is noted once, and the rest is sampled without it.
// Used by one thread; what `sink` throws passes through.
class Counters {
  public:
    using Clock = std::chrono::steady_clock;
    Counters(RecordSink sink, std::function<void(const std::string&)> note);

    void add_devices(const std::vector<std::uint32_t>& devices);  // a device may come again
    // Begins with devices that are new, and decodes when that is due.
    void sample();
    void stop();
    // True once after the first sampler was made and once after the first decoding: CUPTI's library has then been used
    // in a way that it had not.
    bool take_first_use() { return std::exchange(first_use_, false); }
    Clock::time_point due() const;  // of the next sample(); far off while none is sampled

  private:
    bool noting_refusal(const std::function<void()>& work);

    RecordSink sink_;
    std::function<void(const std::string&)> note_;
    std::vector<std::uint32_t> new_devices_;
    std::set<std::uint32_t> seen_;
    std::vector<std::unique_ptr<CounterSampler>> samplers_;
    Clock::time_point next_;
    bool has_decoded_ = false;
    bool first_use_ = false;
};

}  // namespace oomb::profiler
