#pragma once
// A folder of its own for a test, removed with everything in it.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "runtime/core/error.hpp"
#include "runtime/core/text_file.hpp"

namespace oomb::test {

class ScratchFolder {
  public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "oomb-test-XXXXXX").string();
        require(::mkdtemp(name.data()) != nullptr, "no folder {} for a test", name);
        path_ = name;
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path write(const std::filesystem::path& name, std::string_view text) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        write_text_file(path_ / name, text);
        return path_ / name;
    }

  private:
    std::filesystem::path path_;
};

}  // namespace oomb::test
