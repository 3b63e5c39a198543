#include "trainer/weights/output_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::trainer {

FileCalls FileCalls::system() {
    return {.write = [](int fd, const void* data, std::size_t count) { return ::write(fd, data, count); },
            .sync = [](int fd) { return ::fsync(fd); }};
}

OutputFile::OutputFile(const std::filesystem::path& path, const FileCalls& calls, Mode mode)
    : path_(path),
      calls_(calls),
      fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (mode == Mode::kNew ? O_CREAT | O_EXCL : O_APPEND), 0666)) {
    if (fd_ < 0) {
        fail<FileError>("{}: cannot be {}: {}", path.string(), mode == Mode::kNew ? "created" : "opened",
                        std::strerror(errno));
    }
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

void OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = calls_.write(fd_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            const int error = written == 0 ? ENOSPC : errno;
            fail<FileError>("{}: writing failed after {} bytes: {}", path_.string(), written_bytes_,
                            std::strerror(error));
        }
        written_bytes_ += written;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void OutputFile::write(std::string_view text) {
    write(std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::close() {
    if (calls_.sync(fd_) != 0) {
        fail<FileError>("{}: {} bytes could not be flushed to the disk: {}", path_.string(), written_bytes_,
                        std::strerror(errno));
    }
    // Some network file systems report a failed write only here.
    if (::close(std::exchange(fd_, -1)) != 0) {
        fail<FileError>("{}: closing after {} bytes failed: {}", path_.string(), written_bytes_, std::strerror(errno));
    }
}

std::filesystem::path without_trailing_slash(const std::filesystem::path& path) {
    const std::filesystem::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void sync_folder(const std::filesystem::path& folder, const FileCalls& calls) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = fd >= 0 && calls.sync(fd) == 0;
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    if (!synced && error != EINVAL && error != ENOTSUP) {  // some file systems cannot flush folders
        fail<FileError>("{}: the folder could not be flushed to the disk: {}", folder.string(), std::strerror(error));
    }
}

void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to) {
    int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {  // a file system without this flag
        std::error_code error;
        const bool exists = std::filesystem::exists(std::filesystem::symlink_status(to, error));
        errno = EEXIST;
        result = exists ? -1 : ::rename(from.c_str(), to.c_str());
    }
    if (result != 0) {
        fail<FileError>("{}: cannot be renamed to {}: {}", from.string(), to.string(), std::strerror(errno));
    }
}

std::int64_t free_bytes(const std::filesystem::path& folder) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0) {
        fail<FileError>("{}: free space cannot be read: {}", folder.string(), std::strerror(errno));
    }
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(std::uint64_t{status.f_bavail}, std::uint64_t{status.f_frsize}, &bytes)) {
        bytes = kMax;
    }
    return static_cast<std::int64_t>(std::min(bytes, kMax));
}

}  // namespace oomb::trainer
