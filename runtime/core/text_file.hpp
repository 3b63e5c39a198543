#pragma once
// Whole text files: read with a limit, written so that a reader never sees half of one.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace oomb {

// The whole file. Throws FileError when it cannot be read, is a folder, or holds more than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

// Writes beside `path`, flushes to the disk, renames over `path`, flushes the folder. On failure throws FileError,
// leaves an existing file as it was and removes what it began.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace oomb
