#include "trainer/weights/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

struct Descriptor {
    int fd;
    ~Descriptor() { ::close(fd); }
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile MappedFile::open(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a named pipe must fail below instead of waiting for a writer.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fail<FileError>("{}: cannot be opened: {}", path.string(), std::strerror(errno));
    }
    const Descriptor descriptor{fd};
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        fail<FileError>("{}: cannot be examined: {}", path.string(), std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        fail<FileError>("{}: not a regular file", path.string());
    }
    if (status.st_size == 0) {
        return MappedFile(path, {});
    }
    const auto size_bytes = static_cast<std::size_t>(status.st_size);
    void* address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
        fail<FileError>("{}: {} bytes cannot be mapped: {}", path.string(), size_bytes, std::strerror(errno));
    }
    return MappedFile(path, {static_cast<const std::byte*>(address), size_bytes});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) {
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

}  // namespace oomb::trainer
