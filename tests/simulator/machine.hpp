#pragma once
// Made-up machines for tests.

#include "runtime/core/hardware_profile.hpp"

namespace oomb::test {

// Rates for every element type. Two directions at once are slower than one alone, but not by half.
inline HardwareProfile machine() {
    const auto heads = [](double rate) {
        HeadRates rates;
        for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
            rates[dtype][64] = {rate, 0.0, "made up"};
        }
        return rates;
    };
    HardwareProfile profile;
    profile.name = "made up";
    profile.gpu_memory = profile.host_memory = {std::int64_t{1} << 40, "made up"};
    profile.multiprocessors = {4, "made up"};
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
        profile.gemm_flops[dtype] = {1e9, 0.0, "made up"};
    }
    profile.gemm_sum_bytes.per_second = 1e9;
    profile.attention_forward_flops = heads(8e8);
    profile.attention_backward_flops = heads(7e8);
    profile.attention_forward_causal_flops = heads(6e8);
    profile.attention_backward_causal_flops = heads(5e8);
    profile.attention_backward_deterministic_flops = heads(4e8);
    profile.attention_backward_causal_deterministic_flops = heads(3e8);
    profile.hbm_copy_bytes.per_second = 1e9;
    profile.hbm_read_bytes.per_second = 9e8;
    profile.hbm_write_bytes.per_second = 11e8;
    profile.host_to_device_bytes.per_second = 1e8;
    profile.device_to_host_bytes.per_second = 9e7;
    profile.host_to_device_both_bytes.per_second = 6e7;
    profile.device_to_host_both_bytes.per_second = 5e7;
    profile.launch.seconds = profile.copy_start.seconds = 1e-6;
    return profile;
}

}  // namespace oomb::test
