#pragma once
// Time by call of CUDA's runtime and driver, and rates of hardware counters, where they were recorded.

#include "profiler/analysis/sums.hpp"

namespace oomb::profiler {

// Calls by name, the largest total first. A driver call that a runtime call makes is in the time of both.
std::vector<NameSum> sums_by_call(const Profile& profile);

// "cudaLaunchKernel" of "cudaLaunchKernel_v7000": CUPTI appends the version of CUDA that brought the call.
std::string_view call_name(std::string_view name);

struct CounterSum {
    std::uint32_t device = 0;
    std::string name;  // "pcie__read_bytes.sum"
    std::int64_t samples = 0;
    std::int64_t bytes = 0;       // in all samples,
    std::int64_t sampled_ns = 0;  // which cover so long
    double most_per_second = 0;   // in one sample

    double bytes_per_second() const;  // the mean
};

// By device and name.
std::vector<CounterSum> sums_by_counter(const Profile& profile);

// What a counter means to a reader: "PCIe, host to device" of "pcie__read_bytes.sum"; another's name stays.
std::string_view counter_title(std::string_view name);

}  // namespace oomb::profiler
