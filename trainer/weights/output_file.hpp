#pragma once
// Files that are written whole or not at all.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace oomb::trainer {

// The system calls behind every written byte, so that a test can make any of them fail.
struct FileCalls {
    std::function<ssize_t(int, const void*, std::size_t)> write;  // as write(2): may write less than asked
    std::function<int(int)> sync;                                 // as fsync(2)

    static FileCalls system();
};

// A new file, or the end of one that is there, written from begin to end. An object that dies before `close` leaves the
// file as it is.
class OutputFile {
  public:
    enum class Mode : std::uint8_t { kNew, kAppend };
    // Throws FileError when the file exists (kNew), is missing (kAppend) or cannot be opened. `calls` must outlive this
    // object.
    OutputFile(const std::filesystem::path& path, const FileCalls& calls, Mode mode = Mode::kNew);
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    // Each throws FileError with the path, what the system says and how many bytes were written before.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    void close();  // flushed to the disk, then closed

  private:
    std::filesystem::path path_;
    const FileCalls& calls_;
    int fd_;
    std::int64_t written_bytes_ = 0;
};

// "runs/a/" and "runs/a" are the same folder, with the parent "runs"; "a" has the parent ".".
std::filesystem::path without_trailing_slash(const std::filesystem::path& path);
std::filesystem::path parent_of(const std::filesystem::path& path);

// Makes the entries of a folder durable. Throws FileError.
void sync_folder(const std::filesystem::path& folder, const FileCalls& calls);

// Renames a folder to a name that does not exist yet; never replaces anything. Throws FileError.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Bytes that this user may still write to the file system of `folder`. Throws FileError.
std::int64_t free_bytes(const std::filesystem::path& folder);

}  // namespace oomb::trainer
