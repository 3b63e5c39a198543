#pragma once
// What a machine gives, as measured: sizes and sustained rates, each with the source of the number.
//
// File format "oomb-hardware-profile", version 1 (JSON). Unknown keys and duplicate keys are errors.
//   format            "oomb-hardware-profile"
//   version           1
//   name              what the machine is called
//   gpu_memory        {"bytes": integer, "source": text}
//   host_memory       {"bytes": integer, "source": text}, what a process may use
//   gemm              {"<dtype>": {"tflops": number, "source": text}, ...}, dtype fp64 | fp32 | bf16 | fp16
//   attention_forward, attention_backward   as gemm: every query sees every key
//   attention_forward_causal, attention_backward_causal   as gemm: queries over the keys of their own chunk, where the
//                     causal mask hides half of the (query, key) pairs; only pairs that are seen are counted
//   peak              as gemm, optional: what the data sheet promises, for utilisation
//   hbm_copy          {"gb_per_s": number, "source": text}, bytes read + bytes written
//   hbm_read, hbm_write   as hbm_copy, bytes that a kernel only reads (a sum) or only writes (clearing)
//   host_to_device, device_to_host          as hbm_copy, one direction alone
//   host_to_device_both, device_to_host_both   as hbm_copy, while the other direction is busy too
//   launch            {"microseconds": number, "source": text}, what an operation takes beside its work: the gap before
//                     it, ramp and tail
// GB are 10^9 bytes, TFLOP/s 10^12 operations per second.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/core/dtype.hpp"

namespace oomb {

struct SourcedBytes {
    std::int64_t bytes = 0;
    std::string source;
};

// Bytes or floating-point operations per second.
struct SourcedRate {
    double per_second = 0;
    std::string source;
};

struct SourcedSeconds {
    double seconds = 0;
    std::string source;
};

struct HardwareProfile {
    std::string name;
    SourcedBytes gpu_memory;
    SourcedBytes host_memory;
    std::map<DType, SourcedRate> gemm_flops;
    std::map<DType, SourcedRate> attention_forward_flops;
    std::map<DType, SourcedRate> attention_backward_flops;
    std::map<DType, SourcedRate> attention_forward_causal_flops;
    std::map<DType, SourcedRate> attention_backward_causal_flops;
    std::map<DType, SourcedRate> peak_flops;  // may be empty
    SourcedRate hbm_copy_bytes;
    SourcedRate hbm_read_bytes;
    SourcedRate hbm_write_bytes;
    SourcedRate host_to_device_bytes;
    SourcedRate device_to_host_bytes;
    SourcedRate host_to_device_both_bytes;
    SourcedRate device_to_host_both_bytes;
    SourcedSeconds launch;
};

// Throw FileError: the key, what was found, what is allowed.
HardwareProfile read_hardware_profile(const std::filesystem::path& path);
HardwareProfile parse_hardware_profile(const std::string& json_text, const std::string& name_in_messages);

}  // namespace oomb
