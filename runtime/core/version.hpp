#pragma once
// What `--version` prints.

#include <string>
#include <string_view>

namespace oomb {

struct BuildInfo {
    std::string_view version;   // "0.1.0"
    std::string_view commit;    // short hash when the build was configured, or "unknown"
    std::string_view cuda;      // version of the toolkit, or "none"
    std::string_view libtorch;  // "2.11.0+cu130", or "none"
};

const BuildInfo& build_info();

// "<program> 0.1.0" and a line each for commit, CUDA and LibTorch; ends with a newline.
std::string version_text(std::string_view program);

}  // namespace oomb
