#pragma once
// A disk that is full at one call.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "trainer/weights/output_file.hpp"

namespace oomb::trainer {

// The system's calls, but that number `failing`, counted from 0, fails; a write takes at most `most_bytes`.
class FailingCalls {
  public:
    explicit FailingCalls(int failing, std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
        : failing_(failing), most_bytes_(most_bytes) {}
    // This object must outlive them.
    FileCalls calls() {
        return {.write = [this](int fd, const void* data, std::size_t size) -> ssize_t {
                    return fails_now() ? -1 : ::write(fd, data, std::min(size, most_bytes_));
                },
                .sync = [this](int fd) { return fails_now() ? -1 : ::fsync(fd); }};
    }
    int made() const { return made_; }

  private:
    bool fails_now() {
        errno = ENOSPC;
        return made_++ == failing_;
    }

    int failing_;
    std::size_t most_bytes_;
    int made_ = 0;
};

}  // namespace oomb::trainer
