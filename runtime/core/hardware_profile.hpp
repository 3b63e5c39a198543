#pragma once
// What a machine gives, as measured: sizes and sustained rates, each with the source of the number.
//
// File format "oomb-hardware-profile", version 2 (JSON). Unknown keys and duplicate keys are errors. Every number
// stands in an object with its "source": text that says where it comes from.
//   format            "oomb-hardware-profile"
//   version           2
//   name              what the machine is called
//   measured          text, optional: when, under which driver, where in the machine
//   gpu_memory        {"bytes": integer}
//   host_memory       {"bytes": integer}, what a process may use
//   multiprocessors   {"count": integer}: matrix products and attention come in waves of so many tiles
//   gemm              {"<dtype>": {"tflops": number, "wave_microseconds": number}, ...}, dtype fp64 | fp32 | bf16 |
//   fp16:
//                     the rate with all multiprocessors at work, and what a wave of tiles takes beside its FLOPs (it
//                     begins, it ends)
//   gemm_sum          {"gb_per_s": number}, bytes read and written of what a product is added to; part of them hides
//                     behind the product
//   attention_forward, attention_backward   {"<dtype>": {"<head size>": as gemm, ...}, ...}: every query sees every key
//   attention_forward_causal, attention_backward_causal   the same of queries over the keys of their own chunk, where
//                     the mask hides half of the (query, key) pairs; only pairs that are seen are counted
//   attention_backward_deterministic, attention_backward_causal_deterministic   the same with --deterministic; optional
//   own_attention_forward, own_attention_backward, ...   the same six of our own kernels, which compute lists of pages
//                     and --attention-kernels own; optional: without one it is as fast as the one above
//   peak              {"<dtype>": {"tflops": number}, ...}, optional: what the data sheet promises, for utilisation
//   hbm_copy          {"gb_per_s": number}, bytes read + bytes written
//   hbm_read, hbm_write   bytes that a kernel only reads (a sum) or only writes (clearing)
//   passes            {"<pass>": {"gb_per_s": number}, ...}: element-wise kernels that do not run at hbm_copy, by the
//                     names of kPasses; may be empty
//   host_to_device, device_to_host             {"gb_per_s": number}, one direction alone
//   host_to_device_both, device_to_host_both   while the other direction is busy too
//   launch            {"microseconds": number}, what a kernel takes beside its work: the gap before it, ramp and tail
//   copy_start        {"microseconds": number}, the same of an operation that copies between the tiers
//   submit            {"microseconds": number}, what the host takes to hand a kernel, or a copy, to the GPU
//   submit_page       {"microseconds": number}, and for each run of neighbouring pages of the copy
// GB are 10^9 bytes, TFLOP/s 10^12 operations per second.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "runtime/core/dtype.hpp"

namespace oomb {

struct SourcedCount {
    std::int64_t count = 0;
    std::string source;
};

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

// Of work that is done in waves of tiles, one tile per multiprocessor.
struct TileRate {
    double per_second = 0;    // FLOPs, with all multiprocessors at work
    double wave_seconds = 0;  // of each wave beside its FLOPs
    std::string source;
};

using HeadRates = std::map<DType, std::map<std::int64_t, TileRate>>;  // by head size

inline constexpr std::array<std::string_view, 8> kPasses = {
    "norm", "norm_backward", "rope", "rope_backward", "cross_entropy", "embedding", "optimizer", "embedding_backward"};

struct HardwareProfile {
    std::string name;
    std::string measured;  // may be empty
    SourcedBytes gpu_memory;
    SourcedBytes host_memory;
    SourcedCount multiprocessors;
    std::map<DType, TileRate> gemm_flops;
    SourcedRate gemm_sum_bytes;
    HeadRates attention_forward_flops;
    HeadRates attention_backward_flops;
    HeadRates attention_forward_causal_flops;
    HeadRates attention_backward_causal_flops;
    HeadRates attention_backward_deterministic_flops;         // may be empty
    HeadRates attention_backward_causal_deterministic_flops;  // may be empty
    HeadRates own_attention_forward_flops;                    // and so may these
    HeadRates own_attention_backward_flops;
    HeadRates own_attention_forward_causal_flops;
    HeadRates own_attention_backward_causal_flops;
    HeadRates own_attention_backward_deterministic_flops;
    HeadRates own_attention_backward_causal_deterministic_flops;
    std::map<DType, SourcedRate> peak_flops;  // may be empty
    SourcedRate hbm_copy_bytes;
    SourcedRate hbm_read_bytes;
    SourcedRate hbm_write_bytes;
    std::map<std::string, SourcedRate, std::less<>> pass_bytes;  // by the names of kPasses
    SourcedRate host_to_device_bytes;
    SourcedRate device_to_host_bytes;
    SourcedRate host_to_device_both_bytes;
    SourcedRate device_to_host_both_bytes;
    SourcedSeconds launch;
    SourcedSeconds copy_start;
    SourcedSeconds submit;
    SourcedSeconds submit_page;
};

// Throw FileError: the key, what was found, what is allowed.
HardwareProfile read_hardware_profile(const std::filesystem::path& path);
HardwareProfile parse_hardware_profile(const std::string& json_text, const std::string& name_in_messages);

// The file's text, numbers rounded to six digits.
std::string to_json(const HardwareProfile& profile);

}  // namespace oomb
