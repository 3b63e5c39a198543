#include "runtime/core/version.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/messages.hpp"

namespace oomb {

TEST_CASE("--version names program, version, commit, CUDA and LibTorch") {
    const BuildInfo& info = build_info();
    CHECK(info.version.find('.') != std::string_view::npos);
    for (const std::string_view part : {info.commit, info.cuda, info.libtorch}) {
        CHECK_FALSE(part.empty());
    }
    const std::string text = version_text("oomb-plan");
    CHECK(text.starts_with("oomb-plan " + std::string(info.version) + "\n"));
    test::check_contains(text,
                         {"commit    " + std::string(info.commit) + "\n", "CUDA      " + std::string(info.cuda) + "\n",
                          "LibTorch  " + std::string(info.libtorch) + "\n"});
}

}  // namespace oomb
