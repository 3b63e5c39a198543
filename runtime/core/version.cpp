#include "runtime/core/version.hpp"

#include <fmt/format.h>

namespace oomb {

const BuildInfo& build_info() {
    static constexpr BuildInfo kInfo{OOMB_VERSION_TEXT, OOMB_COMMIT_TEXT, OOMB_CUDA_TEXT, OOMB_LIBTORCH_TEXT};
    return kInfo;
}

std::string version_text(std::string_view program) {
    const BuildInfo& info = build_info();
    return fmt::format("{} {}\ncommit    {}\nCUDA      {}\nLibTorch  {}\n", program, info.version, info.commit,
                       info.cuda, info.libtorch);
}

}  // namespace oomb
