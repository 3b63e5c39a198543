#pragma once
// Hardware counters of one device, of whoever uses it (CUPTI's PM sampling). For a process of our own: CUPTI's
// libraries for it register what they do at exit while a sampler is made, and a program that ends meanwhile ends badly.

#include <cupti_pmsampling.h>

#include <chrono>
#include <memory>

#include "profiler/record/counter_samples.hpp"

namespace oomb::profiler {

// Used by one thread. Samples lie in a buffer of CUPTI's until decode() takes them: it holds some 18 s.
class CounterSampler {
  public:
    // Begins; cuInit has been called. Throws UnsupportedError: no permission, a chip that cannot do it, another tool
    // that does it already.
    explicit CounterSampler(std::uint32_t device);
    CounterSampler(const CounterSampler&) = delete;
    CounterSampler& operator=(const CounterSampler&) = delete;
    ~CounterSampler();  // stops; what was not decoded is lost

    // Writes what was sampled since the last call. Throws UnsupportedError where CUPTI fails: no more will come.
    void decode(const RecordSink& sink);
    // Ends sampling and writes the rest. Throws as decode().
    void stop(const RecordSink& sink);

    std::int64_t lost() const { return lost_; }  // samples that an image was cleared with before they were complete

    static constexpr std::chrono::nanoseconds kInterval = std::chrono::milliseconds(1);
    static constexpr std::chrono::milliseconds kDecodeEvery{250};

  private:
    void configure();
    void release();
    void make_image();
    void clear_image();
    bool decode_to_image();
    void read_samples(const RecordSink& sink);

    std::uint32_t device_;
    std::unique_ptr<CounterPlan> plan_;
    CUpti_PmSampling_Object* sampling_ = nullptr;
    bool started_ = false;
    std::vector<std::uint8_t> image_;  // of CUPTI: decoded samples, of which
    std::size_t read_ = 0;             // are written, and
    std::size_t open_ = 0;             // after those are not complete
    std::int64_t lost_ = 0;
};

}  // namespace oomb::profiler
