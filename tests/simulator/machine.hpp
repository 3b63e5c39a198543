#pragma once
// Made-up machines for tests.

#include "runtime/core/hardware_profile.hpp"

namespace oomb::test {

// Rates for every element type. Two directions at once are slower than one alone, but not by half.
inline HardwareProfile machine() {
    const auto flops = [](double rate) {
        std::map<DType, SourcedRate> rates;
        for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
            rates[dtype] = {rate, "made up"};
        }
        return rates;
    };
    HardwareProfile profile;
    profile.name = "made up";
    profile.gemm_flops = flops(1e9);
    profile.attention_forward_flops = flops(8e8);
    profile.attention_backward_flops = flops(7e8);
    profile.attention_forward_causal_flops = flops(6e8);
    profile.attention_backward_causal_flops = flops(5e8);
    profile.hbm_copy_bytes.per_second = 1e9;
    profile.hbm_read_bytes.per_second = 9e8;
    profile.hbm_write_bytes.per_second = 11e8;
    profile.host_to_device_bytes.per_second = 1e8;
    profile.device_to_host_bytes.per_second = 9e7;
    profile.host_to_device_both_bytes.per_second = 6e7;
    profile.device_to_host_both_bytes.per_second = 5e7;
    profile.launch.seconds = 1e-6;
    return profile;
}

}  // namespace oomb::test
