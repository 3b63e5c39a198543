#pragma once
// A whole file mapped read-only into memory.

#include <cstddef>
#include <filesystem>
#include <span>

namespace oomb::trainer {

// Owns the mapping; moving it keeps the addresses. Pages are read from disk when touched and may be dropped by the
// kernel at any time, so a mapped file costs no anonymous memory. Symbolic links are followed. Reading is thread-safe.
// The file must not be shortened while it is mapped (the kernel would end the process with SIGBUS).
class MappedFile {
  public:
    // Throws FileError when the file is missing, unreadable or not a regular file. An empty file maps to no bytes.
    static MappedFile open(const std::filesystem::path& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return bytes_; }
    const std::filesystem::path& path() const { return path_; }

  private:
    MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);

    std::filesystem::path path_;
    std::span<const std::byte> bytes_;
};

}  // namespace oomb::trainer
