#pragma once
// Files for tests: a folder that goes away, and safetensors with any header, honest or not.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oomb::trainer {

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "oomb-test-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    REQUIRE(file.good());
}

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A safetensors file: the length of `header`, the header as it stands, the data.
inline std::string safetensors(std::string_view header, std::string_view data) {
    return bytes_of_values<std::uint64_t>({header.size()}) + std::string(header) + std::string(data);
}

// The message of the exception of type E that `call` throws; fails the test when it throws none.
template <class E, class Call>
std::string message_of(Call&& call) {
    try {
        call();
    } catch (const E& error) {
        return error.what();
    }
    FAIL("no exception of the expected type");
    return {};
}

// Do all of these stand in the message?
inline bool mentions(const std::string& message, std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) {
        if (message.find(part) == std::string::npos) {
            MESSAGE("\"" << std::string(part) << "\" is not in: " << message);
            return false;
        }
    }
    return true;
}

}  // namespace oomb::trainer
