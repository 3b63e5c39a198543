#pragma once
// What CUPTI's PM sampling samples, and the samples as records.

#include <cupti.h>
#include <cupti_profiler_host.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/record/decode.hpp"

namespace oomb::profiler {

// Bytes over PCIe as the GPU sees it (read: host to device) and of its memory. One pass takes them all on GH100.
inline constexpr const char* kCounterMetrics[] = {"pcie__read_bytes.sum", "pcie__write_bytes.sum",
                                                  "dram__bytes_read.sum", "dram__bytes_write.sum"};

// The host's side of sampling a chip: needs no GPU.
class CounterPlan {
  public:
    // `chip` as CUPTI names it ("GH100"); `availability` of the device, or empty. Metrics that the chip does not have
    // are left out. Throws UnsupportedError: the chip is not known, has none of the metrics, or needs several passes.
    CounterPlan(std::string chip, std::vector<std::uint8_t> availability);
    CounterPlan(const CounterPlan&) = delete;
    CounterPlan& operator=(const CounterPlan&) = delete;
    ~CounterPlan();

    const std::vector<const char*>& metrics() const { return metrics_; }
    std::span<const std::uint8_t> config_image() const { return config_image_; }
    // Of one sample of a counter data image, in the order of metrics().
    std::vector<double> values(std::span<const std::uint8_t> image, std::size_t sample) const;

  private:
    void make_config_image();
    void release();

    std::string chip_;  // these two as long as the host's object, which may look at them
    std::vector<std::uint8_t> availability_;
    CUpti_Profiler_Host_Object* host_ = nullptr;
    std::vector<const char*> metrics_;
    std::vector<std::uint8_t> config_image_;
};

struct CounterSample {
    std::uint64_t begin_ns = 0, end_ns = 0;
    std::vector<double> values;
};

// Writes a sample's counters. A sample that covers no time (the first and the last of a sampling do not) and a value
// that is no count are left out.
void add_counters(std::uint32_t device, std::span<const char* const> metrics, const CounterSample& sample,
                  const RecordSink& sink);

// Throws UnsupportedError where CUPTI refuses: what, and why.
void check_counters(CUptiResult result, const char* call);

}  // namespace oomb::profiler
