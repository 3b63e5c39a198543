#include "runtime/core/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 16;

// Owns a file descriptor.
class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    int get() const { return fd_; }
    // A delayed write error may first show here.
    bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

  private:
    int fd_;
};

// Removes a file that was not brought to its end.
class Unfinished {
  public:
    explicit Unfinished(std::filesystem::path path) : path_(std::move(path)) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        if (!finished_) {
            ::unlink(path_.c_str());
        }
    }
    void finish() { finished_ = true; }

  private:
    std::filesystem::path path_;
    bool finished_ = false;
};

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, std::string_view action) {
    fail<FileError>("{}: cannot be {}: {}", path.string(), action, std::strerror(errno));
}

void write_all(int fd, std::string_view text, const std::filesystem::path& path) {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            fail_with_errno(path, "written");
        }
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        fail_with_errno(path, "opened");
    }
    std::string text;
    for (;;) {
        const std::size_t held = text.size();
        text.resize(held + kReadBytes);
        const ssize_t got = ::read(file.get(), text.data() + held, kReadBytes);
        if (got < 0 && errno != EINTR) {
            fail_with_errno(path, "read");
        }
        text.resize(held + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (static_cast<std::int64_t>(text.size()) > max_bytes) {
            fail<FileError>("{}: holds more than {}, the most that is read of such a file", path.string(),
                            format_bytes(max_bytes));
        }
        if (got == 0) {
            return text;
        }
    }
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    const std::filesystem::path beside = folder / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
    Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.get() < 0) {
        fail_with_errno(beside, "created");
    }
    Unfinished unfinished(beside);
    write_all(file.get(), text, beside);
    if (::fsync(file.get()) != 0 || !file.close()) {
        fail_with_errno(beside, "flushed to the disk");
    }
    if (::rename(beside.c_str(), path.c_str()) != 0) {
        fail_with_errno(path, "replaced");
    }
    unfinished.finish();
    const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Some file systems refuse to flush a folder; the file itself is safe by then.
    if (directory.get() >= 0 && ::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
        fail_with_errno(folder, "flushed to the disk");
    }
}

}  // namespace oomb
