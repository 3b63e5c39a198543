#pragma once
// What a fuzz target may do with bytes from anywhere: accept them, or throw one of our errors.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/core/error.hpp"

namespace oomb::fuzz {

// InternalError is a fault of ours, whatever the bytes: it gets through, and so does what is no error of ours.
int refuses_or_accepts(const auto& read) {
    try {
        read();
    } catch (const InternalError&) {
        throw;
    } catch (const Error&) {
    }
    return 0;
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// For readers that open a path: the bytes as a file of this process, in memory where there is /dev/shm.
inline std::filesystem::path as_file(const std::uint8_t* data, std::size_t size, std::string_view suffix) {
    static const std::filesystem::path kFolder = [] {
        const bool in_memory = std::filesystem::is_directory("/dev/shm");
        auto folder = (in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
                      ("oomb-fuzz-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder);
        return folder;
    }();
    const std::filesystem::path path = kFolder / ("input" + std::string(suffix));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path;
}

}  // namespace oomb::fuzz
