#pragma once
// What CUPTI refuses, in words that say what to do.

#include <cupti.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace oomb::profiler {

struct Versions {
    std::uint32_t cupti = 0;  // 130001
    std::int64_t driver = 0;  // newest CUDA that the driver runs, 13000; 0: not known
};

// Of this process. CUDA's programs load the driver by name, and so does this: nothing here links against one.
Versions versions_here();

// A line without a newline. `call` is what was asked of CUPTI.
std::string explain(CUptiResult result, std::string_view call, const Versions& versions);

// "13.0" of 13000 (CUDA) and of 130001 (CUPTI).
std::string cuda_version_text(std::int64_t version);
std::string cupti_version_text(std::uint32_t version);

}  // namespace oomb::profiler
