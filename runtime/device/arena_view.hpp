#pragma once
// A stretch of memory in one tier that is reserved once and addressed by offsets.

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/core/error.hpp"

namespace oomb::device {

// Owns nothing. `piece_bytes` > 0: the memory was registered with the driver in pieces of that size (the last may be
// shorter), and no copy may cross from one piece into the next (the driver answers cudaErrorInvalidValue); 0: it is one
// piece.
struct ArenaView {
    const char* name = "";  // "HBM arena", for messages
    std::byte* base = nullptr;
    std::int64_t bytes = 0;
    std::int64_t piece_bytes = 0;

    // [offset, offset + count) as a pointer. InternalError when it does not lie inside.
    std::byte* at(std::int64_t offset, std::int64_t count) const {
        require(offset >= 0 && count >= 0 && count <= bytes && offset <= bytes - count,
                "{}: bytes [{}, {} + {}) asked of {}", name, offset, offset, count, bytes);
        return base + offset;
    }

    // `count` elements at a byte offset. InternalError when they do not lie inside or not at a multiple of their size.
    template <class T>
    T* elements(std::int64_t offset, std::int64_t count) const {
        constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
        require(count >= 0 && count <= bytes / kSize && offset % kSize == 0,
                "{}: {} elements of {} bytes asked at offset {}", name, count, kSize, offset);
        return reinterpret_cast<T*>(at(offset, count * kSize));
    }

    std::string describe() const;  // "HBM arena: 12.0 GiB (12,884,901,888 bytes) at 0x7f0000000000"
};

}  // namespace oomb::device
